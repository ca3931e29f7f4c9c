//! Starts a Lambda function and passes its invocations to handlers. The `main` of every function
//! calls [`run`] or [`serve`].

use std::fmt::Display;
use std::future::Future;

use chrono::{DateTime, Utc};
use futures_util::future::join;
use lambda_http::service_fn;
pub use lambda_runtime::Error;
use lambda_runtime::LambdaEvent;
use serde_json::Value;

use crate::config::{Aws, Config, Tables};
use crate::error::Error as RequestError;
use crate::http::Router;
use crate::ports::clock::{Clock as _, SystemClock};
use crate::ports::{aws_http, secrets};
use crate::storage::{self, Store};
use crate::{App, telemetry};

/// Runs a function that has no HTTP endpoints, until Lambda ends the process.
///
/// The handler gets the payload of a Lambda event and the deadline of the invocation, and returns the
/// invocation's result.
pub async fn run<F, E>(handler: impl Fn(App, Value, DateTime<Utc>) -> F) -> Result<(), Error>
where
    F: Future<Output = Result<Value, E>>,
    E: Display,
{
    let app = start().await?;
    let invoke = |event: LambdaEvent<Value>| {
        let deadline = DateTime::from(event.context.deadline());
        let invocation = handler(app.clone(), event.payload, deadline);
        async { invocation.await.map_err(|error| Error::from(error.to_string())) }
    };
    lambda_runtime::run(service_fn(invoke)).await
}

/// Serves HTTP requests from API Gateway until Lambda ends the process.
pub async fn serve(router: impl FnOnce(App) -> Router) -> Result<(), Error> {
    let app = start().await?;
    let (environment, function) = (app.config.environment, function_name());
    let router = router(app);
    lambda_http::run(service_fn(|request| async {
        let response = router.respond(request).await;
        if let Some(report) = response.extensions().get() {
            telemetry::measure(&function, environment, report);
        }
        Ok::<_, Error>(response)
    }))
    .await
}

/// Records a count as a metric of the running Lambda function. Does nothing outside Lambda.
pub fn count(app: &App, name: &'static str, count: usize) {
    let function = function_name();
    if !function.is_empty() {
        telemetry::count(&function, app.config.environment, name, count, app.clock.now());
    }
}

/// Records as a metric that no code was sent because of the limits of text messages. Operators have an alarm for it.
pub fn count_refusal(app: &App, error: &RequestError) {
    match error {
        RequestError::SmsStopped(_) => count(app, "SmsStopped", 1),
        RequestError::SmsBudgetReached => count(app, "SmsBudgetReached", 1),
        _ => {}
    }
}

/// Returns the name of the running Lambda function, or an empty string outside Lambda.
fn function_name() -> String {
    std::env::var("AWS_LAMBDA_FUNCTION_NAME").unwrap_or_default()
}

/// Fetches the secrets, reads the configuration and opens the connection to DynamoDB.
///
/// Lambda gives a function full CPU while it starts, so a connection that is opened here makes the first
/// request faster. It is opened while the secrets are fetched.
async fn start() -> Result<App, Error> {
    // Rust prints the `Debug` form of an error from `main`. The errors are converted to strings here, because the
    // `Debug` form of a string is readable.
    let variable = |name: &str| std::env::var(name).ok();
    let aws = Aws::from_variables(variable).map_err(|error| error.to_string())?;
    let tables = Tables::from_variables(variable).map_err(|error| error.to_string())?;
    let http = aws_http::client();
    let store =
        Store::new(storage::connect(&aws, http.clone()), tables).caching_recent_items(|| SystemClock.now());
    let (secrets, connected) = join(secrets::fetch(&aws, &http, variable), store.ping()).await;
    let secrets = secrets.map_err(|error| error.to_string())?;
    let secret = |name: &str| secrets.get(name).map(|secret| secret.reveal().to_owned());
    let config =
        Config::read(|name| secret(name).or_else(|| variable(name))).map_err(|error| error.to_string())?;
    telemetry::start(config.log_level);
    if let Err(error) = connected {
        tracing::warn!(%error, "DynamoDB did not respond during init");
    }
    Ok(App::with_store(config, store, http))
}
