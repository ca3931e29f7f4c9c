use std::fmt;

/// Text that `Debug` output hides, so it cannot reach a log by accident.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    pub(super) fn new(text: String) -> Self {
        Self(text)
    }

    /// Creates a secret for an HTTP header. Returns `None` if the text is short enough to guess, or not valid in a
    /// header.
    pub(super) fn token(text: &str) -> Option<Self> {
        let is_token = text.len() >= 16 && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_token.then(|| Self(text.to_owned()))
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
