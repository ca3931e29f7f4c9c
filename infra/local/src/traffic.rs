//! Publishes every request and its response to the open console pages.

use axum::body::Bytes;
use serde_json::{Value, json};
use tokio::sync::broadcast;

/// How many requests a page can fall behind before it misses requests.
const CAPACITY: usize = 256;

/// How many characters of a body the console shows.
const SHOWN_CHARACTERS: usize = 16 * 1024;

/// The channel from the gateway to the console pages.
#[derive(Debug, Clone)]
pub(crate) struct Traffic(broadcast::Sender<Bytes>);

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
}

impl Default for Traffic {
    fn default() -> Self {
        Self(broadcast::channel(CAPACITY).0)
    }
}

impl Traffic {
    pub(crate) fn has_subscribers(&self) -> bool {
        self.0.receiver_count() > 0
    }

    pub(crate) fn publish(&self, exchange: &Exchange<'_>) {
        let event = json!({
            "method": exchange.method,
            "path": exchange.path,
            "request": shortened(exchange.request),
            "status": exchange.status,
            "response": shortened(exchange.response),
            "ms": exchange.ms,
            "cost": exchange.cost.map(parse_cost),
            "calls": exchange.calls,
        });
        // Sending fails when the last page has just closed. Then the event is not needed.
        let _ = self.0.send(format!("data: {event}\n\n").into());
    }

    /// Subscribes to all later exchanges. Each exchange is one server-sent event.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Bytes> {
        self.0.subscribe()
    }
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
