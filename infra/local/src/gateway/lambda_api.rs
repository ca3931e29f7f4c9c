//! Lambda's invoke API, so that `aws lambda invoke --endpoint-url …` works.

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};

use super::response;
use crate::host::Host;

/// Returns the function name in the path of an invoke request. The name can have a qualifier or be an ARN.
/// `None` means that the request is for the HTTP API.
pub(super) fn function_name<'a>(method: &Method, path: &'a str) -> Option<&'a str> {
    let name = path.strip_prefix("/2015-03-31/functions/")?.strip_suffix("/invocations")?;
    (method == Method::POST && !name.contains('/')).then_some(name)
}

pub(super) async fn invoke(host: &Host, name: &str, headers: &HeaderMap, body: &Bytes) -> Response {
    let name = short_name(name);
    if !host.contains(&name) {
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
        // As in Lambda, a failure appears only in the log. Unlike Lambda, this code responds only
        // after the function has ended.
        "Event" => {
            if let Some(Err(error)) = host.invoke(&name, event).await {
                tracing::error!(function = name, %error, "an asynchronous invocation failed");
            }
            status_only(StatusCode::ACCEPTED)
        }
        "RequestResponse" => {
            let (payload, failed) = match host.invoke(&name, event).await {
                Some(Ok(payload)) => (payload, false),
                Some(Err(error)) => (error, true),
                None => (Value::Null, true),
            };
            let mut response = response::json(StatusCode::OK, &payload);
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

/// Returns Lambda's response to a payload of more than 6 MB.
pub(super) fn too_large() -> Response {
    let message = "the payload is too large for the RequestResponse invocation type (limit 6291456 bytes)";
    error(StatusCode::PAYLOAD_TOO_LARGE, "RequestTooLargeException", "message", message)
}

/// Returns the plain name of a function. Lambda accepts a plain name, a name with a qualifier, or an ARN.
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
    let mut response = response::json(status, &json!({ "Type": "User", field: message }));
    response.headers_mut().insert("x-amzn-errortype", HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qualified_names_and_arns_are_reduced_to_the_plain_name() {
        for name in ["points", "points:live", "arn:aws:lambda:eu-west-1:000000000000:function:points"] {
            assert_eq!(short_name(name), "points");
        }
        assert_eq!(short_name("arn%3Aaws%3Alambda%3Aeu-west-1%3A0%3Afunction%3Apoints%3A7"), "points");
    }

    #[test]
    fn only_a_post_to_an_invocations_path_invokes_a_function() {
        let path = "/2015-03-31/functions/points/invocations";
        assert_eq!(function_name(&Method::POST, path), Some("points"));
        assert_eq!(function_name(&Method::GET, path), None);
        assert_eq!(function_name(&Method::POST, "/api/code/request"), None);
    }
}
