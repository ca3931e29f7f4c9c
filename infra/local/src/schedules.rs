//! Invokes functions on the schedules of the template.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use touchline_stack::Stack;
use touchline_stack::resources::UnsupportedSchedule;

use crate::host::Host;

/// Every schedule of the template.
#[derive(Debug)]
pub(crate) struct Schedules {
    entries: Vec<Entry>,
    host: Arc<Host>,
}

#[derive(Debug)]
struct Entry {
    function: String,
    period: Duration,
    input: Value,
}

impl Schedules {
    pub(crate) fn new(stack: &Stack, host: Arc<Host>) -> Result<Self, UnsupportedSchedule> {
        let mut entries = Vec::new();
        for function in &stack.functions {
            for schedule in &function.schedules {
                entries.push(Entry {
                    function: function.name.clone(),
                    period: schedule.period()?,
                    input: schedule.input.clone(),
                });
            }
        }
        Ok(Self { entries, host })
    }

    /// Invokes the functions until the stack stops. Returns after the invocations in progress have finished.
    pub(crate) async fn run(self, stopped: watch::Receiver<bool>) {
        join_all(self.entries.iter().map(|entry| self.repeat(entry, stopped.clone()))).await;
    }

    async fn repeat(&self, entry: &Entry, mut stopped: watch::Receiver<bool>) {
        #[expect(clippy::disallowed_methods, reason = "starts a timer; no code reads the time")]
        let mut ticks = interval_at(Instant::now() + entry.period, entry.period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                _ = stopped.wait_for(|stop| *stop) => return,
            }
            if let Some(Err(error)) = self.host.invoke(&entry.function, entry.input.clone()).await {
                tracing::error!(function = entry.function, %error, "a scheduled invocation failed");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    use touchline_stack::Template;

    use super::*;

    const TEMPLATE: &str = r#"
Resources:
  Clockwork:
    Type: AWS::Serverless::Function
    Metadata: { BuildProperties: { Binary: clockwork } }
    Properties:
      Events:
        EveryMinute: { Type: ScheduleV2, Properties: { ScheduleExpression: rate(1 minute), Input: '{"rate":"minute"}' } }
        EveryFiveMinutes: { Type: ScheduleV2, Properties: { ScheduleExpression: rate(5 minutes), Input: '{"rate":"five minutes"}' } }
"#;

    #[tokio::test(start_paused = true)]
    async fn functions_run_at_the_rates_in_the_template() {
        let stack = Template::parse(TEMPLATE).unwrap().resolve(&BTreeMap::new()).unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut host = Host::default();
        let record = Arc::clone(&seen);
        host.add(
            "clockwork",
            Duration::from_secs(1),
            Box::new(move |event| {
                record.lock().unwrap().push(event["rate"].as_str().unwrap().to_owned());
                Box::pin(async { Ok(Value::Null) })
            }),
        );
        let host = Arc::new(host);
        let (stop, stopped) = watch::channel(false);
        let running = tokio::spawn(Schedules::new(&stack, host).unwrap().run(stopped));
        // Time is virtual: it advances when every task waits.
        tokio::time::sleep(Duration::from_secs(10 * 60 + 1)).await;
        stop.send(true).unwrap();
        running.await.unwrap();
        let seen = seen.lock().unwrap();
        assert_eq!(seen.iter().filter(|rate| *rate == "minute").count(), 10);
        assert_eq!(seen.iter().filter(|rate| *rate == "five minutes").count(), 2);
    }
}
