//! The HTTP API: from a request to an event, and from a payload to a response.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use futures_util::StreamExt as _;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::timeout;
use touchline::api;
use touchline::ports::clock::{Clock as _, SystemClock};
use touchline::ports::random::{Random, SystemRandom};
use touchline_stack::Stack;
use touchline_stack::event::{HttpRequest, http_event};

use crate::console::{self, Exchange, Traffic};
use crate::{Host, Streams};
use crate::{calls, invoke};

/// What Lambda takes at most.
const MAX_BODY: usize = 6 * 1024 * 1024;

/// What API Gateway waits at most.
const BODY_TIME: Duration = Duration::from_secs(30);

#[derive(Debug)]
struct Target {
    method: String,
    path: String,
    function: String,
}

#[derive(Debug)]
pub(crate) struct Gateway {
    routes: matchit::Router<Vec<Target>>,
    host: Arc<Host>,
    streams: Arc<Streams>,
    clock: SystemClock,
    random: SystemRandom,
    traffic: Traffic,
    quiet: bool,
}

impl Gateway {
    pub(crate) fn new(stack: &Stack, host: Arc<Host>, streams: Arc<Streams>, quiet: bool) -> Self {
        let mut by_path: BTreeMap<String, Vec<Target>> = BTreeMap::new();
        for function in &stack.functions {
            for route in &function.routes {
                by_path.entry(api::shape(&route.path)).or_default().push(Target {
                    method: route.method.clone(),
                    path: route.path.clone(),
                    function: function.name.clone(),
                });
            }
        }
        let mut routes = matchit::Router::new();
        for (path, targets) in by_path {
            routes.insert(path, targets).expect("paths of the template differ");
        }
        Self {
            routes,
            host,
            streams,
            clock: SystemClock,
            random: SystemRandom,
            traffic: Traffic::default(),
            quiet,
        }
    }

    pub(crate) async fn serve(self, listener: TcpListener, mut stopped: watch::Receiver<bool>) {
        let pages = console::routes(self.traffic.clone(), stopped.clone());
        // What is none of the pages is the API's, whatever its method.
        let router = pages.fallback(answer).method_not_allowed_fallback(answer).with_state(Arc::new(self));
        let served = axum::serve(listener, router.into_make_service_with_connect_info::<SocketAddr>())
            .with_graceful_shutdown(async move {
                let _ = stopped.wait_for(|stop| *stop).await;
            })
            .await;
        if let Err(error) = served {
            tracing::error!(%error, "the API stopped");
        }
    }

    /// A body, or the answer to one that did not come whole.
    async fn body(parts: &Parts, body: Body) -> Result<Bytes, Response> {
        let too_large = || match invoke::function_name(&parts.method, parts.uri.path()) {
            Some(_) => invoke::too_large(),
            None => plain(StatusCode::PAYLOAD_TOO_LARGE, &json!({ "message": "Request Entity Too Large" })),
        };
        match timeout(BODY_TIME, read(body)).await {
            Ok(body) => body.ok_or_else(too_large),
            Err(_) => Err(plain(StatusCode::REQUEST_TIMEOUT, &json!({ "message": "Request Timeout" }))),
        }
    }

    /// Tells whoever watches: the terminal, and the console's page.
    #[expect(clippy::print_stdout, reason = "a line for each request is what a developer watches")]
    async fn report(
        &self,
        parts: &Parts,
        body: &Bytes,
        response: Response,
        ms: i64,
        calls: Vec<String>,
    ) -> Response {
        let (head, answer) = response.into_parts();
        let (method, status) = (parts.method.as_str(), head.status.as_u16());
        let cost = head.headers.get("x-touchline-cost").and_then(|cost| cost.to_str().ok());
        if !self.quiet {
            println!("{method} {} -> {status} in {ms} ms {}", parts.uri.path(), cost.unwrap_or_default());
        }
        // The console's own look into the inbox is none of what happens.
        if !self.traffic.is_watched() || parts.headers.contains_key("x-touchline-console") {
            return Response::from_parts(head, answer);
        }
        let answer = axum::body::to_bytes(answer, usize::MAX).await.unwrap_or_default();
        let path = parts.uri.path_and_query().map_or(parts.uri.path(), |path| path.as_str());
        let (request, response) = (body.as_ref(), answer.as_ref());
        self.traffic.tell(&Exchange { method, path, request, status, response, ms, cost, calls });
        Response::from_parts(head, answer.into())
    }

