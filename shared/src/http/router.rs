//! Routes requests to handlers.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::BoxFuture;
use lambda_http::http::{HeaderValue, Method, Response, StatusCode};
use lambda_http::{Body, Request};
use percent_encoding::percent_decode_str;
use tokio::time::timeout;
use tracing::Instrument as _;

use super::caller::Identify;
use super::problem::Problem;
use super::reply::Reply;
use super::{request, response};
use crate::api::{Caller as _, Endpoint, ErrorFormat, Route, shape};
use crate::domain::Address;
use crate::domain::coins::ReferenceId;
use crate::storage::meter::{self, Cost};
use crate::{App, Error};

/// One request to one endpoint, parsed.
#[derive(Debug)]
pub struct Call<E: Endpoint> {
    pub caller: E::Caller,
    /// The parameters of the path.
    pub path: E,
    pub input: E::Input,
    /// The idempotency key, for endpoints that declare its header.
    pub idempotency_key: Option<ReferenceId>,
    /// `None` if no rate limit applies.
    pub address: Option<Address>,
}

/// What a request cost and how it ended. The response carries it as an extension, for metrics.
#[derive(Debug, Clone)]
pub struct RequestReport {
    pub method: Method,
    /// The path as declared.
    pub path: &'static str,
    pub status: StatusCode,
    pub at: DateTime<Utc>,
    pub took: TimeDelta,
    pub cost: Cost,
}

/// The time limit of a request. It is below the function's own timeout, so a slow store still ends in a response
/// and a line in the log.
const TIME_LIMIT: Duration = Duration::from_secs(8);

/// The decoded values of a path's parameters, in the order of the path.
type PathValues = Vec<String>;
type HandlerFuture = BoxFuture<'static, Response<Body>>;
type Handler = Box<dyn Fn(App, Arc<Request>, PathValues) -> HandlerFuture + Send + Sync>;

/// A function's endpoints, by path and method.
///
/// It matches the path itself and ignores the gateway's route key, which local emulators do not send.
pub struct Router {
    app: App,
    /// From a request path to its shape.
    paths: matchit::Router<String>,
    handlers: Vec<(Route, Handler)>,
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.routes()).finish()
    }
}

impl Router {
    #[must_use]
    pub fn new(app: App) -> Self {
        Self { app, paths: matchit::Router::new(), handlers: Vec::new() }
    }

    /// Registers a handler for the endpoint that its argument names.
    ///
    /// # Panics
    ///
    /// If two paths of the table are ambiguous. That shows at start.
    #[must_use]
    pub fn on<E, H, F>(mut self, handler: H) -> Self
    where
        E: Endpoint<Caller: Identify>,
        H: Fn(App, Call<E>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<Reply<E::Output>, Error>> + Send + 'static,
    {
        let shape = shape(E::PATH);
        if self.routes().all(|route| self::shape(route.path) != shape) {
            self.paths.insert(shape.clone(), shape).expect("paths of the table differ");
        }
        let handler: Handler = Box::new(move |app, request, path| {
            let handler = handler.clone();
            Box::pin(async move {
                let work = async {
                    let call = read_call::<E>(&app, &request, &path).await?;
                    drop(request);
                    handler(app, call).await
                };
                let result = timeout(TIME_LIMIT, work).await.unwrap_or(Err(Error::OutOfTime));
                debug_assert!(is_declared::<E>(&result), "{}: {:?} is not declared", E::PATH, result.err());
                respond_with::<E>(result)
            })
        });
        self.handlers.push((Route::of::<E>(), handler));
        self
    }

    /// The registered endpoints.
    pub fn routes(&self) -> impl Iterator<Item = &Route> {
        self.handlers.iter().map(|(route, _)| route)
    }

    /// Whether a request would reach one of the endpoints.
    #[must_use]
    pub fn serves(&self, method: &Method, path: &str) -> bool {
        self.find(method, path).is_some()
    }

    fn find(&self, method: &Method, path: &str) -> Option<(&Route, &Handler, PathValues)> {
        let found = self.paths.at(path).ok()?;
        let (route, handler) = self
            .handlers
            .iter()
            .find(|(route, _)| route.method == *method && shape(route.path) == *found.value)?;
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let values = found.params.iter().map(|(_, value)| decoded(value)).collect();
        Some((route, handler, values))
    }

    /// Responds to one request. Never fails: an error becomes a response.
    pub async fn respond(&self, request: Request) -> Response<Body> {
        let Some((route, handler, values)) = self.find(request.method(), request.uri().path()) else {
            return response::error(&Error::NotFound, ErrorFormat::Touchline);
        };
        // Logs the declared route, not the request's path: paths and queries can hold phone numbers.
        let span = tracing::info_span!(
            "request",
            request_id = request::id(&request),
            trace_id = request::trace_id(&request),
            method = %route.method,
            route = route.path,
        );
        let started = self.app.clock.now();
        let work = handler(self.app.clone(), Arc::new(request), values);
        async {
            let (mut response, cost) = meter::measure(work).await;
            let took = self.app.clock.now() - started;
            tracing::info!(
                status = response.status().as_u16(),
                ms = took.num_milliseconds(),
                calls = cost.calls,
                rounds = cost.rounds,
                read_units = cost.read_units,
                write_units = cost.write_units,
                "responded"
            );
            let (method, path, status) = (route.method.clone(), route.path, response.status());
            response.extensions_mut().insert(RequestReport { method, path, status, at: started, took, cost });
            if self.app.config.environment.shows_codes() {
                response.headers_mut().insert("x-touchline-cost", cost_header(cost));
            }
            response
        }
        .instrument(span)
        .await
    }
}

/// Identifies the caller and parses everything that the handler needs.
async fn read_call<E>(app: &App, request: &Request, path: &[String]) -> Result<Call<E>, Error>
where
    E: Endpoint<Caller: Identify>,
{
    let caller = E::Caller::identify(app, request.headers()).await?;
    let input = request::input(request, E::Caller::MAX_BODY)?;
    let path = E::from_path(path)?;
    let idempotency_key = match E::IDEMPOTENCY_HEADER {
        Some(header) => request::idempotency_key(request.headers(), header)?,
        None => None,
    };
    Ok(Call { caller, path, input, idempotency_key, address: request::address(request) })
}

fn respond_with<E: Endpoint>(result: Result<Reply<E::Output>, Error>) -> Response<Body> {
    match result {
        Ok(Reply { status, body, headers }) => {
            let mut response = response::json(status, &body);
            for (name, value) in headers {
                response.headers_mut().insert(name, HeaderValue::from_static(value));
            }
            response
        }
        Err(error) => response::error(&error, E::Caller::ERROR_FORMAT),
    }
}

/// Whether the endpoint declares this status or error. The OpenAPI document is made from the declaration.
fn is_declared<E: Endpoint>(result: &Result<Reply<E::Output>, Error>) -> bool {
    match result {
        Ok(reply) => E::STATUSES.contains(&reply.status.as_u16()),
        Err(error) => {
            let code = Problem::from(error).code;
            Route::of::<E>().errors().any(|declared| declared == code)
        }
    }
}

/// For developers: what the request cost, in DynamoDB's units.
fn cost_header(cost: Cost) -> HeaderValue {
    let Cost { calls, rounds, read_units, write_units, .. } = cost;
    HeaderValue::try_from(format!("calls={calls} rounds={rounds} rcu={read_units} wcu={write_units}"))
        .unwrap_or_else(|_| HeaderValue::from_static(""))
}
