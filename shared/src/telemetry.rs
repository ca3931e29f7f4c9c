//! Logs: one JSON object a line, which CloudWatch reads as it is.

use tracing::{Level, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

/// Our own crates.
pub const OURS: [&str; 14] = [
    "touchline",
    "login",
    "profile",
    "matches",
    "teams",
    "predictions",
    "coins",
    "chat",
    "treasury",
    "sms_logs",
    "meta",
    "feed",
    "tally",
    "points",
];

/// Our own crates may talk at `level`, libraries of errors alone: at lower levels some write whole
/// requests, with the codes and phone numbers in them.
fn filter(level: Level) -> Targets {
    Targets::new()
        .with_default(LevelFilter::ERROR)
        .with_targets(OURS.map(|target| (target, LevelFilter::from_level(level))))
}

/// The subscriber of every function, writing where told.
pub fn subscriber<W>(level: Level, writer: W) -> impl Subscriber + for<'a> LookupSpan<'a> + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt::layer()
        .json()
        .flatten_event(true)
        .with_current_span(true)
        .with_span_list(false)
        // CloudWatch stamps each line itself.
        .without_time()
        .with_writer(writer);
    Registry::default().with(lines.with_filter(filter(level)))
}

/// Logs to standard output from now on.
pub fn start(level: Level) {
    // Only the first call in a process counts; the tests start several functions in one.
    let _ = tracing::subscriber::set_global_default(subscriber(level, std::io::stdout));
}
