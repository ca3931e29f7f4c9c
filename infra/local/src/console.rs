//! The pages of the local stack: the matchday console with its live traffic, and the API explorer.

use std::convert::Infallible;
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::middleware;
use axum::response::Response;
use axum::routing::{get, post};
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use swagger_ui_dist::{ApiDefinition, OpenApiSource, generate_routes};
use tokio::sync::watch;
use touchline::api::Endpoint as _;
use touchline::api::meta::Description;

use crate::files::{self, Files};
use crate::play::Player;
use crate::traffic::Traffic;

/// The content security policy: pages use this origin only. The console may also call the homeserver, see
/// [`console_policy`].
const POLICY: &str = "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'";

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The console's page, which contains its style sheet: a browser draws it after one request.
static CONSOLE: LazyLock<String> = LazyLock::new(|| {
    let style = concat!("<style>\n", include_str!("../console/console.css"), "</style>");
    include_str!("../console/index.html").replace(r#"<link rel="stylesheet" href="/console.css">"#, style)
});

/// Empties the lines of a script that are comments: an eighth of the page. The other lines keep their numbers.
fn without_comments(script: &str) -> String {
    let is_comment =
        |line: &str| ["//", "/*", "* ", "*/"].iter().any(|mark| line.trim_start().starts_with(mark));
    script.lines().flat_map(|line| [if is_comment(line) { "" } else { line }, "\n"]).collect()
}

/// Returns the routes of the pages, but not those of the API.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>(
    traffic: Traffic,
    player: Arc<Player>,
    homeserver: Option<&str>,
    stopped: watch::Receiver<bool>,
) -> Router<S> {
    let page =
        |content_type: &'static str, text: &'static str| get(async move || response(content_type, text));
    let script = |text: &str| {
        let text = without_comments(text);
        get(async move || response(SCRIPT, text))
    };
    let policy = console_policy(homeserver);
    let console = get(async move || {
        let mut console = response(HTML, CONSOLE.as_str());
        console.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
        console
    });
    let explorer = include_str!("../console/explorer.html");
    let ui = ApiDefinition {
        uri_prefix: "/docs/ui",
        api_definition: OpenApiSource::Uri(Description::PATH),
        title: None::<&str>,
    };
    let files = Router::new()
        .route("/", console)
        .route("/console.js", script(include_str!("../console/console.js")))
        .route("/app.js", script(include_str!("../console/app.js")))
        .route("/tools.js", script(include_str!("../console/tools.js")))
        .route("/favicon.ico", page("image/svg+xml", include_str!("../console/icon.svg")))
        .route("/docs", page(HTML, explorer))
        .route("/docs/", page(HTML, explorer))
        .route("/docs/explorer.js", page(SCRIPT, include_str!("../console/explorer.js")))
        .merge(generate_routes(ui).with_state(()))
        .layer(middleware::from_fn_with_state(Files::default(), files::serve));
    Router::new()
        .merge(files)
        .route(
            "/_console/matches/{id}/play",
            post(async move |Path(id): Path<String>, body: Bytes| play(&player, &id, &body).await),
        )
        .route("/_console/traffic", get(async move || traffic_events(&traffic, stopped)))
}

/// Streams each API request and each match that is being played to the page as server-sent events, until the page
/// disconnects or the stack stops.
fn traffic_events(traffic: &Traffic, stopped: watch::Receiver<bool>) -> Response {
    let (events, matches) = traffic.subscribe();
    let events = stream::unfold((events, stopped), async |(mut events, mut stopped)| {
        let event = tokio::select! {
            event = events.recv() => event,
            _ = stopped.wait_for(|stop| *stop) => return None,
        };
        // A page that is too slow misses events, perhaps the end of a match. Then the stream ends. The page connects again,
        // and loads what it shows again.
        event.ok().map(|event| (Ok::<_, Infallible>(event), (events, stopped)))
    });
    // The first line is sent immediately, so that the page knows that it is connected.
    let hello = [Bytes::from_static(b": watching\n\n")].into_iter().chain(matches);
    response("text/event-stream", Body::from_stream(stream::iter(hello).map(Ok).chain(events)))
}

/// Starts a match that plays itself.
async fn play(player: &Arc<Player>, id: &str, body: &[u8]) -> Response {
    let started = match id.parse() {
        Ok(event) => player.play(event, body).await.map(|seconds| (event, seconds)),
        Err(_) => Err((StatusCode::NOT_FOUND, format!("There is no match {id}."))),
    };
    match started {
        Ok((event, seconds)) => json(StatusCode::ACCEPTED, &json!({ "event_id": event, "seconds": seconds })),
        Err((status, message)) => json(status, &json!({ "message": message })),
    }
}

fn json(status: StatusCode, body: &Value) -> Response {
    let mut response = response("application/json", body.to_string());
    *response.status_mut() = status;
    response
}

fn response(content_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response
}

/// Returns the content security policy of the console. Its chat also sends requests to the homeserver.
fn console_policy(homeserver: Option<&str>) -> HeaderValue {
    let with_homeserver = homeserver.and_then(|url| {
        let uri: Uri = url.parse().ok()?;
        let (scheme, authority) = (uri.scheme_str()?, uri.authority()?);
        format!("{POLICY}; connect-src 'self' {scheme}://{authority}").parse().ok()
    });
    with_homeserver.unwrap_or(HeaderValue::from_static(POLICY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_the_console_contains_its_style_sheet() {
        assert!(CONSOLE.contains("<style>\n:root {"));
        assert!(!CONSOLE.contains("console.css"));
    }

    #[test]
    fn scripts_are_served_without_comments_and_with_the_same_line_numbers() {
        let script = "/**\n * Counts.\n */\nlet a = 1; // One.\n  // Next.\n  a += 1;";
        assert_eq!(without_comments(script), "\n\n\nlet a = 1; // One.\n\n  a += 1;\n");
    }

    #[test]
    fn the_console_sends_requests_to_the_homeserver_and_to_no_other_host() {
        assert_eq!(console_policy(None), POLICY);
        let policy = console_policy(Some("http://127.0.0.1:8008/"));
        assert_eq!(policy, format!("{POLICY}; connect-src 'self' http://127.0.0.1:8008"));
        assert_eq!(console_policy(Some("; script-src *")), POLICY, "not a URL");
    }
}
