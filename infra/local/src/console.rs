//! The matchday console: a page that shows the product working, the API's explorer, and the traffic as it happens.

use std::convert::Infallible;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::Response;
use axum::routing::get;
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use swagger_ui_dist::{ApiDefinition, OpenApiSource, generate_routes};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use touchline::api::Endpoint as _;
use touchline::api::meta::Description;

/// How far behind a page may fall before it misses something.
const KEPT: usize = 256;

/// What of a body the page is shown.
const SHOWN: usize = 16 * 1024;

/// Nothing comes from elsewhere, and nothing goes there.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'",
);

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Everybody who watches, told of every request.
#[derive(Debug, Clone)]
pub(crate) struct Traffic(broadcast::Sender<Bytes>);

/// A request that was answered.
#[derive(Debug)]
pub(crate) struct Exchange<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) request: &'a [u8],
    pub(crate) status: u16,
    pub(crate) response: &'a [u8],
    pub(crate) ms: i64,
    /// As the header has it: `calls=1 rounds=1 rcu=0.5 wcu=0`.
    pub(crate) cost: Option<&'a str>,
    /// To DynamoDB, one after the other.
    pub(crate) calls: Vec<String>,
}

impl Default for Traffic {
    fn default() -> Self {
        Self(broadcast::channel(KEPT).0)
    }
}

impl Traffic {
    pub(crate) fn is_watched(&self) -> bool {
        self.0.receiver_count() > 0
    }

    pub(crate) fn tell(&self, exchange: &Exchange<'_>) {
        let cost = exchange.cost.map(|cost| {
            let parts = cost.split(' ').filter_map(|part| part.split_once('='));
            parts
                .filter_map(|(name, value)| Some((name.to_owned(), value.parse::<f64>().ok()?.into())))
                .collect()
        });
        let event = json!({
            "method": exchange.method,
            "path": exchange.path,
            "request": shown(exchange.request),
            "status": exchange.status,
            "response": shown(exchange.response),
            "ms": exchange.ms,
            "cost": cost.map(Value::Object),
            "calls": exchange.calls,
        });
        // Nobody watches any more: nothing to tell.
        let _ = self.0.send(format!("data: {event}\n\n").into());
    }

    /// Server-sent events, until nobody watches or the stack stops.
    fn watch(&self, stopped: watch::Receiver<bool>) -> Response {
        let events = stream::unfold((self.0.subscribe(), stopped), async |(mut events, mut stopped)| {
            loop {
                let event = tokio::select! {
                    event = events.recv() => event,
                    _ = stopped.wait_for(|stop| *stop) => return None,
                };
                match event {
                    Ok(event) => return Some((Ok::<_, Infallible>(event), (events, stopped))),
                    // A page that was too slow goes on with what comes next.
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return None,
                }
            }
        });
        // The first line goes out at once, so that the page knows it is heard.
        let hello = stream::once(async { Ok(Bytes::from_static(b": watching\n\n")) });
        typed("text/event-stream", Body::from_stream(hello.chain(events)))
    }
}

fn shown(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    match text.char_indices().nth(SHOWN) {
        None => text.into_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

fn typed(kind: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(CONTENT_SECURITY_POLICY, POLICY);
    response
}

/// The pages, and nothing of the API.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>(
    traffic: Traffic,
    stopped: watch::Receiver<bool>,
) -> Router<S> {
    let page = |kind: &'static str, text: &'static str| get(async move || typed(kind, text));
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
        .route("/_console/traffic", get(async move || traffic.watch(stopped)))
        .merge(generate_routes(ui).with_state(()))
}
