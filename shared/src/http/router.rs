//! Routes a request to its handler.

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
use super::error_messages::Problem;
use super::negotiation::Negotiation;
use super::reply::Reply;
use super::{edge, request, response};
use crate::api::endpoint::{JSON, PathValues};
use crate::api::{Caller as _, Endpoint, ErrorFormat, Route, shape};
use crate::domain::coins::ReferenceId;
use crate::domain::{Address, UserId};
use crate::storage::meter::{self, Cost};
use crate::{App, Error};

/// A parsed request to an endpoint.
#[derive(Debug)]
pub struct Call<E: Endpoint> {
    pub caller: E::Caller,
    /// The parameters of the path.
    pub path: E,
    pub input: E::Input,
    /// The idempotency key, if the endpoint declares a header for it and the request has that header.
    pub idempotency_key: Option<ReferenceId>,
    /// The network that the request came from. `None` if the network is unknown or has no rate limit.
    pub address: Option<Address>,
}

/// The outcome and the cost of a request, for metrics. The router attaches the report to the endpoint's
/// response, as an extension.
#[derive(Debug, Clone)]
pub struct RequestReport {
    pub method: Method,
    /// The endpoint's declared path, with parameter names instead of values.
    pub path: &'static str,
    pub status: StatusCode,
    pub at: DateTime<Utc>,
    pub took: TimeDelta,
    pub cost: Cost,
}

/// The time limit of a request. It is shorter than the timeout of the Lambda function, so that a
/// request still gets a response and a log line if the store is slow.
const TIME_LIMIT: Duration = Duration::from_secs(8);

type HandlerFuture = BoxFuture<'static, Response<Body>>;
/// The handler of an endpoint. Its last argument has the decoded values of the path's parameters.
type Handler = Box<dyn Fn(App, Arc<Request>, Vec<String>) -> HandlerFuture + Send + Sync>;

/// The endpoints of one Lambda function, with their handlers.
///
/// The router finds the endpoint by the request's method and path. It ignores the gateway's route key, because
/// some local emulators send `$default` for every route.
pub struct Router {
    app: App,
    /// Maps each path to its index in `endpoints`.
    paths: matchit::Router<usize>,
    endpoints: Vec<PathEndpoints>,
}

/// The endpoints with the same path: one per HTTP method.
struct PathEndpoints {
    /// The path with the number of each parameter instead of its name, such as `/rooms/{1}`. See [`shape`].
    shape: String,
    methods: Vec<(Route, Handler)>,
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.routes()).finish()
    }
}

impl Router {
    #[must_use]
    pub fn new(app: App) -> Self {
        Self { app, paths: matchit::Router::new(), endpoints: Vec::new() }
    }

