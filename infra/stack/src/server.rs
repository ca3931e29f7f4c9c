//! The HTTP server of the embedded DynamoDB. The engine has a server too, but that one accepts requests from every web
//! page.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::Response;
use axum::serve::ListenerExt as _;
use dynoxide::Database;
use dynoxide::auth_material::{self, AuthMaterial};
use serde_json::json;
use tokio::net::TcpListener;

use crate::access::{Access, Sender};
use crate::direct::{self, JSON, RequestBody};

/// DynamoDB's limit for a request.
const MAX_BYTES: usize = 16 * 1024 * 1024;

struct Served {
    database: Database,
    access: Access,
}

/// Serves DynamoDB's API until `stopped` completes, then waits for the requests in progress.
pub(crate) async fn serve(
    listener: TcpListener,
    database: Database,
    access: Access,
    stopped: impl Future<Output = ()> + Send + 'static,
) -> Result<(), std::io::Error> {
    let router = Router::new().fallback(respond).with_state(Arc::new(Served { database, access }));
    let listener = listener.tap_io(|connection| {
        let _ = connection.set_nodelay(true);
    });
    axum::serve(listener, router).with_graceful_shutdown(stopped).await
}

async fn respond(State(served): State<Arc<Served>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    match served.access.check(&parts.headers) {
        Ok(Sender::Local) => {}
        Ok(Sender::Page(_)) => {
            return error(
                StatusCode::FORBIDDEN,
                "AccessDeniedException",
                "Web pages cannot use this DynamoDB.",
            );
        }
        Err(denied) => return error(StatusCode::FORBIDDEN, "AccessDeniedException", &denied.to_string()),
    }
    if parts.method == Method::GET && parts.uri.path() == "/" {
        return Response::new(Body::from("healthy: dynamodb"));
    }
    let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let target = header("x-amz-target").and_then(|target| target.split_once('.'));
    let operation = match target {
        Some(("DynamoDB_20120810" | "DynamoDBStreams_20120810", operation))
            if parts.method == Method::POST =>
        {
            operation
        }
        _ => {
            return error(
                StatusCode::BAD_REQUEST,
                "UnknownOperationException",
                "The request names no operation.",
            );
        }
    };
    // As in DynamoDB, a request must be signed. Unlike DynamoDB, every signature is accepted.
    let signed = AuthMaterial {
        authorization: header("authorization"),
        query: parts.uri.query().unwrap_or_default(),
        has_date_header: parts.headers.contains_key("x-amz-date") || parts.headers.contains_key("date"),
    };
    if let Some(body) = auth_material::validate(signed) {
        return response(StatusCode::BAD_REQUEST, body);
    }
    let Ok(body) = axum::body::to_bytes(body, MAX_BYTES).await else {
        return error(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestTooLargeException",
            "The request is longer than 16 MB.",
        );
    };
    let (status, body) = direct::run_operation(&served.database, operation, RequestBody::Bytes(&body));
    response(StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), body)
}

fn error(status: StatusCode, kind: &str, message: &str) -> Response {
    let kind = format!("com.amazon.coral.service#{kind}");
    response(status, json!({ "__type": kind, "message": message }).to_string())
}

fn response(status: StatusCode, body: String) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    response
}
