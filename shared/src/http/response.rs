//! Writes responses: JSON bodies, and errors in the caller's format.

use lambda_http::Body;
use lambda_http::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use lambda_http::http::{HeaderValue, Response, StatusCode};
use serde::Serialize;
use serde_json::Value;

use super::error_messages::Problem;
use crate::Error;
use crate::api::endpoint::JSON;
use crate::api::{ErrorCode, ErrorFormat};

/// Creates a response with a JSON body.
pub(super) fn json<T: Serialize>(status: StatusCode, body: &T) -> Response<Body> {
    // Our own types should always serialize. If one does not, a 500 is better than a panic.
    let (status, text) = match serde_json::to_string(body) {
        Ok(text) => (status, text),
        Err(error) => {
            tracing::error!(%error, "a response body could not be serialized");
            let text = r#"{"message":"Something went wrong on our side.","code":"internal"}"#;
            (StatusCode::INTERNAL_SERVER_ERROR, text.to_owned())
        }
    };
    with_type(status, JSON, text)
}

/// Creates a response whose body is one text, for example a page.
pub(super) fn text<T: Serialize>(status: StatusCode, content_type: &'static str, body: &T) -> Response<Body> {
    match serde_json::to_value(body) {
        Ok(Value::String(text)) => with_type(status, content_type, text),
        // All bodies other than JSON are texts. `json` reports the error.
        _ => json(status, body),
    }
}

fn with_type(status: StatusCode, content_type: &'static str, text: String) -> Response<Body> {
    let mut response = Response::new(Body::Text(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Creates an error response in the given format. Details of internal errors are only logged.
pub(super) fn error(error: &Error, format: ErrorFormat) -> Response<Body> {
    let problem = Problem::from(error);
    let status = status(problem.code);
    if status.is_server_error() {
        tracing::error!(%error, code = %problem.code, "request failed");
    }
    if format == ErrorFormat::Matrix {
        return matrix(status, problem);
    }
    let mut response = json(status, &problem);
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(seconds) = problem.facts.retry_after {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

fn status(code: ErrorCode) -> StatusCode {
    StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// Creates an error response as the Matrix specification defines it.
fn matrix(status: StatusCode, problem: Problem) -> Response<Body> {
    #[derive(Serialize)]
    struct MatrixError {
        errcode: &'static str,
        error: String,
    }
    let (status, errcode) = match status {
        StatusCode::UNAUTHORIZED => (status, "M_MISSING_TOKEN"),
        StatusCode::FORBIDDEN => (status, "M_FORBIDDEN"),
        StatusCode::NOT_FOUND => (status, "M_NOT_FOUND"),
        StatusCode::UNPROCESSABLE_ENTITY => (StatusCode::BAD_REQUEST, "M_BAD_JSON"),
        StatusCode::BAD_REQUEST => (status, "M_NOT_JSON"),
        StatusCode::PAYLOAD_TOO_LARGE => (status, "M_TOO_LARGE"),
        _ => (status, "M_UNKNOWN"),
    };
    json(status, &MatrixError { errcode, error: problem.message })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::StoreError;

    #[test]
    fn details_of_internal_errors_are_not_in_the_response() {
        let failed =
            Error::Store(StoreError::Misconfigured { operation: "GetItem", code: "SecretTable".into() });
        let response = error(&failed, ErrorFormat::Touchline);
        assert_eq!(response.status(), 500);
        assert!(!format!("{:?}", response.body()).contains("SecretTable"));
    }
}
