//! Runs the Lambda functions in this process. As in AWS, each invocation has a timeout, and a panic fails only
//! the invocation in which it happens.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use serde_json::{Value, json};

use crate::calls;
use crate::spans;

/// The result of an invocation: the response payload, or the error object that Lambda reports.
pub(crate) type Outcome = Result<Value, Value>;

type Invocation = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// The code of a function: takes a Lambda event and returns the outcome.
pub(crate) type Handler = Box<dyn Fn(Value) -> Invocation + Send + Sync>;

/// All functions, by name.
#[derive(Default)]
pub(crate) struct Host {
    functions: BTreeMap<String, (Duration, Handler)>,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.functions.keys()).finish()
    }
}

impl Host {
    pub(crate) fn add(&mut self, name: &str, timeout: Duration, handler: Handler) {
        self.functions.insert(name.to_owned(), (timeout, handler));
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.functions.contains_key(name)
    }

    /// Runs a function until it returns, panics or times out. `None` means that the function is unknown.
    pub(crate) async fn invoke(&self, name: &str, event: Value) -> Option<Outcome> {
        let (timeout, handler) = self.functions.get(name)?;
        let start = spans::now();
        let task = tokio::spawn(calls::in_current_scope(tokio::time::timeout(*timeout, handler(event))));
        let ended = task.await;
        calls::record_invocation(name, start);
        Some(match ended {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => {
                let message = format!("Task timed out after {:.2} seconds", timeout.as_secs_f64());
                Err(error_object("Sandbox.Timedout", &message))
            }
            Err(_) => Err(error_object("Runtime.ExitError", "the function panicked")),
        })
    }
}

/// Builds an error object in the format in which Lambda reports errors.
pub(crate) fn error_object(kind: &str, message: &str) -> Value {
    json!({ "errorType": kind, "errorMessage": message })
}
