//! An HTTP client for the AWS SDK that calls the embedded DynamoDB without a network.
//!
//! The SDK still builds and signs every request and parses every response. Only the connection is left out.

use std::fmt;

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_runtime_api::http::StatusCode;
use aws_smithy_types::body::SdkBody;
use dynoxide::{Database, DynoxideError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The URL to configure as DynamoDB's endpoint. The SDK requires an endpoint, but no request goes there.
pub const ENDPOINT: &str = "http://embedded.invalid";

/// The media type of DynamoDB's requests and responses.
pub(crate) const JSON: &str = "application/x-amz-json-1.0";

/// Calls the embedded DynamoDB in this process.
#[derive(Clone)]
pub struct DirectClient(Database);

impl fmt::Debug for DirectClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DirectClient")
    }
}

impl DirectClient {
    #[must_use]
    pub fn new(database: Database) -> Self {
        Self(database)
    }
}

impl HttpClient for DirectClient {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for DirectClient {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let database = self.0.clone();
        HttpConnectorFuture::new(async move {
            let target = request.headers().get("x-amz-target").unwrap_or_default();
            let operation = target.rsplit('.').next().unwrap_or_default();
            let body = request.body().bytes().unwrap_or_default();
            // As with a network, other tasks can run before and after the operation. Without the yields, a task that
            // makes many calls would block its thread, and concurrent tasks would never interleave.
            tokio::task::yield_now().await;
            let response = execute(&database, operation, RequestBody::Bytes(body));
            tokio::task::yield_now().await;
            Ok(response)
        })
    }
}

/// The body of a request, in the JSON format of DynamoDB's API.
#[derive(Debug)]
pub enum RequestBody<'a> {
    Bytes(&'a [u8]),
    Json(&'a Value),
}

impl RequestBody<'_> {
    fn parse<Q: DeserializeOwned>(self) -> Result<Q, DynoxideError> {
        let parsed = match self {
            Self::Bytes(bytes) => serde_json::from_slice(bytes),
            Self::Json(value) => Q::deserialize(value),
        };
        parsed.map_err(|error| DynoxideError::ValidationException(error.to_string()))
    }
}

/// Executes a DynamoDB operation, such as `GetItem`, on the embedded DynamoDB.
#[must_use]
pub fn execute(database: &Database, operation: &str, body: RequestBody<'_>) -> HttpResponse {
    let (status, body) = run_operation(database, operation, body);
    response(status, body)
}

/// Executes an operation; returns the status and the body of the response.
pub(crate) fn run_operation(database: &Database, operation: &str, body: RequestBody<'_>) -> (u16, String) {
    macro_rules! dispatch {
        ($($name:literal => $call:ident),* $(,)?) => {
            match operation {
                $($name => run(body, |request| database.$call(request)),)*
                other => Err(DynoxideError::ValidationException(format!("the operation {other} is not supported"))),
            }
        };
    }
    let result = dispatch!(
        "BatchExecuteStatement" => batch_execute_statement,
        "BatchGetItem" => batch_get_item,
        "BatchWriteItem" => batch_write_item,
        "CreateTable" => create_table,
        "DeleteItem" => delete_item,
        "DeleteTable" => delete_table,
        "DescribeStream" => describe_stream,
        "DescribeTable" => describe_table,
        "DescribeTimeToLive" => describe_time_to_live,
        "ExecuteStatement" => execute_statement,
        "ExecuteTransaction" => execute_transaction,
        "GetItem" => get_item,
        "GetRecords" => get_records,
        "GetShardIterator" => get_shard_iterator,
        "ListStreams" => list_streams,
        "ListTables" => list_tables,
        "ListTagsOfResource" => list_tags_of_resource,
        "PutItem" => put_item,
        "Query" => query,
        "Scan" => scan,
        "TagResource" => tag_resource,
        "TransactGetItems" => transact_get_items,
        "TransactWriteItems" => transact_write_items,
        "UntagResource" => untag_resource,
        "UpdateItem" => update_item,
        "UpdateTable" => update_table,
        "UpdateTimeToLive" => update_time_to_live,
    );
    match result {
        Ok(body) => (200, body),
        Err(error) => (error.status_code(), error.to_json()),
    }
}

fn run<Q: DeserializeOwned, A: Serialize>(
    body: RequestBody<'_>,
    call: impl FnOnce(Q) -> Result<A, DynoxideError>,
) -> Result<String, DynoxideError> {
    let result = call(body.parse()?)?;
    serde_json::to_string(&result).map_err(|error| DynoxideError::InternalServerError(error.to_string()))
}

/// Builds a response in the format of DynamoDB's API.
#[must_use]
pub fn response(status: u16, body: String) -> HttpResponse {
    let status = StatusCode::try_from(status)
        .unwrap_or_else(|_| StatusCode::try_from(500).expect("500 is a valid status"));
    let mut response = HttpResponse::new(status, SdkBody::from(body));
    response.headers_mut().insert("content-type", JSON);
    response
}
