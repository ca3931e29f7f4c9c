//! The DynamoDB client: timeouts, retries, capacity meter.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{HttpClient, Region};
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation;
use aws_sdk_dynamodb::operation::transact_get_items::TransactGetItemsError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_smithy_runtime_api::client::interceptors::context::InterceptorContext;
use aws_smithy_runtime_api::client::retries::classifiers::{ClassifyRetry, RetryAction};
use futures_util::future::BoxFuture;

use super::meter::Meter;
use crate::config::Aws;

/// Builds the DynamoDB client that every Lambda function uses.
///
/// Waits between attempts grow exponentially, with full jitter. Six attempts fit into a request's time limit:
/// the first wait is at most 25 ms, and all waits together are at most 0.8 s.
#[must_use]
pub fn connect(aws: &Aws, http: impl HttpClient + 'static) -> Client {
    let mut config = aws_sdk_dynamodb::Config::builder()
        .region(Region::new(aws.region.clone()))
        .credentials_provider(aws.credentials.clone())
        .http_client(http)
        .timeout_config(
            TimeoutConfig::builder()
                .operation_attempt_timeout(Duration::from_secs(2))
                .operation_timeout(Duration::from_secs(4))
                .build(),
        )
        .retry_config(
            RetryConfig::standard().with_max_attempts(6).with_initial_backoff(Duration::from_millis(25)),
        )
        .retry_classifier(TransactionConflicts)
        .interceptor(Meter);
    if let Some(endpoint) = &aws.dynamodb_endpoint {
        config = config.endpoint_url(endpoint);
    }
    Client::from_conf(config.build())
}

/// A retry classifier for two errors that the SDK does not retry: a conflict between a transaction and another
/// write, and a throttled transaction. A transaction in which a condition failed is not retried.
#[derive(Debug)]
struct TransactionConflicts;

impl ClassifyRetry for TransactionConflicts {
    fn classify_retry(&self, context: &InterceptorContext) -> RetryAction {
        let Some(Err(error)) = context.output_or_error() else { return RetryAction::NoActionIndicated };
        let Some(error) = error.as_operation_error() else { return RetryAction::NoActionIndicated };
        let is_conflict = match error.downcast_ref::<TransactWriteItemsError>() {
            Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => {
                let codes = || cancelled.cancellation_reasons().iter().filter_map(|reason| reason.code());
                codes().any(|code| {
                    matches!(
                        code,
                        "TransactionConflict" | "ThrottlingError" | "ProvisionedThroughputExceeded"
                    )
                }) && !codes().any(|code| code == "ConditionalCheckFailed")
            }
            _ => match error.downcast_ref::<TransactGetItemsError>() {
                // A transactional read fails while one of its items is being written.
                Some(TransactGetItemsError::TransactionCanceledException(_)) => true,
                _ => code_of(error) == Some("TransactionConflictException"),
            },
        };
        if is_conflict { RetryAction::throttling_error() } else { RetryAction::NoActionIndicated }
    }

    fn name(&self) -> &'static str {
        "transaction conflicts"
    }
}

/// Sends a request to DynamoDB.
///
/// A crate that awaits an async function of another crate compiles it once more, with all of the SDK below it. This future is
/// boxed, so the SDK is compiled only here.
pub(super) trait Call {
    type Output;

    fn call(self) -> BoxFuture<'static, Self::Output>;
}

macro_rules! calls {
    ($($operation:ident: $builder:ident, $output:ident, $error:ident;)+) => {$(
        impl Call for operation::$operation::builders::$builder {
            type Output = Result<
                operation::$operation::$output,
                SdkError<operation::$operation::$error>,
            >;

            fn call(self) -> BoxFuture<'static, Self::Output> {
                Box::pin(self.send())
            }
        }
    )+};
}

calls! {
    get_item: GetItemFluentBuilder, GetItemOutput, GetItemError;
    batch_get_item: BatchGetItemFluentBuilder, BatchGetItemOutput, BatchGetItemError;
    transact_get_items: TransactGetItemsFluentBuilder, TransactGetItemsOutput, TransactGetItemsError;
    query: QueryFluentBuilder, QueryOutput, QueryError;
    scan: ScanFluentBuilder, ScanOutput, ScanError;
    put_item: PutItemFluentBuilder, PutItemOutput, PutItemError;
    update_item: UpdateItemFluentBuilder, UpdateItemOutput, UpdateItemError;
    delete_item: DeleteItemFluentBuilder, DeleteItemOutput, DeleteItemError;
    batch_write_item: BatchWriteItemFluentBuilder, BatchWriteItemOutput, BatchWriteItemError;
    batch_execute_statement: BatchExecuteStatementFluentBuilder, BatchExecuteStatementOutput, BatchExecuteStatementError;
    transact_write_items: TransactWriteItemsFluentBuilder, TransactWriteItemsOutput, TransactWriteItemsError;
}

fn code_of(error: &aws_smithy_runtime_api::client::interceptors::context::Error) -> Option<&str> {
    use aws_sdk_dynamodb::operation::{delete_item, get_item, put_item, update_item};
    error
        .downcast_ref::<update_item::UpdateItemError>()
        .and_then(ProvideErrorMetadata::code)
        .or_else(|| error.downcast_ref::<put_item::PutItemError>().and_then(ProvideErrorMetadata::code))
        .or_else(|| error.downcast_ref::<delete_item::DeleteItemError>().and_then(ProvideErrorMetadata::code))
        .or_else(|| error.downcast_ref::<get_item::GetItemError>().and_then(ProvideErrorMetadata::code))
}
