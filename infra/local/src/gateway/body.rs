//! Reads request bodies within the limits of AWS.

use std::time::Duration;

use axum::body::{Body, Bytes};
use futures_util::StreamExt as _;
use tokio::time::timeout;

/// Lambda's limit for a payload.
const MAX_BYTES: usize = 6 * 1024 * 1024;

/// A body that is too large is still read up to this length. `read_limited` says why.
const MAX_DISCARDED_BYTES: usize = 16 * MAX_BYTES;

/// API Gateway's time limit for a request.
const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) enum BodyError {
    TooLarge,
    TimedOut,
}

pub(super) async fn read(body: Body) -> Result<Bytes, BodyError> {
    match timeout(TIMEOUT, read_limited(body)).await {
        Ok(body) => body.ok_or(BodyError::TooLarge),
        Err(_) => Err(BodyError::TimedOut),
    }
}

/// Reads a body; returns `None` if the body is too large. The rest of such a body is read and dropped, up to
/// a limit. Otherwise the connection would close while the client is still sending, and the client would get
/// a connection error instead of the response.
async fn read_limited(body: Body) -> Option<Bytes> {
    let mut parts = body.into_data_stream();
    let (mut bytes, mut length) = (Vec::new(), 0);
    while let Some(Ok(part)) = parts.next().await {
        length += part.len();
        if length <= MAX_BYTES {
            bytes.extend_from_slice(&part);
        } else if length > MAX_DISCARDED_BYTES {
            break;
        }
    }
    (length <= MAX_BYTES).then(|| bytes.into())
}
