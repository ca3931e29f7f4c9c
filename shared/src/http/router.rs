use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use lambda_http::http::header::AUTHORIZATION;
use lambda_http::http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use lambda_http::{Body, Request};
use percent_encoding::percent_decode_str;
use tokio::time::timeout;
use tracing::Instrument as _;

use super::error::json;
use super::{Caller, Dialect, Error, Reply, request};
use crate::App;
use crate::api::{Endpoint, Route, parameter_names, shape};
use crate::domain::Address;
use crate::storage::meter::{self, Cost};

/// One request to one endpoint: who, what, from where.
#[derive(Debug)]
pub struct Call<E: Endpoint> {
    pub caller: E::Caller,
    pub input: E::Input,
    /// `None` where no limit applies.
    pub address: Option<Address>,
    path: Parameters,
    headers: HeaderMap,
}

impl<E: Endpoint> Call<E> {
    /// A parameter of the path, decoded.
    #[must_use]
    pub fn path(&self, name: &str) -> Option<&str> {
        self.path.get(name).map(String::as_str)
    }

    /// A header. One that is no text counts as empty, which no rule takes for a value.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap_or_default())
    }

    /// A parameter that is an id; `None` for anything that cannot be one.
    #[must_use]
    pub fn path_number(&self, name: &str) -> Option<u32> {
        self.path(name)?.parse().ok()
    }
}

/// How a request was answered; the response carries it, for whoever measures.
#[derive(Debug, Clone)]
pub struct Answered {
    pub method: Method,
    /// As declared.
    pub path: &'static str,
    pub status: StatusCode,
    pub at: DateTime<Utc>,
    pub took: TimeDelta,
    pub cost: Cost,
}

/// What a request may take, all in all: less than the function's own timeout, so that a slow store ends
/// in an answer and a line in the log.
const TIME: Duration = Duration::from_secs(8);

type Answer = Pin<Box<dyn Future<Output = Result<Response<Body>, Error>> + Send>>;
type Parameters = BTreeMap<String, String>;
type Handler = Box<dyn Fn(App, Arc<Request>, Parameters) -> Answer + Send + Sync>;

/// A function's endpoints, by path and method.
///
/// Routing goes by the path itself, never by the gateway's route key: local emulators do not send it.
pub struct Router {
    app: App,
    /// From a path as sent to its shape.
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
    /// Where two paths cannot be told apart: a mistake in the table of endpoints, seen at start.
    #[must_use]
    pub fn on<E, H, F>(mut self, handler: H) -> Self
    where
        E: Endpoint,
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
                let answered = async {
                    let caller = E::Caller::identify(&app, request.headers()).await?;
                    let input = request::input(&request, E::Caller::MAX_BODY)?;
                    let address = request::address(&request);
                    let mut headers = request.headers().clone();
                    // Nobody needs the token any more, and what is not there cannot be logged.
                    headers.remove(AUTHORIZATION);
                    drop(request);
                    handler(app, Call { caller, input, address, path, headers }).await
                };
                let answered = timeout(TIME, answered).await.unwrap_or(Err(Error::OutOfTime));
                debug_assert!(declares::<E>(&answered), "{}: {:?} is not declared", E::PATH, answered.err());
                match answered {
                    Ok(Reply { status, body, headers }) => {
                        let mut response = json(status, &body);
                        for (name, value) in headers {
                            response.headers_mut().insert(name, HeaderValue::from_static(value));
                        }
                        Ok(response)
                    }
                    Err(error) if E::Caller::DIALECT == Dialect::Matrix => Ok(error.into_matrix_response()),
                    Err(error) => Err(error),
                }
            })
        });
        self.handlers.push((Route::of::<E>(), handler));
        self
    }

    /// What is registered.
    pub fn routes(&self) -> impl Iterator<Item = &Route> {
        self.handlers.iter().map(|(route, _)| route)
    }

    /// Whether a request would reach one of the endpoints.
    #[must_use]
    pub fn serves(&self, method: &Method, path: &str) -> bool {
        self.find(method, path).is_some()
    }

    fn find(&self, method: &Method, path: &str) -> Option<(&Route, &Handler, Parameters)> {
        let found = self.paths.at(path).ok()?;
        let (route, handler) = self
            .handlers
            .iter()
            .find(|(route, _)| route.method == *method && shape(route.path) == *found.value)?;
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let values = found.params.iter().map(|(_, value)| decoded(value));
        let parameters = parameter_names(route.path).map(str::to_owned).zip(values).collect();
        Some((route, handler, parameters))
    }

    /// Answers one request. Never fails: what goes wrong becomes a response.
    pub async fn respond(&self, request: Request) -> Response<Body> {
        // The route as declared, not the path as sent: paths and queries can hold phone numbers.
        let Some((route, handler, parameters)) = self.find(request.method(), request.uri().path()) else {
            return Error::NotFound.into_response();
        };
        let span = tracing::info_span!(
            "request",
            request_id = request::id(&request),
            trace_id = request::trace_id(&request),
            method = %route.method,
            route = route.path,
        );
        let started = self.app.clock.now();
        let work = handler(self.app.clone(), Arc::new(request), parameters);
        async {
            let (result, cost) = meter::measure(work).await;
            let mut response = result.unwrap_or_else(Error::into_response);
            tracing::info!(
                status = response.status().as_u16(),
                ms = (self.app.clock.now() - started).num_milliseconds(),
                calls = cost.calls,
                rounds = cost.rounds,
                read_units = cost.read_units,
                write_units = cost.write_units,
                "answered"
            );
            let (method, path, status) = (route.method.clone(), route.path, response.status());
            let took = self.app.clock.now() - started;
            response.extensions_mut().insert(Answered { method, path, status, at: started, took, cost });
            if self.app.config.environment.shows_codes() {
                response.headers_mut().insert("x-touchline-cost", cost_header(cost));
            }
            response
        }
        .instrument(span)
        .await
    }
}

/// Whether an endpoint's declaration, from which its description is made, has such an answer.
fn declares<E: Endpoint>(answered: &Result<Reply<E::Output>, Error>) -> bool {
    match answered {
        Ok(reply) => E::ANSWERS.contains(&reply.status.as_u16()),
        Err(error) => Route::of::<E>().refuses().any(|code| code == error.code()),
    }
}

/// For developers: what the request cost, in DynamoDB's units.
fn cost_header(cost: Cost) -> HeaderValue {
    let Cost { calls, rounds, read_units, write_units, .. } = cost;
    HeaderValue::try_from(format!("calls={calls} rounds={rounds} rcu={read_units} wcu={write_units}"))
        .unwrap_or_else(|_| HeaderValue::from_static(""))
}
