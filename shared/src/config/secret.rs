use std::fmt;

/// Text that `Debug` output hides, so it cannot reach a log by accident.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    pub(super) fn new(text: String) -> Self {
        Self(text)
    }

    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}
