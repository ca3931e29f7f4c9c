//! Failed conditions of conditional writes.

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;

use super::error::StoreError;
use super::item::Item;

/// Returns true if a conditional write succeeded, and false if its condition failed. Callers that need the
/// stored item use [`item_that_failed_condition`] instead.
pub(super) fn condition_held<T, E: ProvideErrorMetadata>(
    operation: &'static str,
    written: Result<T, SdkError<E>>,
) -> Result<bool, StoreError> {
    match written {
        Ok(_) => Ok(true),
        Err(error) if error.code() == Some("ConditionalCheckFailedException") => Ok(false),
        Err(error) => Err(StoreError::from_sdk(operation, &error)),
    }
}

/// Returns the stored item if the update's condition failed. The item is empty if nothing is stored under the
/// key. Returns `None` for any other error.
pub(super) fn item_that_failed_condition(error: &SdkError<UpdateItemError>) -> Option<Item> {
    match error.as_service_error()? {
        UpdateItemError::ConditionalCheckFailedException(failed) => {
            Some(failed.item().cloned().unwrap_or_default())
        }
        _ => None,
    }
}

/// Returns the stored item if a transaction failed because the condition on its write at `index` was false. The
/// item is empty if nothing is stored under the key of the write. Returns `None` for any other error.
pub(super) fn item_that_failed_in_transaction(
    error: &SdkError<TransactWriteItemsError>,
    index: usize,
) -> Option<Item> {
    match error.as_service_error()? {
        TransactWriteItemsError::TransactionCanceledException(cancelled) => {
            let reason = cancelled.cancellation_reasons().get(index)?;
            let has_failed = reason.code() == Some("ConditionalCheckFailed");
            has_failed.then(|| reason.item().cloned().unwrap_or_default())
        }
        _ => None,
    }
}

/// Returns the error of a transaction on items that only requests of one user change. A conflict means that another of them was
/// faster.
pub(super) fn own_transaction_error(
    what: &'static str,
    error: &SdkError<TransactWriteItemsError>,
) -> StoreError {
    match error.as_service_error() {
        Some(TransactWriteItemsError::TransactionCanceledException(cancelled))
            if cancelled
                .cancellation_reasons()
                .iter()
                .any(|reason| reason.code() == Some("TransactionConflict")) =>
        {
            StoreError::Overtaken { what }
        }
        _ => StoreError::from_sdk("TransactWriteItems", error),
    }
}
