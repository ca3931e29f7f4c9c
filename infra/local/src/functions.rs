//! Wraps the product's Lambda functions as handlers that `Host` can invoke.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use lambda_http::request::LambdaRequest;
use lambda_http::{Adapter, Context, LambdaEvent, Service, service_fn};
use serde_json::Value;
use touchline::{App, Router};

use crate::host::{Handler, error_object};

/// A Lambda function that serves HTTP: the name of its binary, and its router.
pub type HttpFunction = (&'static str, fn(App) -> Router);

/// Every Lambda function that serves HTTP.
pub const HTTP_FUNCTIONS: [HttpFunction; 10] = [
    ("login", login::router),
    ("profile", profile::router),
    ("matches", matches::router),
    ("teams", teams::router),
    ("leaderboards", leaderboards::router),
    ("predictions", predictions::router),
    ("coins", coins::router),
    ("chat", chat::router),
    ("sms-logs", sms_logs::router),
    ("meta", meta::router),
];

/// Returns the handler of a Lambda function, or `None` for an unknown name. `timeout` is the Lambda function's
/// timeout in the template.
pub(crate) fn handler(name: &str, timeout: Duration, app: App) -> Option<Handler> {
    match name {
        "feed" => return Some(background_handler(app, timeout, feed::handle)),
        "tally" => return Some(background_handler(app, timeout, tally::handle)),
        "points" => return Some(background_handler(app, timeout, points::handle)),
        "standings" => return Some(background_handler(app, timeout, standings::handle)),
        "moderation" => return Some(background_handler(app, timeout, moderation::handle)),
        "treasury" => return Some(background_handler(app, timeout, treasury::handle)),
        "erasure" => return Some(background_handler(app, timeout, erasure::handle)),
        "recount" => return Some(background_handler(app, timeout, recount::handle)),
        _ => {}
    }
    let (_, router) = HTTP_FUNCTIONS.into_iter().find(|(function, _)| *function == name)?;
    Some(http_handler(router(app)))
}

/// Builds a handler that does what `lambda_runtime::run` does in Lambda.
fn background_handler<F, E>(
    app: App,
    timeout: Duration,
    handler: fn(App, Value, DateTime<Utc>) -> F,
) -> Handler
where
    F: Future<Output = Result<Value, E>> + Send + 'static,
    E: fmt::Display,
{
    Box::new(move |event| {
        let deadline = app.clock.now() + timeout;
        let result = handler(app.clone(), event, deadline);
        Box::pin(async move { result.await.map_err(|error| error_object("Error", &error.to_string())) })
    })
}

/// Builds a handler that does what `lambda_http::run` does in Lambda.
fn http_handler(router: Router) -> Handler {
    let router = Arc::new(router);
    Box::new(move |event| {
        let router = Arc::clone(&router);
        Box::pin(async move {
            let request: LambdaRequest = serde_json::from_value(event)
                .map_err(|error| error_object("InvalidEvent", &error.to_string()))?;
            let mut adapter = Adapter::from(service_fn(|request| async {
                Ok::<_, std::convert::Infallible>(router.respond(request).await)
            }));
            let Ok(response) = adapter.call(LambdaEvent::new(request, Context::default())).await;
            serde_json::to_value(response)
                .map_err(|error| error_object("InvalidResponse", &error.to_string()))
        })
    })
}
