//! Logs and metrics.
//!
//! A log line is one JSON object. Metrics are log lines too, in CloudWatch's embedded metric format, so
//! recording a metric needs no API call.

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use tracing::{Level, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

use crate::config::Environment;
use crate::http::RequestReport;

/// The crates of this workspace that run in a Lambda function.
pub const OURS: [&str; 19] = [
    "touchline",
    "login",
    "profile",
    "matches",
    "teams",
    "predictions",
    "coins",
    "chat",
    "moderation",
    "treasury",
    "sms_logs",
    "meta",
    "feed",
    "tally",
    "points",
    "standings",
    "leaderboards",
    "recount",
    "erasure",
];

/// Creates a filter that logs this workspace's crates at `level`, and other crates only at `ERROR`.
///
/// At more verbose levels, some libraries log whole requests, with codes and phone numbers in them.
fn filter(level: Level) -> Targets {
    Targets::new()
        .with_default(LevelFilter::ERROR)
        .with_targets(OURS.map(|target| (target, LevelFilter::from_level(level))))
}

/// Creates the log subscriber, the same for every function. It writes to `writer`.
pub fn subscriber<W>(level: Level, writer: W) -> impl Subscriber + for<'a> LookupSpan<'a> + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt::layer()
        .json()
        .flatten_event(true)
        .with_current_span(true)
        .with_span_list(false)
        // CloudWatch adds the time to each line.
        .without_time()
        .with_writer(writer);
    Registry::default().with(lines.with_filter(filter(level)))
}

/// Writes the metrics of a request to standard output.
#[expect(clippy::print_stdout, reason = "CloudWatch reads metrics from standard output")]
pub fn measure(function: &str, environment: Environment, report: &RequestReport) {
    println!("{}", metrics(function, environment, report));
}

/// Formats the metrics of a request as a log line.
///
/// The dimensions are the environment and the function. The route is not a dimension, because CloudWatch
/// charges for every combination of a metric and values of its dimensions. The route is a property of the log
/// line, so CloudWatch Logs Insights can query it.
fn metrics(function: &str, environment: Environment, report: &RequestReport) -> Value {
    let metric = |name: &str, unit: &str| json!({ "Name": name, "Unit": unit });
    json!({
        "_aws": {
            "Timestamp": report.at.timestamp_millis(),
            "CloudWatchMetrics": [{
                "Namespace": "Touchline",
                "Dimensions": [["Environment", "Function"]],
                "Metrics": [
                    metric("Latency", "Milliseconds"),
                    metric("ReadUnits", "Count"),
                    metric("WriteUnits", "Count"),
                    metric("Refusals", "Count"),
                    metric("Failures", "Count"),
                ],
            }],
        },
        "Environment": environment.as_str(),
        "Function": function,
        "Route": format!("{} {}", report.method, report.path),
        "Status": report.status.as_u16(),
        "Latency": report.took.num_milliseconds(),
        "ReadUnits": report.cost.read_units,
        "WriteUnits": report.cost.write_units,
        "Refusals": u8::from(report.status.is_client_error()),
        "Failures": u8::from(report.status.is_server_error()),
    })
}

/// Writes one count to standard output, as a metric of a function.
#[expect(clippy::print_stdout, reason = "CloudWatch reads metrics from standard output")]
pub fn count(function: &str, environment: Environment, name: &'static str, count: usize, at: DateTime<Utc>) {
    println!("{}", count_metric(function, environment, name, count, at));
}

fn count_metric(
    function: &str,
    environment: Environment,
    name: &'static str,
    count: usize,
    at: DateTime<Utc>,
) -> Value {
    json!({
        "_aws": {
            "Timestamp": at.timestamp_millis(),
            "CloudWatchMetrics": [{
                "Namespace": "Touchline",
                "Dimensions": [["Environment", "Function"]],
                "Metrics": [{ "Name": name, "Unit": "Count" }],
            }],
        },
        "Environment": environment.as_str(),
        "Function": function,
        name: count,
    })
}

/// Starts logging to standard output.
pub fn start(level: Level) {
    // The tests start several functions in one process. Only the first call sets the subscriber. Later calls
    // fail and change nothing.
    let _ = tracing::subscriber::set_global_default(subscriber(level, std::io::stdout));
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use lambda_http::http::{Method, StatusCode};

    use super::*;
    use crate::storage::meter::Cost;

    /// The embedded metric format requires a value for each metric and dimension that the line declares.
    #[test]
    fn every_declared_metric_and_dimension_has_a_value() {
        let report = RequestReport {
            method: Method::POST,
            path: "/api/auth/predictions",
            status: StatusCode::SERVICE_UNAVAILABLE,
            at: DateTime::from_timestamp_millis(1_794_744_000_000).unwrap(),
            took: TimeDelta::milliseconds(12),
            cost: Cost::default(),
        };
        let line = metrics("touchline-predictions", Environment::Staging, &report);
        check_declared(&line);
        assert_eq!(
            (&line["Failures"], &line["Refusals"], &line["Latency"]),
            (&json!(1), &json!(0), &json!(12))
        );
        assert_eq!(line["Environment"], "staging");
        let line = count_metric("touchline-tally", Environment::Staging, "SetAside", 3, report.at);
        check_declared(&line);
        assert_eq!((&line["SetAside"], &line["Function"]), (&json!(3), &json!("touchline-tally")));
    }

    fn check_declared(line: &Value) {
        let directive = &line["_aws"]["CloudWatchMetrics"][0];
        for metric in directive["Metrics"].as_array().unwrap() {
            assert!(line[metric["Name"].as_str().unwrap()].is_number(), "{metric}");
        }
        for dimension in directive["Dimensions"][0].as_array().unwrap() {
            assert!(line[dimension.as_str().unwrap()].is_string(), "{dimension}");
        }
    }
}
