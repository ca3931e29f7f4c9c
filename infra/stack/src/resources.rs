//! The resources of a template after its parameters are filled in.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

/// All functions and tables of a template.
#[derive(Debug, Clone)]
pub struct Stack {
    pub functions: Vec<Function>,
    pub tables: Vec<Table>,
    /// The throttle of each route of the HTTP API that has none of its own. `None` if the template sets none.
    pub route_throttle: Option<Throttle>,
    /// What the HTTP API allows to web pages of other origins. `None` if it allows nothing.
    pub cors: Option<Cors>,
}

/// The CORS settings of an HTTP API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cors {
    pub origins: Vec<String>,
    pub methods: Vec<String>,
    pub headers: Vec<String>,
    pub exposed_headers: Vec<String>,
    pub max_age_seconds: u32,
}

/// The limits of API Gateway's token bucket.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Throttle {
    /// Requests a second.
    pub rate: f64,
    /// The size of the bucket, in requests.
    pub burst: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Function {
    pub logical_id: String,
    /// The name of the binary. Invocations use the same name.
    pub name: String,
    pub environment: BTreeMap<String, String>,
    pub timeout_seconds: u64,
    pub memory_mb: u32,
    /// The number of executions that are reserved for the function, and the most that it can have.
    pub reserved_concurrency: Option<u32>,
    pub routes: Vec<Route>,
    pub schedules: Vec<Schedule>,
    pub streams: Vec<StreamMapping>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    pub logical_id: String,
    pub name: String,
    /// The table's `Properties` in the template. Their names and structure are the same as in DynamoDB's API.
    pub properties: Value,
}

/// A route of the HTTP API.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    pub method: String,
    /// The path with its parameters in braces: `/api/events/{event}`.
    pub path: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// The expression as written in the template: `rate(1 minute)`.
    pub expression: String,
    /// The payload of each invocation.
    pub input: Value,
}

#[derive(Debug, thiserror::Error)]
#[error("the schedule {0:?} is not supported; only rate(...) is supported")]
pub struct UnsupportedSchedule(String);

impl Schedule {
    /// Returns the time between two invocations. Only `rate(...)` expressions are supported.
    pub fn period(&self) -> Result<Duration, UnsupportedSchedule> {
        let unsupported = || UnsupportedSchedule(self.expression.clone());
        let rate = self.expression.strip_prefix("rate(").and_then(|rest| rest.strip_suffix(')'));
        let (count, unit) = rate.and_then(|rate| rate.split_once(' ')).ok_or_else(unsupported)?;
        let count: u64 = count.parse().map_err(|_| unsupported())?;
        let seconds = match unit.trim_end_matches('s') {
            "minute" => 60,
            "hour" => 3_600,
            "day" => 86_400,
            _ => return Err(unsupported()),
        };
        Ok(Duration::from_secs(count * seconds))
    }
}

/// An event source mapping: Lambda invokes the function with the changes of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamMapping {
    pub table: String,
    pub batch_size: usize,
    /// Whether `FunctionResponseTypes` contains `ReportBatchItemFailures`.
    pub reports_failures: bool,
    /// The patterns of `FilterCriteria`. Without a pattern, every record is delivered.
    pub filters: Vec<Value>,
}

impl StreamMapping {
    /// Returns whether the filters can accept a record with these key attributes. A filter that looks at more than
    /// the keys may still reject the record.
    #[must_use]
    pub fn may_accept(&self, keys: &Value) -> bool {
        let by_keys = |pattern: &Value| {
            let pattern = &pattern["dynamodb"]["Keys"];
            pattern.is_null() || matches(pattern, keys)
        };
        self.filters.is_empty() || self.filters.iter().any(by_keys)
    }

    /// Returns whether the filters accept a record of a stream event.
    #[must_use]
    pub fn accepts(&self, record: &Value) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|pattern| matches(pattern, record))
    }
}

/// Returns whether a value matches a pattern of Lambda's event filtering. An object pattern matches if all
/// its fields match. A list pattern matches if one of its elements matches.
fn matches(pattern: &Value, value: &Value) -> bool {
    match pattern {
        Value::Object(fields) => fields.iter().all(|(name, pattern)| matches(pattern, &value[name])),
        Value::Array(choices) => {
            choices.iter().any(|choice| match (choice.get("prefix"), choice.get("exists")) {
                (Some(prefix), _) => {
                    prefix.as_str().zip(value.as_str()).is_some_and(|(p, text)| text.starts_with(p))
                }
                (None, Some(exists)) => *exists == Value::Bool(!value.is_null()),
                (None, None) => choice == value,
            })
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_records_that_match_a_filter_are_accepted() {
        let filters =
            vec![json!({ "dynamodb": { "Keys": { "sk": { "S": [{ "prefix": "member#" }, "room"] } } } })];
        let mapping = StreamMapping { table: "rooms".into(), batch_size: 1, reports_failures: true, filters };
        let record = |sk: &str| json!({ "dynamodb": { "Keys": { "pk": { "S": "x" }, "sk": { "S": sk } } } });
        assert!(mapping.accepts(&record("member#7")) && mapping.accepts(&record("room")));
        assert!(!mapping.accepts(&record("rooms")) && !mapping.accepts(&record("tally")));
        assert!(!mapping.accepts(&json!({})));
        let keys = |sk: &str| json!({ "pk": { "S": "x" }, "sk": { "S": sk } });
        assert!(mapping.may_accept(&keys("member#7")) && !mapping.may_accept(&keys("tally")));
    }

    #[test]
    fn a_filter_can_require_that_an_attribute_exists() {
        let filters =
            vec![json!({ "dynamodb": { "NewImage": { "ended_at": { "N": [{ "exists": true }] } } } })];
        let mapping = StreamMapping { table: "users".into(), batch_size: 1, reports_failures: true, filters };
        let record = |image: Value| json!({ "dynamodb": { "NewImage": image } });
        assert!(mapping.accepts(&record(json!({ "ended_at": { "N": "1" } }))));
        assert!(!mapping.accepts(&record(json!({ "pk": { "S": "x" } }))));
        assert!(!mapping.accepts(&json!({ "dynamodb": {} })));
    }

    #[test]
    fn a_filter_on_images_may_accept_any_keys() {
        let filters = vec![json!({ "dynamodb": { "NewImage": { "kind": { "S": ["room"] } } } })];
        let mapping = StreamMapping { table: "rooms".into(), batch_size: 1, reports_failures: true, filters };
        assert!(mapping.may_accept(&json!({ "pk": { "S": "x" } })));
    }

    #[test]
    fn cron_schedules_are_not_supported() {
        let cron = Schedule { expression: "cron(0 0 * * ? *)".into(), input: Value::Null };
        let message = cron.period().unwrap_err().to_string();
        assert!(message.contains("cron(0 0 * * ? *)"), "{message}");
    }
}
