//! API Gateway: turns requests into events and invokes the function of the route.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use chrono::{DateTime, Utc};

use lambda_http::Body;
use lambda_http::http::{HeaderMap, StatusCode};
use serde_json::{Map, Value, json};
use touchline_stack::event::{HttpRequest, http_event};
use touchline_testing::{Api, RawRequest, Response};

use crate::clock::VirtualClock;
use crate::costs::{self, Units};
use crate::fault::Faults;
use crate::lambda::{Failed, Lambda};
use crate::limits::Limits;
use crate::sms::Texts;
use crate::trace::Trace;

/// The status that stands for a response that never arrived.
const LOST: u16 = 599;

/// The API of a world. Clones share the world.
#[derive(Debug, Clone)]
pub struct Gateway {
    pub lambda: Arc<Lambda>,
    pub clock: VirtualClock,
    pub texts: Arc<Texts>,
    pub faults: Arc<Faults>,
    pub trace: Arc<Trace>,
    pub requests: Arc<AtomicU64>,
    /// The requests whose clients gave up, with the time at which the function ended. `None` while it runs.
    pub given_up_requests: Arc<Mutex<BTreeMap<u64, Option<DateTime<Utc>>>>>,
    pub limits: Option<Arc<Limits>>,
    /// The requests that failed without a fault, or cost more than docs/costs.md allows.
    pub suspicious: Arc<Mutex<Vec<String>>>,
}

impl Gateway {
    /// Returns the requests whose clients gave up.
    ///
    /// # Panics
    ///
    /// If a holder of the lock panicked.
    pub fn given_up(&self) -> MutexGuard<'_, BTreeMap<u64, Option<DateTime<Utc>>>> {
        self.given_up_requests.lock().expect("no holder of the lock panics")
    }

    fn suspect(&self, what: String) {
        self.suspicious.lock().expect("no holder of the lock panics").push(what);
    }

    /// Compares the units of a request with docs/costs.md.
    fn check_costs(&self, method: &str, path: &str, body: &Value, units: Option<Units>) {
        // The cost of a homeserver transaction depends on its events.
        if path.starts_with("/_matrix/") {
            return;
        }
        let rows = body["data"].as_array().map_or(0, Vec::len);
        let Some((used, most)) = units.zip(costs::ceiling(method, path, rows)) else { return };
        if used.reads > most.reads || used.writes > most.writes {
            self.suspect(format!("{method} {path} used {used:?}, docs/costs.md allows {most:?}"));
        }
    }

    async fn respond(&self, request: &RawRequest, number: u64) -> (StatusCode, HeaderMap, Value) {
        let RawRequest { method, target, headers, body, address } = request;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let Some(function) = self.lambda.function_of(method, path) else {
            return (StatusCode::NOT_FOUND, HeaderMap::new(), json!({ "message": "Not Found" }));
        };
        if self.limits.as_ref().is_some_and(|limits| !limits.admits_request(&format!("{method} {path}"))) {
            let body = json!({ "message": "Too Many Requests" });
            return (StatusCode::TOO_MANY_REQUESTS, HeaderMap::new(), body);
        }
        let event = http_event(&HttpRequest {
            method: method.as_str(),
            path,
            query,
            headers: headers.clone(),
            body: body.as_deref().unwrap_or_default(),
            source: address.as_deref().unwrap_or("127.0.0.1"),
            id: &format!("request-{number}"),
            at: self.clock.time(),
            route: path,
            path_parameters: Map::new(),
        });
        let request =
            lambda_http::request::from_str(&event.to_string()).expect("lambda_http can read the event");
        match self.lambda.respond(function, request).await {
            Ok((response, units)) => {
                let body: Value = match response.body() {
                    Body::Text(text) => serde_json::from_str(text).expect("the body is JSON"),
                    other => panic!("the body is not text: {other:?}"),
                };
                if response.status().is_success() {
                    self.check_costs(method.as_str(), path, &body, units);
                } else if response.status().is_server_error()
                    && units.is_some()
                    // The season promotes matches while people predict them.
                    && body["code"] != "predictions_paused"
                {
                    self.suspect(format!("{method} {path} failed without a fault: {body}"));
                }
                (response.status(), response.headers().clone(), body)
            }
            Err(failed) => {
                let status = match failed {
                    Failed::Crashed | Failed::Error(_) => StatusCode::INTERNAL_SERVER_ERROR,
                    Failed::TimedOut | Failed::Throttled => StatusCode::SERVICE_UNAVAILABLE,
                };
                (status, HeaderMap::new(), json!({ "message": format!("{failed:?}") }))
            }
        }
    }
}

impl Api for Gateway {
    async fn send(&self, request: RawRequest) -> Response {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let name = format!("{} {}", request.method, request.target);
        let sent = request.body.as_deref().map(String::from_utf8_lossy).unwrap_or_default().into_owned();
        self.trace.line(format_args!("#{number} {name} {sent}"));
        // The function goes on if its client gives up.
        let gateway = self.clone();
        let mut work = tokio::spawn(async move {
            let response = gateway.respond(&request, number).await;
            if let Some(ended) = gateway.given_up().get_mut(&number) {
                *ended = Some(gateway.clock.time());
            }
            response
        });
        let lost = |body| (StatusCode::from_u16(LOST).expect("the status is valid"), HeaderMap::new(), body);
        let gives_up = self.faults.occurs("ClientGaveUp", 15);
        let patience = if gives_up { self.faults.dice().millis(1, 1_500) } else { Duration::MAX };
        let (status, headers, body) = if let Ok(response) = tokio::time::timeout(patience, &mut work).await {
            let (status, headers, body) = response.expect("no request panics");
            if self.faults.occurs("LostHttpResponse", 10) {
                lost(json!({ "lost": body }))
            } else {
                (status, headers, body)
            }
        } else {
            self.given_up().insert(number, None);
            lost(json!({ "given_up": number }))
        };
        self.trace.line(format_args!("#{number} -> {} {body}", status.as_u16()));
        Response { request: name, status, headers, body }
    }

    async fn last_code(&self, phone: &str) -> String {
        self.texts.last_code(phone).unwrap_or_default()
    }
}
