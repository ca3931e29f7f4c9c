//! The HTTP API: converts a request to a Lambda event, and the function's result to a response.

mod body;
mod cors;
mod lambda_api;
mod response;
mod routes;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Bytes;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::serve::ListenerExt as _;
use serde_json::{Map, Value};
use tokio::net::TcpListener;
use tokio::sync::watch;
use touchline::domain::{Token, UserId};
use touchline::ports::clock::{Clock as _, SystemClock};
use touchline::ports::random::{Random, SystemRandom};
use touchline_stack::Stack;
use touchline_stack::access::{Access, Denied, Sender};
use touchline_stack::event::{HttpRequest, http_event};
use touchline_stack::gzip;
use touchline_stack::resources::Cors;

use crate::calls::{self, Observed};
use crate::console;
use crate::host::Host;
use crate::output;
use crate::play::Player;
use crate::prices::Prices;
use crate::spans::{self, Kind, Span};
use crate::traffic::{Exchange, Traffic};
use body::BodyError;
use routes::{Routes, Target};

/// What a request did, if the console shows it.
#[derive(Debug, Default)]
struct Work {
    /// The DynamoDB calls of the function.
    calls: Vec<String>,
    /// The invocations and the DynamoDB calls, with those of the deliveries.
    spans: Vec<Span>,
}

#[derive(Debug)]
pub(crate) struct Gateway {
    routes: Routes,
    access: Access,
    /// What pages of other origins can do. `None` if they can do nothing.
    cors: Option<Cors>,
    host: Arc<Host>,
    clock: SystemClock,
    random: SystemRandom,
    traffic: Traffic,
    prices: Prices,
    quiet: bool,
}

impl Gateway {
    pub(crate) fn new(stack: &Stack, access: Access, host: Arc<Host>, traffic: Traffic, quiet: bool) -> Self {
        Self {
            routes: Routes::new(stack),
            access,
            cors: stack.cors.clone(),
            host,
            clock: SystemClock,
            random: SystemRandom,
            traffic,
            prices: Prices::new(stack),
            quiet,
        }
    }

    pub(crate) async fn serve(
        self,
        listener: TcpListener,
        player: Arc<Player>,
        homeserver: Option<String>,
        mut stopped: watch::Receiver<bool>,
    ) {
        let pages = console::routes(
            self.traffic.clone(),
            Arc::clone(&player),
            homeserver.as_deref(),
            stopped.clone(),
        );
        let gateway = Arc::new(self);
        // The API handles every path that has no page, and every method that a page does not serve.
        let router = pages
            .fallback(respond)
            .method_not_allowed_fallback(respond)
            .layer(middleware::from_fn_with_state(Arc::clone(&gateway), check_access))
            .with_state(gateway);
        // Without TCP_NODELAY, the last packet of a response can wait 40 ms until the client acknowledges the
        // earlier packets.
        let listener = listener.tap_io(|connection| {
            let _ = connection.set_nodelay(true);
        });
        let served = axum::serve(listener, router.into_make_service_with_connect_info::<SocketAddr>())
            .with_graceful_shutdown(async move {
                let _ = stopped.wait_for(|stop| *stop).await;
            })
            .await;
        if let Err(error) = served {
            tracing::error!(%error, "the API stopped");
        }
        player.finish().await;
    }

    /// Returns the CORS settings if pages of the origin can send requests to the path. They can use the API, but
    /// neither the pages of the stack nor the invoke API.
    fn cors_for(&self, origin: &str, path: &str) -> Option<&Cors> {
        let allowed = |cors: &&Cors| cors.origins.iter().any(|allowed| allowed == origin);
        self.cors.as_ref().filter(allowed).filter(|_| self.routes.contains(path))
    }

    /// Handles a request; returns the response and what the request did.
    async fn route(&self, parts: &Parts, body: &Bytes, source: SocketAddr) -> (Response, Work) {
        let (method, path) = (&parts.method, parts.uri.path());
        let is_watched = self.is_shown(&parts.headers);
        let (response, observed) = if let Some(name) = lambda_api::function_name(method, path) {
            calls::observe(is_watched, lambda_api::invoke(&self.host, name, &parts.headers, body)).await
        } else if let Some((target, path_parameters)) = self.routes.find(method.as_str(), path) {
            let call = self.call_function(target, path_parameters, parts, body, source);
            calls::observe(is_watched, call).await
        } else {
            return (response::message(StatusCode::NOT_FOUND, "Not Found"), Work::default());
        };
        // Wait until the streams have delivered the writes of this request to the functions. The client's next
        // request then sees all effects of this request.
        let Observed { calls, mut spans, tickets } = observed;
        spans.extend(tickets.delivered().await);
        (response, Work { calls, spans })
    }

    /// Returns whether the console shows a request. It does not show the requests with which it polls its own SMS
    /// inbox. They have the header `x-touchline-console`.
    fn is_shown(&self, headers: &HeaderMap) -> bool {
        self.traffic.has_subscribers() && !headers.contains_key("x-touchline-console")
    }

