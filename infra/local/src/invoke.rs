//! The Lambda invoke API, so that `aws lambda invoke --endpoint-url …` works.

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};

use crate::Host;
use crate::gateway::plain;

/// The function that a path invokes.
pub(crate) fn function_name<'a>(method: &Method, path: &'a str) -> Option<&'a str> {
    let name = path.strip_prefix("/2015-03-31/functions/")?.strip_suffix("/invocations")?;
    (method == Method::POST && !name.contains('/')).then_some(name)
}

pub(crate) async fn answer(host: &Host, name: &str, headers: &HeaderMap, body: &Bytes) -> Response {
    let name = short_name(name);
    if !host.has(&name) {
        let message = format!("Function not found: arn:aws:lambda:eu-west-1:000000000000:function:{name}");
        return error(StatusCode::NOT_FOUND, "ResourceNotFoundException", "Message", &message);
    }
    let event: Value = if body.is_empty() {
        json!({})
    } else {
        match serde_json::from_slice(body) {
            Ok(event) => event,
            Err(reason) => {
                let message = format!("Could not parse request body into json: {reason}");
                return error(StatusCode::BAD_REQUEST, "InvalidRequestContentException", "message", &message);
            }
        }
    };
    match headers.get("x-amz-invocation-type").map_or("RequestResponse", |kind| kind.to_str().unwrap_or("")) {
        "DryRun" => status_only(StatusCode::NO_CONTENT),
        // The outcome is nobody's business but the log's, as in Lambda; here it is waited for all the same.
        "Event" => {
            if let Some(Err(failure)) = host.invoke(&name, event).await {
                tracing::error!(function = name, %failure, "an asynchronous invocation failed");
            }
            status_only(StatusCode::ACCEPTED)
        }
        "RequestResponse" => {
            let (payload, failed) = match host.invoke(&name, event).await {
                Some(Ok(payload)) => (payload, false),
                Some(Err(failure)) => (failure, true),
                None => (Value::Null, true),
            };
            let mut response = plain(StatusCode::OK, &payload);
            let headers = response.headers_mut();
            headers.insert("x-amz-executed-version", HeaderValue::from_static("$LATEST"));
            if failed {
                headers.insert("x-amz-function-error", HeaderValue::from_static("Unhandled"));
            }
            response
        }
        other => {
            let message = format!("{other} is not an invocation type");
            error(StatusCode::BAD_REQUEST, "InvalidParameterValueException", "message", &message)
        }
    }
}

/// What Lambda says to more than 6 MB.
pub(crate) fn too_large() -> Response {
    let message = "the payload is too large for the RequestResponse invocation type (limit 6291456 bytes)";
    error(StatusCode::PAYLOAD_TOO_LARGE, "RequestTooLargeException", "message", message)
}

/// Lambda takes a name, a name with a qualifier, or an ARN.
fn short_name(name: &str) -> String {
    let name = percent_encoding::percent_decode_str(name).decode_utf8_lossy().into_owned();
    let name = name.rsplit_once(":function:").map_or(name.as_str(), |(_, name)| name);
    name.split(':').next().unwrap_or_default().to_owned()
}

fn status_only(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

fn error(status: StatusCode, kind: &'static str, field: &str, message: &str) -> Response {
    let mut response = plain(status, &json!({ "Type": "User", field: message }));
    response.headers_mut().insert("x-amzn-errortype", HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_named_as_lambda_takes_them() {
        for name in ["points", "points:live", "arn:aws:lambda:eu-west-1:000000000000:function:points"] {
            assert_eq!(short_name(name), "points");
        }
        assert_eq!(short_name("arn%3Aaws%3Alambda%3Aeu-west-1%3A0%3Afunction%3Apoints%3A7"), "points");
    }

    #[test]
    fn only_the_invoke_path_invokes() {
        let path = "/2015-03-31/functions/points/invocations";
        assert_eq!(function_name(&Method::POST, path), Some("points"));
        assert_eq!(function_name(&Method::GET, path), None);
        assert_eq!(function_name(&Method::POST, "/api/code/request"), None);
    }
}
