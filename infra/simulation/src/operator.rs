//! An operator who counts again, while the product is in use and after records of streams were lost.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::dice::Dice;
use crate::person::Shared;

/// How often the operator invokes a recount that does not end, at the end of a world.
const MAX_INVOCATIONS: u32 = 30;

/// How long the operator waits for a moment in which something changes.
const LONGEST_WAIT: Duration = Duration::from_hours(3);

/// The operator of a world.
#[derive(Debug)]
pub struct Operator {
    pub shared: Arc<Shared>,
    pub dice: Dice,
    /// Whether the streams of the world lose records. If not, a recount must find nothing to repair.
    pub loses_records: bool,
    pub people: u32,
}

impl Operator {
    /// Recounts something every few hours, forever.
    pub async fn recount_now_and_then(self) {
        loop {
            tokio::time::sleep(self.dice.millis(60_000, 20_000_000)).await;
            let matches = self.shared.season.matches();
            let rooms = self.shared.rooms.lock().expect("no holder of the lock panics").clone();
            let order = match self.dice.below(8) {
                0 => json!({ "everything": {} }),
                1..=2 if !rooms.is_empty() => json!({ "room": self.dice.choose(&rooms) }),
                3..=4 => json!({ "user": self.dice.between(1, self.people) }),
                _ => json!({ "match": self.dice.choose(&matches).id }),
            };
            let order = self.at_a_bad_moment().await.unwrap_or(order);
            // A recount can crash, and its counters can be busy. The operator tries again another time.
            let _ = self.recount(order).await;
        }
    }

    /// In two of three calls, waits until a prediction is sent or `points` runs, and returns what to recount then.
    async fn at_a_bad_moment(&self) -> Option<Value> {
        let waiting = async {
            match self.dice.below(3) {
                0 => Some(json!({ "match": self.shared.next_predicted().await? })),
                1 => {
                    let mut seen = self.shared.season.points_run.count();
                    self.shared.season.points_run.changed(&mut seen).await;
                    Some(json!({ "user": self.dice.between(1, self.people) }))
                }
                _ => None,
            }
        };
        let order = tokio::time::timeout(LONGEST_WAIT, waiting).await.ok()??;
        tokio::time::sleep(self.dice.millis(0, 600)).await;
        Some(order)
    }

    /// Recounts everything until nothing is left to repair. Returns what is wrong if that takes too long.
    pub async fn recount_everything(&self) -> Result<(), String> {
        let (mut next, mut is_done) = (Value::Null, true);
        for _ in 0..MAX_INVOCATIONS {
            let result = self.recount(json!({ "everything": { "next": next } })).await;
            let Some(report) = result else { continue };
            is_done &=
                report["busy"] == json!([]) && report["repaired"] == json!([]) && report["copied"] == 0;
            next = report["next"].clone();
            if !next.is_null() {
                continue;
            }
            if is_done {
                return Ok(());
            }
            // `tally` copies what was repaired. Then everything is compared once more.
            is_done = true;
            tokio::time::sleep(Duration::from_mins(5)).await;
        }
        Err("a recount of everything does not end".into())
    }

    async fn recount(&self, order: Value) -> Option<Value> {
        let payload = json!({ "recount": order });
        let result = self.shared.gateway.lambda.invoke("recount", payload).await;
        self.shared.gateway.trace.line(format_args!("recount {order} -> {result:?}"));
        let report = result.ok()?;
        if !self.loses_records && report["repaired"] != json!([]) {
            self.shared.violation(format!("a recount repaired what was right: {report}"));
        }
        Some(report)
    }
}