    async fn call_function(
        &self,
        target: &Target,
        path_parameters: Map<String, Value>,
        parts: &Parts,
        body: &Bytes,
        source: SocketAddr,
    ) -> Response {
        let event = http_event(&HttpRequest {
            method: parts.method.as_str(),
            path: parts.uri.path(),
            query: parts.uri.query().unwrap_or_default(),
            headers: event_headers(&parts.headers),
            body,
            source: &source.ip().to_string(),
            id: &(&self.random as &dyn Random).word(16),
            at: self.clock.now(),
            route: &target.path,
            path_parameters,
        });
        match self.host.invoke(&target.function, event).await {
            Some(Ok(payload)) => return response::from_payload(&payload),
            Some(Err(error)) => tracing::error!(function = target.function, %error, "the function failed"),
            None => {}
        }
        response::message(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error")
    }

    /// Prints a line for the request and shows the request in the console.
    async fn report(
        &self,
        parts: &Parts,
        body: &Bytes,
        response: Response,
        arrival: Instant,
        work: Work,
    ) -> Response {
        let gateway = Span::since(arrival, "gateway".to_owned(), Kind::Gateway);
        let ms = i64::try_from(arrival.elapsed().as_millis()).unwrap_or(i64::MAX);
        let (head, response_body) = response.into_parts();
        let (method, status) = (parts.method.as_str(), head.status.as_u16());
        let cost = head.headers.get("x-touchline-cost").and_then(|cost| cost.to_str().ok());
        if !self.quiet {
            let (path, cost) = (parts.uri.path(), cost.unwrap_or_default());
            output::line(format_args!("{method} {path} -> {status} in {ms} ms {cost}"));
        }
        if !self.is_shown(&parts.headers) {
            return Response::from_parts(head, response_body);
        }
        let response_body = axum::body::to_bytes(response_body, usize::MAX).await.unwrap_or_default();
        let path = parts.uri.path_and_query().map_or(parts.uri.path(), |path| path.as_str());
        let shown = gzip::decoded(&head.headers, response_body.clone()).unwrap_or_default();
        let (request, response) = (body.as_ref(), shown.as_ref());
        let spans: Vec<Span> = [gateway].into_iter().chain(work.spans).collect();
        self.traffic.publish(&Exchange {
            method,
            path,
            request,
            status,
            response,
            ms,
            cost,
            calls: work.calls,
            user: user(&parts.headers, status, response),
            arrival,
            usd: self.prices.of(&spans),
            spans: &spans,
        });
        Response::from_parts(head, response_body.into())
    }
}

/// Rejects requests for other hosts and from pages of other origins, on every path.
async fn check_access(State(gateway): State<Arc<Gateway>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let origin = match gateway.access.check(&parts.headers) {
        Ok(Sender::Local) => return next.run(Request::from_parts(parts, body)).await,
        Ok(Sender::Page(origin)) => origin.to_owned(),
        // As API Gateway does. `lambda_http` would panic on such a header.
        Err(Denied::InvalidHost) => return response::message(StatusCode::BAD_REQUEST, "Bad Request"),
        Err(denied) => return response::message(StatusCode::FORBIDDEN, &denied.to_string()),
    };
    let Some(cors) = gateway.cors_for(&origin, parts.uri.path()) else {
        let message = "Requests from other origins are not allowed. Use the pages of this stack, or start it with --allow-origin \
                       to allow the API for an origin.";
        return response::message(StatusCode::FORBIDDEN, message);
    };
    let mut response = if cors::is_preflight(&parts) {
        cors::preflight(cors)
    } else {
        next.run(Request::from_parts(parts, body)).await
    };
    cors::allow(cors, &origin, &mut response);
    response
}

async fn respond(
    State(gateway): State<Arc<Gateway>>,
    ConnectInfo(source): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response {
    let arrival = spans::now();
    let (parts, body) = request.into_parts();
    let body = match body::read(body).await {
        Ok(body) => body,
        Err(BodyError::TimedOut) => return response::message(StatusCode::REQUEST_TIMEOUT, "Request Timeout"),
        Err(BodyError::TooLarge) => {
            return match lambda_api::function_name(&parts.method, parts.uri.path()) {
                Some(_) => lambda_api::too_large(),
                None => response::message(StatusCode::PAYLOAD_TOO_LARGE, "Request Entity Too Large"),
            };
        }
    };
    let (response, work) = gateway.route(&parts, &body, source).await;
    gateway.report(&parts, &body, response, arrival, work).await
}

/// Returns the user who sent a request: the owner of its token, unless the token was rejected. For a login, the user in
/// the response.
fn user(headers: &HeaderMap, status: u16, response: &[u8]) -> Option<UserId> {
    let token = headers.get("authorization").and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    if let Some(token) = token.filter(|_| status != 401).and_then(Token::parse) {
        return Some(token.user());
    }
    let response: Value = serde_json::from_slice(response).ok()?;
    let data = Some(&response["data"]).filter(|data| data["token"].is_string())?;
    data["user"]["id"].as_u64().and_then(|id| u32::try_from(id).ok()).map(UserId)
}

/// Returns the headers of the Lambda event. Like API Gateway, it drops the `x-forwarded-*` headers that the client
/// sent and sets its own.
fn event_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    headers
        .iter()
        .filter(|(name, _)| !name.as_str().starts_with("x-forwarded-"))
        .map(|(name, value)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        })
        .chain([("x-forwarded-proto".to_owned(), "http".to_owned())])
        .collect()
}
