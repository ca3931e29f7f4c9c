//! A model of Lambda: several environments for each function, each with its own caches and its own clock. Environments
//! start cold, crash at any call to the store, and time out.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::BoxFuture;
use lambda_http::http::Method;
use lambda_http::{Body, Request};
use serde_json::Value;
use tokio::time::Instant;
use touchline::{App, Router};

use crate::costs::Units;
use crate::fault::Faults;
use crate::limits::{Limits, PAYLOAD_BYTES};
use crate::process::Process;
use crate::trace::Trace;

/// The code of a function.
#[derive(Clone, Copy)]
pub enum Code {
    /// Handles requests of the gateway.
    Http(fn(App) -> Router),
    /// Is invoked with a payload and a deadline.
    Event(EventCode),
}

/// The code of a function that is invoked with a payload and a deadline.
pub type EventCode = fn(App, Value, DateTime<Utc>) -> BoxFuture<'static, Result<Value, String>>;

/// Why an invocation has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failed {
    /// The environment crashed.
    Crashed,
    TimedOut,
    /// Lambda did not run the function, because of a limit or a fault.
    Throttled,
    /// The function returned an error, or Lambda rejected its payload or response.
    Error(String),
}

/// Creates the app of a new environment. The argument numbers the environments.
pub type NewApp = Box<dyn Fn(u32) -> App + Send + Sync>;

pub struct Lambda {
    functions: BTreeMap<String, Function>,
    new_app: NewApp,
    faults: Arc<Faults>,
    trace: Arc<Trace>,
    /// The number of environments so far.
    environments: Mutex<u32>,
    limits: Option<Arc<Limits>>,
}

struct Function {
    code: Code,
    timeout: Duration,
    /// The maximum number of environments.
    concurrency: usize,
    /// Only used to find the function of a request; never invoked.
    routes: Option<Router>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    idle: Vec<Environment>,
    busy: usize,
}

struct Environment {
    name: String,
    app: App,
    router: Option<Arc<Router>>,
    /// When an invocation with a fault ended.
    disturbed: Option<Instant>,
}

/// How long a fault in one invocation can disturb the next ones of its environment. After a failed load of the catalog, the
/// environment does not try again for up to four seconds.
const DISTURBED_FOR: Duration = Duration::from_secs(5);

impl fmt::Debug for Lambda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lambda")
    }
}

impl Lambda {
    #[must_use]
    pub fn new(new_app: NewApp, faults: Arc<Faults>, trace: Arc<Trace>) -> Self {
        Self { functions: BTreeMap::new(), new_app, faults, trace, environments: Mutex::new(0), limits: None }
    }

    /// Returns the same Lambda with the limits of an account. It ends an environment only after a crash or a timeout.
    #[must_use]
    pub fn limited(self, limits: Arc<Limits>) -> Self {
        Self { limits: Some(limits), ..self }
    }

    /// Deploys a function.
    pub fn deploy(&mut self, name: &str, code: Code, timeout: Duration, concurrency: usize) {
        let routes = match code {
            Code::Http(router) => Some(router((self.new_app)(0))),
            Code::Event(_) => None,
        };
        let state = Mutex::default();
        self.functions.insert(name.to_owned(), Function { code, timeout, concurrency, routes, state });
    }

    /// Returns the name of the function that serves a route.
    #[must_use]
    pub fn function_of(&self, method: &Method, path: &str) -> Option<&str> {
        let serves =
            |function: &Function| function.routes.as_ref().is_some_and(|routes| routes.serves(method, path));
        self.functions.iter().find(|(_, function)| serves(function)).map(|(name, _)| name.as_str())
    }

    /// Handles a request of the gateway. Returns the response and the units of its calls; no units if a call failed.
    pub async fn respond(
        &self,
        name: &str,
        request: Request,
    ) -> Result<(lambda_http::Response<Body>, Option<Units>), Failed> {
        let (response, units) = self
            .run(name, |environment, _| {
                let router = environment.router.clone().expect("the function has routes");
                async move {
                    let response = router.respond(request).await;
                    Ok((response, Process::current().and_then(|process| process.spent())))
                }
            })
            .await?;
        check_size("the response", response.body().len())?;
        Ok((response, units))
    }

    /// Invokes a function with a payload.
    pub async fn invoke(&self, name: &str, payload: Value) -> Result<Value, Failed> {
        check_size("the payload", payload.to_string().len())?;
        self.run(name, |environment, deadline| {
            let Code::Event(code) = self.functions[name].code else {
                panic!("{name} is invoked by the gateway")
            };
            let work = code(environment.app.clone(), payload, deadline);
            async move { work.await.map_err(Failed::Error) }
        })
        .await
    }

