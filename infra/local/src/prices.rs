//! What a request would cost in AWS: list prices in eu-west-1, in dollars. docs/operations.md has the same prices.

use std::collections::BTreeMap;

use touchline_stack::Stack;

use crate::spans::{Kind, Span};

/// DynamoDB on demand (<https://aws.amazon.com/dynamodb/pricing/on-demand/>).
const READ_UNIT: f64 = 0.1415e-6;
const WRITE_UNIT: f64 = 0.7075e-6;

/// A request to an HTTP API (<https://aws.amazon.com/api-gateway/pricing/>).
const API_REQUEST: f64 = 1.11e-6;

/// An invocation and a GB-second on arm64 (<https://aws.amazon.com/lambda/pricing/>).
const INVOCATION: f64 = 0.20e-6;
const GB_SECOND: f64 = 0.000_013_333_4;

/// The memory of each function in MB.
#[derive(Debug)]
pub(crate) struct Prices(BTreeMap<String, u32>);

impl Prices {
    pub(crate) fn new(stack: &Stack) -> Self {
        let memory =
            |function: &touchline_stack::resources::Function| (function.name.clone(), function.memory_mb);
        Self(stack.functions.iter().map(memory).collect())
    }

    /// Returns the price of a request with these spans. Durations are those of this machine. A delivery is counted in
    /// full, although in AWS many requests share one.
    pub(crate) fn of(&self, spans: &[Span]) -> f64 {
        spans.iter().map(|span| self.of_span(span)).sum()
    }

    fn of_span(&self, span: &Span) -> f64 {
        match span.kind {
            Kind::Gateway => API_REQUEST,
            Kind::Store => span.read_units * READ_UNIT + span.write_units * WRITE_UNIT,
            Kind::Function | Kind::Stream => {
                let memory = self.0.get(&span.name).copied().unwrap_or_default();
                // Lambda charges whole milliseconds.
                let seconds = span.end.saturating_duration_since(span.start).as_secs_f64();
                let seconds = (seconds * 1_000.0).ceil() / 1_000.0;
                INVOCATION + f64::from(memory) / 1_024.0 * seconds * GB_SECOND
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::spans;

    #[test]
    fn the_price_of_a_request_is_the_sum_of_the_prices_of_its_spans() {
        let start = spans::now();
        let span = |name: &str, kind, ms, read_units, write_units| Span {
            name: name.to_owned(),
            kind,
            start,
            end: start + Duration::from_millis(ms),
            read_units,
            write_units,
        };
        let prices = Prices(BTreeMap::from([("login".to_owned(), 256)]));
        let spans = [
            span("gateway", Kind::Gateway, 12, 0.0, 0.0),
            span("login", Kind::Function, 10, 0.0, 0.0),
            span("GetItem users", Kind::Store, 2, 1.0, 0.0),
            span("TransactWriteItems users", Kind::Store, 3, 0.0, 3.0),
        ];
        let expected = 1.11 + 0.20 + 0.033_333_5 + 0.1415 + 3.0 * 0.7075;
        assert!((prices.of(&spans) * 1e6 - expected).abs() < 1e-9, "{}", prices.of(&spans));
    }
}
