//! Errors of the store.

use aws_sdk_dynamodb::error::{BuildError, ProvideErrorMetadata, SdkError};

/// A failed storage operation.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// DynamoDB throttled the call, failed or did not respond, and the SDK's retries are exhausted. The
    /// caller may retry later.
    #[error("{operation} failed after retries ({code})")]
    Busy { operation: &'static str, code: String },
    /// Other writers kept changing `what`, or DynamoDB kept throttling it, until our retries were exhausted.
    /// The caller may retry later.
    #[error("contention on {what}")]
    Contended { what: &'static str },
    /// Another request of the same user has changed `what` meanwhile. Only that user's own requests can cause this.
    #[error("another request of the user has changed {what}")]
    Overtaken { what: &'static str },
    /// A mistake of ours: a missing table, a missing permission or an invalid expression. A retry does not
    /// help.
    #[error("{operation} is misconfigured: {code}")]
    Misconfigured { operation: &'static str, code: String },
    /// A stored item does not deserialize. Serde's message is dropped, because it quotes stored values.
    #[error("an item could not be read as {0}")]
    Unreadable(&'static str),
}

/// DynamoDB error codes after which the caller may retry later.
const RETRYABLE: &[&str] = &[
    "TransactionConflictException",
    "TransactionCanceledException",
    "TransactionInProgressException",
    "ProvisionedThroughputExceededException",
    "ThrottlingException",
    "RequestLimitExceeded",
    "InternalServerError",
];

/// Error codes that mean: the call itself is wrong, or its item is too large.
const PERMANENT: &[&str] = &[
    "ValidationException",
    "ItemCollectionSizeLimitExceededException",
    "SerializationException",
    "ConstructionFailure",
    INCOMPLETE,
];

/// Our code for a request that lacks a required part.
const INCOMPLETE: &str = "IncompleteRequest";

impl StoreError {
    /// Returns whether the same call fails again, until the stored items or our code change. A missing table or permission
    /// does not count: an operator restores it, and then a retry succeeds.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Unreadable(_) => true,
            Self::Misconfigured { code, .. } => PERMANENT.contains(&code.as_str()),
            Self::Busy { .. } | Self::Contended { .. } | Self::Overtaken { .. } => false,
        }
    }

    /// Classifies an SDK error. The error's message is dropped, because DynamoDB quotes stored values in some
    /// messages.
    pub(super) fn from_sdk<E: ProvideErrorMetadata>(operation: &'static str, error: &SdkError<E>) -> Self {
        let code = error.code().unwrap_or(match error {
            SdkError::TimeoutError(_) => "Timeout",
            SdkError::DispatchFailure(_) => "DispatchFailure",
            SdkError::ConstructionFailure(_) => "ConstructionFailure",
            _ => "Unknown",
        });
        let is_retryable = match error {
            SdkError::TimeoutError(_) | SdkError::DispatchFailure(_) | SdkError::ResponseError(_) => true,
            SdkError::ServiceError(service) => {
                RETRYABLE.contains(&code) || service.raw().status().is_server_error()
            }
            _ => false,
        };
        let code = code.to_owned();
        if is_retryable { Self::Busy { operation, code } } else { Self::Misconfigured { operation, code } }
    }
}

impl From<BuildError> for StoreError {
    /// A build error means that a request lacks a required part: a mistake in the storage module.
    fn from(_: BuildError) -> Self {
        Self::Misconfigured { operation: "build", code: INCOMPLETE.into() }
    }
}
