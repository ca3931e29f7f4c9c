//! The pages of the local stack: the matchday console with its live traffic, and the API explorer.

use std::convert::Infallible;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::Response;
use axum::routing::get;
use futures_util::{StreamExt as _, stream};
use swagger_ui_dist::{ApiDefinition, OpenApiSource, generate_routes};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use touchline::api::Endpoint as _;
use touchline::api::meta::Description;

use crate::traffic::Traffic;

/// The content security policy. Pages load nothing from other origins and send nothing to other origins.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'",
);

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Returns the routes of the pages, but not those of the API.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>(
    traffic: Traffic,
    stopped: watch::Receiver<bool>,
) -> Router<S> {
    let page =
        |content_type: &'static str, text: &'static str| get(async move || response(content_type, text));
    let explorer = include_str!("../console/explorer.html");
    let ui = ApiDefinition {
        uri_prefix: "/docs/ui",
        api_definition: OpenApiSource::Uri(Description::PATH),
        title: None::<&str>,
    };
    Router::new()
        .route("/", page(HTML, include_str!("../console/index.html")))
        .route("/console.css", page("text/css; charset=utf-8", include_str!("../console/console.css")))
        .route("/console.js", page(SCRIPT, include_str!("../console/console.js")))
        .route("/favicon.ico", page("image/svg+xml", include_str!("../console/icon.svg")))
        .route("/docs", page(HTML, explorer))
        .route("/docs/", page(HTML, explorer))
        .route("/docs/explorer.js", page(SCRIPT, include_str!("../console/explorer.js")))
        .route("/_console/traffic", get(async move || traffic_events(&traffic, stopped)))
        .merge(generate_routes(ui).with_state(()))
}

/// Streams each API request to the page as a server-sent event, until the page disconnects or the stack
/// stops.
fn traffic_events(traffic: &Traffic, stopped: watch::Receiver<bool>) -> Response {
    let events = stream::unfold((traffic.subscribe(), stopped), async |(mut events, mut stopped)| {
        loop {
            let event = tokio::select! {
                event = events.recv() => event,
                _ = stopped.wait_for(|stop| *stop) => return None,
            };
            match event {
                Ok(event) => return Some((Ok::<_, Infallible>(event), (events, stopped))),
                // A page that is too slow misses events. It continues with the oldest event in the channel.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    });
    // The first line is sent immediately, so that the page knows that it is connected.
    let hello = stream::once(async { Ok(Bytes::from_static(b": watching\n\n")) });
    response("text/event-stream", Body::from_stream(hello.chain(events)))
}

fn response(content_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(CONTENT_SECURITY_POLICY, POLICY);
    response
}
