use std::future::Future;

use chrono::{DateTime, Utc};
use serde_json::Value;
use touchline::App;

/// A function that is invoked with a payload, such as `feed::handle`. `Arguments` tells two kinds of
/// functions apart: those that get a deadline and those that do not.
pub trait Function<Arguments> {
    type Error;

    fn invoke(
        self,
        app: App,
        payload: Value,
        deadline: DateTime<Utc>,
    ) -> impl Future<Output = Result<Value, Self::Error>>;
}

impl<F, R, E> Function<(App, Value)> for F
where
    F: FnOnce(App, Value) -> R,
    R: Future<Output = Result<Value, E>>,
{
    type Error = E;

    async fn invoke(self, app: App, payload: Value, _: DateTime<Utc>) -> Result<Value, E> {
        self(app, payload).await
    }
}

impl<F, R, E> Function<(App, Value, DateTime<Utc>)> for F
where
    F: FnOnce(App, Value, DateTime<Utc>) -> R,
    R: Future<Output = Result<Value, E>>,
{
    type Error = E;

    async fn invoke(self, app: App, payload: Value, deadline: DateTime<Utc>) -> Result<Value, E> {
        self(app, payload, deadline).await
    }
}
