use super::variables::Variables;

/// Which deployment this is. A missing or unknown `ENVIRONMENT` means production.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Environment {
    Local,
    Testing,
    Staging,
    Production,
}

impl Environment {
    pub(super) fn read(vars: &Variables<'_>) -> Self {
        match vars.get("ENVIRONMENT").as_deref() {
            Some("local") => Self::Local,
            Some("testing") => Self::Testing,
            Some("staging") => Self::Staging,
            _ => Self::Production,
        }
    }

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Testing => "testing",
            Self::Staging => "staging",
            Self::Production => "production",
        }
    }

    /// Returns whether the SMS log stores codes in clear text, and whether responses have a header with the DynamoDB
    /// usage of the request. True everywhere except in production.
    #[must_use]
    pub fn shows_codes(self) -> bool {
        self != Self::Production
    }

    /// Returns whether messages cost money: whether they go to the phones of users.
    pub(super) fn pays_for_messages(self) -> bool {
        matches!(self, Self::Staging | Self::Production)
    }

    /// Returns whether the log of this deployment is a developer's terminal.
    pub(super) fn logs_to_a_terminal(self) -> bool {
        matches!(self, Self::Local | Self::Testing)
    }
}
