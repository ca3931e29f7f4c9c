//! The parts of the work for a request, for the timeline in the console.

use std::time::Instant;

use serde_json::{Value, json};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Gateway,
    /// An invocation of the function that responds to the request.
    Function,
    /// A call to DynamoDB.
    Store,
    /// An invocation of a function that reads a stream.
    Stream,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Function => "function",
            Self::Store => "store",
            Self::Stream => "stream",
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Span {
    /// The name of a function, or the operation and the tables of a call.
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) start: Instant,
    pub(crate) end: Instant,
    pub(crate) read_units: f64,
    pub(crate) write_units: f64,
}

impl Span {
    /// Returns a span that ends now.
    pub(crate) fn since(start: Instant, name: String, kind: Kind) -> Self {
        Self { name, kind, start, end: now(), read_units: 0.0, write_units: 0.0 }
    }

    /// Returns the span as the pages get it, with its start after the arrival of the request. A delivery that
    /// also has writes of other requests can begin before this request. Then it starts at 0.
    pub(crate) fn shown(&self, arrival: Instant) -> Value {
        let micros = |from, to: Instant| {
            u64::try_from(to.saturating_duration_since(from).as_micros()).unwrap_or(u64::MAX)
        };
        json!({
            "name": self.name,
            "kind": self.kind.name(),
            "start_us": micros(arrival, self.start),
            "us": micros(self.start, self.end),
            "rcu": self.read_units,
            "wcu": self.write_units,
        })
    }
}

#[expect(clippy::disallowed_methods, reason = "measures durations; no rule depends on it")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
