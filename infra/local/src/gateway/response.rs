//! HTTP responses of the gateway.

use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};

pub(super) fn json(status: StatusCode, body: &Value) -> Response {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/json"));
    response
}

/// Builds a response that the gateway itself sends, in API Gateway's format: `{"message": "Not Found"}`.
pub(super) fn message(status: StatusCode, message: &str) -> Response {
    json(status, &json!({ "message": message }))
}

/// Converts the JSON output of a Lambda function into an HTTP response.
pub(super) fn from_payload(payload: &Value) -> Response {
    let text = payload["body"].as_str().unwrap_or_default();
    let body = if payload["isBase64Encoded"] == true {
        Bytes::from(aws_smithy_types::base64::decode(text).unwrap_or_default())
    } else {
        Bytes::from(text.to_owned())
    };
    let mut response = Response::new(Body::from(body));
    let status = payload["statusCode"].as_u64().and_then(|status| u16::try_from(status).ok());
    *response.status_mut() =
        status.and_then(|status| StatusCode::from_u16(status).ok()).unwrap_or(StatusCode::OK);
    for (name, value) in payload["headers"].as_object().into_iter().flatten() {
        if let (Ok(name), Some(Ok(value))) =
            (HeaderName::try_from(name), value.as_str().map(HeaderValue::try_from))
        {
            response.headers_mut().insert(name, value);
        }
    }
    response
}
