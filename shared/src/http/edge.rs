//! Recognises the requests that CloudFront sent.
//!
//! CloudFront adds a secret to each request. Without it, the API's own address would be a way around CloudFront
//! and its limits per client.

use std::net::IpAddr;

use lambda_http::Request;
use lambda_http::http::HeaderMap;
use subtle::{Choice, ConstantTimeEq as _};

use crate::config::{DirectRequests, EdgeSettings, Secret};

/// The header in which CloudFront sends its secret. `infra/edge.yaml` sets it.
pub const ORIGIN_SECRET_HEADER: &str = "x-touchline-origin-secret";

/// The header in which CloudFront sends the client's address. `infra/edge.yaml` sets it. A client can send it too,
/// so it counts only with the secret.
pub const VIEWER_ADDRESS_HEADER: &str = "x-touchline-viewer-address";

/// Marks a request as sent by CloudFront, as an extension of the request.
#[derive(Debug, Clone, Copy)]
struct SentByCloudFront;

/// Checks the secret of a request, and marks the request if CloudFront sent it. Returns whether to serve it.
pub(super) fn admit(request: &mut Request, settings: Option<&EdgeSettings>) -> bool {
    let Some(settings) = settings else { return true };
    if has_secret(request.headers(), &settings.secrets) {
        request.extensions_mut().insert(SentByCloudFront);
        return true;
    }
    settings.direct_requests == DirectRequests::Allowed
}

/// Returns the client's address according to CloudFront. Returns `None` if CloudFront did not send the request.
pub(super) fn viewer_address(request: &Request) -> Option<IpAddr> {
    request.extensions().get::<SentByCloudFront>()?;
    request.headers().get(VIEWER_ADDRESS_HEADER)?.to_str().ok()?.parse().ok()
}

/// Compares the header with every secret, in constant time.
fn has_secret(headers: &HeaderMap, secrets: &[Secret]) -> bool {
    let Some(given) = headers.get(ORIGIN_SECRET_HEADER) else { return false };
    let equals = |secret: &Secret| given.as_bytes().ct_eq(secret.reveal().as_bytes());
    secrets.iter().map(equals).fold(Choice::from(0), |any, one| any | one).into()
}