    async fn run<T, F>(
        &self,
        name: &str,
        work: impl FnOnce(&Environment, DateTime<Utc>) -> F,
    ) -> Result<T, Failed>
    where
        F: Future<Output = Result<T, Failed>>,
    {
        let function = &self.functions[name];
        if self.faults.occurs("LambdaThrottle", 4) {
            return Err(Failed::Throttled);
        }
        let mut environment = self.environment(name, function).await.ok_or(Failed::Throttled)?;
        let timeout = TimeDelta::from_std(function.timeout).expect("timeouts are minutes");
        let deadline = environment.app.clock.now() + timeout;
        let process = Process::new(environment.name.clone());
        if environment.disturbed.is_some_and(|at| at.elapsed() < DISTURBED_FOR) {
            process.count_nothing();
        }
        let work = Arc::clone(&process).run(work(&environment, deadline));
        let result = match tokio::time::timeout(function.timeout, work).await {
            Ok(Some(result)) => result,
            Ok(None) => Err(Failed::Crashed),
            Err(_) => Err(Failed::TimedOut),
        };
        if let Some(limits) = &self.limits {
            limits.end_execution(name, function.routes.is_some());
        }
        if process.had_fault() {
            environment.disturbed = Some(Instant::now());
        }
        let mut state = function.state.lock().expect("no holder of the lock panics");
        state.busy -= 1;
        match &result {
            // Do not use the environment again.
            Err(failed @ (Failed::Crashed | Failed::TimedOut)) => {
                self.trace.line(format_args!("  {} {failed:?}", environment.name));
            }
            _ => state.idle.push(environment),
        }
        result
    }

    /// Returns an idle environment, or starts a new one. Returns `None` if the function may have no more.
    async fn environment(&self, name: &str, function: &Function) -> Option<Environment> {
        let dice = self.faults.dice();
        if let Some(limits) = &self.limits {
            return self.environment_within(limits, name, function).await;
        }
        {
            let mut state = function.state.lock().expect("no holder of the lock panics");
            if state.busy == function.concurrency {
                return None;
            }
            state.busy += 1;
            // Lambda ends environments now and then.
            if dice.once_in(40) {
                state.idle.clear();
            }
            if !state.idle.is_empty() && !dice.once_in(12) {
                let at = dice.below(u32::try_from(state.idle.len()).unwrap_or(1)) as usize;
                return Some(state.idle.swap_remove(at));
            }
        }
        Some(self.start(name, function).await)
    }

    /// Does the same within limits. Idle environments are always used, and the latest first.
    async fn environment_within(
        &self,
        limits: &Limits,
        name: &str,
        function: &Function,
    ) -> Option<Environment> {
        let is_http = function.routes.is_some();
        let reserved = Some(function.concurrency).filter(|concurrency| *concurrency != UNRESERVED);
        if !limits.begin_execution(name, is_http, reserved) {
            return None;
        }
        let idle = {
            let mut state = function.state.lock().expect("no holder of the lock panics");
            state.busy += 1;
            state.idle.pop()
        };
        match idle {
            Some(environment) => Some(environment),
            None if limits.admits_start(name, is_http) => Some(self.start(name, function).await),
            None => {
                limits.end_execution(name, is_http);
                function.state.lock().expect("no holder of the lock panics").busy -= 1;
                None
            }
        }
    }

    async fn start(&self, name: &str, function: &Function) -> Environment {
        tokio::time::sleep(self.faults.dice().millis(5, 300)).await;
        let number = {
            let mut environments = self.environments.lock().expect("no holder of the lock panics");
            *environments += 1;
            *environments
        };
        let app = (self.new_app)(number);
        let router = match function.code {
            Code::Http(router) => Some(Arc::new(router(app.clone()))),
            Code::Event(_) => None,
        };
        Environment { name: format!("{name}/{number}"), app, router, disturbed: None }
    }
}

/// The concurrency of a function that shares the account's.
pub const UNRESERVED: usize = usize::MAX;

fn check_size(what: &str, bytes: usize) -> Result<(), Failed> {
    if bytes > PAYLOAD_BYTES {
        return Err(Failed::Error(format!("{what} has {bytes} bytes, more than {PAYLOAD_BYTES}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_end_at_6_mb() {
        assert_eq!(check_size("the payload", 6 * 1_024 * 1_024), Ok(()));
        assert!(matches!(check_size("the payload", 6 * 1_024 * 1_024 + 1), Err(Failed::Error(_))));
    }
}