    /// The response, and which calls the function made.
    async fn route(&self, parts: &Parts, body: &Bytes, source: SocketAddr) -> (Response, Vec<String>) {
        let path = parts.uri.path();
        // The gateway proper answers such a request itself, and `lambda_http` would panic on it.
        let host = parts.headers.get("host").map_or(Some("localhost"), |host| host.to_str().ok());
        if host.is_none_or(|host| host.parse::<Authority>().is_err()) {
            return (plain(StatusCode::BAD_REQUEST, &json!({ "message": "Bad Request" })), Vec::new());
        }
        // No other site speaks to this machine's stack through somebody's browser.
        if is_from_elsewhere(&parts.headers, host.unwrap_or_default()) {
            let message =
                "Requests of other web sites are refused. Use the page that this stack serves itself.";
            return (plain(StatusCode::FORBIDDEN, &json!({ "message": message })), Vec::new());
        }
        if let Some(name) = invoke::function_name(&parts.method, path) {
            let answer = calls::watch(invoke::answer(&self.host, name, &parts.headers, body)).await;
            self.streams.drain().await;
            return answer;
        }
        let found = self.routes.at(path).ok().and_then(|found| {
            let target = found.value.iter().find(|target| target.method == parts.method.as_str())?;
            let decoded = |value| percent_decode_str(value).decode_utf8_lossy().into_owned().into();
            let values = found.params.iter().map(|(_, value)| decoded(value));
            let parameters = api::parameter_names(&target.path).map(str::to_owned).zip(values).collect();
            Some((target, parameters))
        });
        let Some((target, path_parameters)) = found else {
            return (plain(StatusCode::NOT_FOUND, &json!({ "message": "Not Found" })), Vec::new());
        };
        let event = http_event(&HttpRequest {
            method: parts.method.as_str(),
            path,
            query: parts.uri.query().unwrap_or_default(),
            headers: header_list(&parts.headers),
            body,
            source: &source.ip().to_string(),
            id: &(&self.random as &dyn Random).word(16),
            at: self.clock.now(),
            route: &target.path,
            path_parameters,
        });
        let (outcome, calls) = calls::watch(self.host.invoke(&target.function, event)).await;
        // A local client reads its own writes: whatever they set off has happened before it hears back.
        self.streams.drain().await;
        let response = match outcome {
            Some(Ok(payload)) => from_payload(&payload),
            Some(Err(error)) => {
                tracing::error!(function = target.function, %error, "the function failed");
                plain(StatusCode::INTERNAL_SERVER_ERROR, &json!({ "message": "Internal Server Error" }))
            }
            None => plain(StatusCode::INTERNAL_SERVER_ERROR, &json!({ "message": "Internal Server Error" })),
        };
        (response, calls)
    }
}

async fn answer(
    State(gateway): State<Arc<Gateway>>,
    ConnectInfo(source): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response {
    let started = gateway.clock.now();
    let (parts, body) = request.into_parts();
    let body = match Gateway::body(&parts, body).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    let (response, calls) = gateway.route(&parts, &body, source).await;
    let ms = (gateway.clock.now() - started).num_milliseconds();
    gateway.report(&parts, &body, response, ms, calls).await
}

/// Whether a browser sent it for a page that is not ours. Programs say neither where they are nor where they come from.
fn is_from_elsewhere(headers: &HeaderMap, host: &str) -> bool {
    let said = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let own = |origin: &str| origin.split_once("://").is_some_and(|(_, authority)| authority == host);
    said("origin").is_some_and(|origin| !own(origin))
        || said("sec-fetch-site").is_some_and(|site| matches!(site, "cross-site" | "same-site"))
}

/// A body, or `None` where it is too large. That one is read to its end all the same, within reason: a
/// client that is still sending would miss the answer.
async fn read(body: Body) -> Option<Bytes> {
    let mut parts = body.into_data_stream();
    let (mut bytes, mut length) = (Vec::new(), 0);
    while let Some(Ok(part)) = parts.next().await {
        length += part.len();
        if length <= MAX_BODY {
            bytes.extend_from_slice(&part);
        } else if length > 16 * MAX_BODY {
            break;
        }
    }
    (length <= MAX_BODY).then(|| bytes.into())
}

fn header_list(headers: &HeaderMap) -> Vec<(String, String)> {
    // The gateway says itself how it was reached; what a client claims does not count.
    let said_by_the_gateway = |name: &str| name.starts_with("x-forwarded-");
    headers
        .iter()
        .filter(|(name, _)| !said_by_the_gateway(name.as_str()))
        .map(|(name, value)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        })
        .chain([("x-forwarded-proto".to_owned(), "http".to_owned())])
        .collect()
}

pub(crate) fn plain(status: StatusCode, body: &Value) -> Response {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/json"));
    response
}

/// The response that a function's payload stands for.
fn from_payload(payload: &Value) -> Response {
    let empty = Map::new();
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
    for (name, value) in payload["headers"].as_object().unwrap_or(&empty) {
        if let (Ok(name), Some(Ok(value))) =
            (HeaderName::try_from(name), value.as_str().map(HeaderValue::try_from))
        {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_others_are_told_from_ours_and_from_programs() {
        let from = |name: &'static str, value: &'static str| {
            let headers =
                HeaderMap::from_iter([(HeaderName::from_static(name), HeaderValue::from_static(value))]);
            is_from_elsewhere(&headers, "127.0.0.1:3000")
        };
        assert!(!is_from_elsewhere(&HeaderMap::new(), "127.0.0.1:3000"));
        assert!(!from("origin", "http://127.0.0.1:3000") && !from("sec-fetch-site", "same-origin"));
        assert!(!from("sec-fetch-site", "none"), "typed by somebody");
        for origin in ["http://evil.example", "http://127.0.0.1:3001", "null", ""] {
            assert!(from("origin", origin), "{origin}");
        }
        assert!(from("sec-fetch-site", "cross-site"));
    }
}
