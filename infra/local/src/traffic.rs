//! Publishes every request with its response, and the progress of matches that the stack plays, to the open console
//! pages.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use axum::body::Bytes;
use serde_json::{Value, json};
use tokio::sync::broadcast;
use touchline::domain::UserId;

use crate::spans::Span;

const LOCK: &str = "no holder of the lock panics";

/// How many messages a page can fall behind before it misses some.
const CAPACITY: usize = 256;

/// How many characters of a body the console shows.
const SHOWN_CHARACTERS: usize = 16 * 1024;

/// The channel from the stack to the console pages. Each message is a server-sent event.
#[derive(Debug, Clone)]
pub(crate) struct Traffic {
    sender: broadcast::Sender<Bytes>,
    /// The last message about each match that is being played. Locked while a message about a match is sent, so that
    /// a page that connects meanwhile neither misses a message nor gets an older one after a newer one.
    matches: Arc<Mutex<BTreeMap<u32, Bytes>>>,
    /// The number of the last exchange.
    last_id: Arc<AtomicU64>,
}

/// A request with its response.
#[derive(Debug)]
pub(crate) struct Exchange<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) request: &'a [u8],
    pub(crate) status: u16,
    pub(crate) response: &'a [u8],
    pub(crate) ms: i64,
    /// The value of the cost header: `calls=1 rounds=1 rcu=0.5 wcu=0`.
    pub(crate) cost: Option<&'a str>,
    /// The DynamoDB calls, in the order in which the function made them.
    pub(crate) calls: Vec<String>,
    /// Who has sent the request, if known.
    pub(crate) user: Option<UserId>,
    pub(crate) arrival: Instant,
    /// The parts of the work, with those of the deliveries that the request caused.
    pub(crate) spans: &'a [Span],
    /// The price of the request in AWS.
    pub(crate) usd: f64,
}

impl Default for Traffic {
    fn default() -> Self {
        Self { sender: broadcast::channel(CAPACITY).0, matches: Arc::default(), last_id: Arc::default() }
    }
}

impl Traffic {
    pub(crate) fn has_subscribers(&self) -> bool {
        self.sender.receiver_count() > 0
    }

    pub(crate) fn publish(&self, exchange: &Exchange<'_>) {
        let spans: Vec<Value> = exchange.spans.iter().map(|span| span.shown(exchange.arrival)).collect();
        let event = json!({
            "id": self.last_id.fetch_add(1, Ordering::Relaxed) + 1,
            "method": exchange.method,
            "path": exchange.path,
            "request": shortened(exchange.request),
            "status": exchange.status,
            "response": shortened(exchange.response),
            "ms": exchange.ms,
            "cost": exchange.cost.map(parse_cost),
            "calls": exchange.calls,
            "user_id": exchange.user,
            "spans": spans,
            "usd": exchange.usd,
        });
        // Sending fails when the last page has just closed. Then the event is not needed.
        let _ = self.sender.send(format!("data: {event}\n\n").into());
    }

    /// Publishes what happens in a match that is being played.
    pub(crate) fn publish_match(&self, event: u32, message: &Value) {
        let message = match_event(message);
        let mut matches = self.matches.lock().expect(LOCK);
        matches.insert(event, message.clone());
        let _ = self.sender.send(message);
    }

    /// Publishes the last message about a match.
    pub(crate) fn publish_last_of_match(&self, event: u32, message: &Value) {
        let mut matches = self.matches.lock().expect(LOCK);
        matches.remove(&event);
        let _ = self.sender.send(match_event(message));
    }

    /// Subscribes to all later messages. Also returns the last message about each match that is being played.
    pub(crate) fn subscribe(&self) -> (broadcast::Receiver<Bytes>, Vec<Bytes>) {
        let matches = self.matches.lock().expect(LOCK);
        (self.sender.subscribe(), matches.values().cloned().collect())
    }
}

fn match_event(message: &Value) -> Bytes {
    format!("event: match\ndata: {message}\n\n").into()
}

/// Converts `calls=1 rcu=0.5` to `{"calls": 1, "rcu": 0.5}`.
fn parse_cost(header: &str) -> Value {
    let parts = header.split(' ').filter_map(|part| part.split_once('='));
    let numbers =
        parts.filter_map(|(name, value)| Some((name.to_owned(), value.parse::<f64>().ok()?.into())));
    Value::Object(numbers.collect())
}

fn shortened(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    match text.char_indices().nth(SHOWN_CHARACTERS) {
        None => text.into_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