    /// Registers the handler of an endpoint. The handler's argument of type `Call<E>` names the endpoint `E`.
    ///
    /// # Panics
    ///
    /// If the path of the endpoint conflicts with a registered path. Each Lambda function
    /// registers all its handlers when it starts, so this panic cannot happen while it serves requests.
    #[must_use]
    pub fn on<E, H, F>(mut self, handler: H) -> Self
    where
        E: Endpoint<Caller: Identify>,
        H: Fn(App, Call<E>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<Reply<E::Output>, Error>> + Send + 'static,
    {
        let handler: Handler = Box::new(move |app, request, path_values| {
            let handler = handler.clone();
            Box::pin(async move {
                let work = async {
                    let call = read_call::<E>(&app, &request, &path_values).await?;
                    drop(request);
                    handler(app, call).await
                };
                let result = timeout(TIME_LIMIT, work).await.unwrap_or(Err(Error::OutOfTime));
                debug_assert!(is_declared::<E>(&result), "{}: {:?} is not declared", E::PATH, result.err());
                respond_with::<E>(result)
            })
        });
        let shape = shape(E::PATH);
        let endpoint = (Route::of::<E>(), handler);
        if let Some(known) = self.endpoints.iter_mut().find(|known| known.shape == shape) {
            known.methods.push(endpoint);
        } else {
            let index = self.endpoints.len();
            self.paths.insert(shape.clone(), index).expect("the paths of the endpoints do not conflict");
            self.endpoints.push(PathEndpoints { shape, methods: vec![endpoint] });
        }
        self
    }

    /// Lists the registered endpoints.
    pub fn routes(&self) -> impl Iterator<Item = &Route> {
        self.endpoints.iter().flat_map(|path| &path.methods).map(|(route, _)| route)
    }

    /// Returns whether an endpoint has this method and path.
    #[must_use]
    pub fn serves(&self, method: &Method, path: &str) -> bool {
        self.find(method, path).is_some()
    }

    /// Finds the endpoint of a request, and decodes the values of the path's parameters.
    fn find(&self, method: &Method, path: &str) -> Option<(&Route, &Handler, Vec<String>)> {
        let found = self.paths.at(path).ok()?;
        let methods = &self.endpoints.get(*found.value)?.methods;
        let (route, handler) = methods.iter().find(|(route, _)| route.method == *method)?;
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let values = found.params.iter().map(|(_, value)| decoded(value)).collect();
        Some((route, handler, values))
    }

    /// Handles one request. Errors become responses.
    pub async fn respond(&self, mut request: Request) -> Response<Body> {
        if !edge::admit(&mut request, self.app.config.edge.as_ref()) {
            // Not a warning: anyone can cause this line, and each line costs money.
            tracing::debug!(
                request_id = request::id(&request),
                "rejected a request that CloudFront did not send"
            );
            return response::error(&Error::NotFound, ErrorFormat::Touchline);
        }
        let Some((route, handler, values)) = self.find(request.method(), request.uri().path()) else {
            return response::error(&Error::NotFound, ErrorFormat::Touchline);
        };
        // Logs the declared path, because the path and the query of a request can contain a phone number.
        let span = tracing::info_span!(
            "request",
            request_id = request::id(&request),
            trace_id = request::trace_id(&request),
            method = %route.method,
            route = route.path,
            user_id = tracing::field::Empty,
        );
        let started = self.app.clock.now();
        let negotiation = Negotiation::of(request.headers());
        let work = handler(self.app.clone(), Arc::new(request), values);
        async {
            let (response, cost) = meter::measure(work).await;
            let mut response = negotiation.apply(route, response);
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

/// Adds the id of a user to all further log lines of the current request. Operators find by it what a user did.
pub fn log_user(user: UserId) {
    tracing::Span::current().record("user_id", user.0);
}

/// Identifies the caller and parses everything that the handler needs.
async fn read_call<E>(app: &App, request: &Request, path_values: &[String]) -> Result<Call<E>, Error>
where
    E: Endpoint<Caller: Identify>,
{
    let caller = E::Caller::identify(app, request.headers()).await?;
    if let Some(user) = caller.user_id() {
        log_user(user);
    }
    let input = request::input(request, E::Caller::MAX_BODY)?;
    let path = E::from_path(PathValues::new(path_values))?;
    let idempotency_key = match E::IDEMPOTENCY_HEADER {
        Some(header) => request::idempotency_key(request.headers(), header)?,
        None => None,
    };
    Ok(Call { caller, path, input, idempotency_key, address: request::address(request) })
}

fn respond_with<E: Endpoint>(result: Result<Reply<E::Output>, Error>) -> Response<Body> {
    match result {
        Ok(Reply { status, body, headers }) => {
            let mut response = if E::CONTENT_TYPE == JSON {
                response::json(status, &body)
            } else {
                response::text(status, E::CONTENT_TYPE, &body)
            };
            for (name, value) in headers {
                response.headers_mut().insert(name, HeaderValue::from_static(value));
            }
            response
        }
        Err(error) => response::error(&error, E::Caller::ERROR_FORMAT),
    }
}

/// Returns whether the endpoint declares the status or error of a result. The OpenAPI document lists only
/// declared statuses and errors.
fn is_declared<E: Endpoint>(result: &Result<Reply<E::Output>, Error>) -> bool {
    match result {
        Ok(reply) => E::STATUSES.contains(&reply.status.as_u16()),
        Err(error) => {
            let code = Problem::from(error).code;
            Route::of::<E>().errors().any(|declared| declared == code)
        }
    }
}

/// Writes the cost of a request as the value of a header, for developers.
fn cost_header(cost: Cost) -> HeaderValue {
    let Cost { calls, rounds, read_units, write_units, .. } = cost;
    HeaderValue::try_from(format!("calls={calls} rounds={rounds} rcu={read_units} wcu={write_units}"))
        .unwrap_or_else(|_| HeaderValue::from_static(""))
}
