use touchline::storage::StoreError;

/// Why an invocation failed.
#[derive(Debug, thiserror::Error)]
pub enum StandingsError {
    #[error("the payload must be {{}}, {{\"rebuild\": true}} or {{\"room\": \"!abc:example.org\"}}: {0}")]
    InvalidPayload(String),
    #[error("the store failed: {0}")]
    Store(#[from] StoreError),
    #[error("the table of the room cannot be built: {0}")]
    Room(#[from] touchline::Error),
    #[error("the room does not exist, or has too many members for a table")]
    NoTable,
    #[error("a worker failed: {0}")]
    Worker(String),
}
