//! The functions, hosted in this process as Lambda would host them.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use lambda_http::request::LambdaRequest;
use lambda_http::{Adapter, Context, LambdaEvent, Service, service_fn};
use serde_json::{Value, json};
use touchline::{App, Router};

use crate::calls;

/// What an invocation gives: a payload, or what Lambda would report as the function's error.
pub type Outcome = Result<Value, Value>;

type Invocation = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// A function's code: from event to payload.
pub type Hosted = Box<dyn Fn(Value) -> Invocation + Send + Sync>;

/// A function that serves HTTP, by the name of its binary.
pub type HttpFunction = (&'static str, fn(App) -> Router);

/// Every function that serves HTTP.
pub const HTTP_FUNCTIONS: [HttpFunction; 9] = [
    ("login", login::router),
    ("profile", profile::router),
    ("matches", matches::router),
    ("teams", teams::router),
    ("predictions", predictions::router),
    ("coins", coins::router),
    ("chat", chat::router),
    ("sms-logs", sms_logs::router),
    ("meta", meta::router),
];

/// The function of a name, or `None` where this program has no such function. `timeout` is the template's.
pub(crate) fn hosted(name: &str, timeout: Duration, app: App) -> Option<Hosted> {
    match name {
        "feed" => return Some(background_function(app, timeout, |app, event, _| feed::handle(app, event))),
        "tally" => return Some(background_function(app, timeout, |app, event, _| tally::handle(app, event))),
        "points" => return Some(background_function(app, timeout, points::handle)),
        "treasury" => return Some(background_function(app, timeout, treasury::handle)),
        _ => {}
    }
    let (_, router) = HTTP_FUNCTIONS.into_iter().find(|(function, _)| *function == name)?;
    Some(http_function(router(app)))
}

/// Hosts a function that is invoked with payloads, as `lambda_runtime::run` does in Lambda.
fn background_function<F, E>(
    app: App,
    timeout: Duration,
    handler: fn(App, Value, DateTime<Utc>) -> F,
) -> Hosted
where
    F: Future<Output = Result<Value, E>> + Send + 'static,
    E: fmt::Display,
{
    Box::new(move |event| {
        let deadline = app.clock.now() + timeout;
        let running = handler(app.clone(), event, deadline);
        Box::pin(async move { running.await.map_err(|error| failure("Error", &error.to_string())) })
    })
}

/// Hosts a router behind `lambda_http`, as `lambda_http::run` does in Lambda.
#[must_use]
pub fn http_function(router: Router) -> Hosted {
    let router = Arc::new(router);
    Box::new(move |event| {
        let router = Arc::clone(&router);
        Box::pin(async move {
            let request: LambdaRequest =
                serde_json::from_value(event).map_err(|error| failure("InvalidEvent", &error.to_string()))?;
            let mut adapter = Adapter::from(service_fn(|request| async {
                Ok::<_, std::convert::Infallible>(router.respond(request).await)
            }));
            let Ok(response) = adapter.call(LambdaEvent::new(request, Context::default())).await;
            serde_json::to_value(response).map_err(|error| failure("InvalidResponse", &error.to_string()))
        })
    })
}

/// The shape in which Lambda reports an error of a function.
pub(crate) fn failure(kind: &str, message: &str) -> Value {
    json!({ "errorType": kind, "errorMessage": message })
}

/// All functions, by name.
#[derive(Default)]
pub struct Host {
    functions: BTreeMap<String, (Duration, Arc<Hosted>)>,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.functions.keys()).finish()
    }
}

impl Host {
    pub fn add(&mut self, name: &str, timeout: Duration, hosted: Hosted) {
        self.functions.insert(name.to_owned(), (timeout, Arc::new(hosted)));
    }

    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.functions.contains_key(name)
    }

    /// Runs a function to its end, its panic or its timeout; `None` where there is no such function.
    pub async fn invoke(&self, name: &str, event: Value) -> Option<Outcome> {
        let (timeout, hosted) = self.functions.get(name)?;
        let running = tokio::spawn(calls::watched(tokio::time::timeout(*timeout, hosted(event))));
        Some(match running.await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => {
                let message = format!("Task timed out after {:.2} seconds", timeout.as_secs_f64());
                Err(failure("Sandbox.Timedout", &message))
            }
            Err(_) => Err(failure("Runtime.ExitError", "the function panicked")),
        })
    }
}
