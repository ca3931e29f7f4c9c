use touchline::storage::StoreError;

/// Why an invocation failed.
#[derive(Debug, thiserror::Error)]
pub enum StandingsError {
    #[error("the payload must be {{}} or {{\"rebuild\": true}}: {0}")]
    InvalidPayload(String),
    #[error("the store failed: {0}")]
    Store(#[from] StoreError),
    #[error("a worker failed: {0}")]
    Worker(String),
}
