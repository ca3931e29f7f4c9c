//! What can go wrong with a call to the store, and how often it does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::costs::is_read;
use crate::dice::Dice;
use crate::process::Process;
use crate::signal::Signal;

/// What goes wrong with one call to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The request never reaches the store.
    LoseRequest,
    /// The store carries the request out, but the response is lost.
    LoseResponse,
    /// The request reaches the store up to two minutes later, mostly after the SDK has given up the attempt.
    Late,
    /// The network delivers the request twice, the second time late.
    DeliverTwice,
    Throttle,
    /// The store throttles most single writes to the table for some seconds.
    HotTable,
    /// Another transaction or write holds an item of this request.
    Conflict,
    /// The store does nothing and reports an internal error.
    InternalError,
    /// The store carries the request out and reports an internal error.
    InternalErrorAfter,
    /// The store carries out only a part of a batch.
    Partial,
    /// The environment pauses for up to four minutes after the store has carried the request out.
    Freeze,
    /// The environment crashes before the request reaches the store.
    CrashBefore,
    /// The environment crashes after the store has carried the request out.
    CrashAfter,
    /// A prediction reaches the store right after `points` has read the predictions of a match.
    LatePrediction,
    /// A run of `points` pauses for a minute or two after it has read predictions or written points.
    FreezePoints,
    /// The progress of a run of `points` reaches the store once more, when the next run has begun.
    LateProgress,
}

/// A time of the season in which some faults do more harm than at other times. They occur more often then. Several
/// moments can overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// The result of a match arrives while people predict the match: many predictions are late, and most writes of `tally`
    /// are throttled.
    EarlyResult,
    /// A result is about to be corrected: the next run of `points` freezes, or its progress is late.
    Correction,
    /// A run of `points` is frozen, or its progress is late: all runs crash, except the frozen one.
    CrashingPoints,
    /// A result is imported: many imports crash, and many of their writes are late.
    Result,
    /// A user changes the profile several times: many of the writes are late.
    Edits,
    /// A user changes a membership with two devices: many of the writes are late.
    Memberships,
}

impl Fault {
    const EVERY_CALL: [Self; 7] = [
        Self::Freeze,
        Self::LoseRequest,
        Self::LoseResponse,
        Self::Throttle,
        Self::InternalError,
        Self::CrashBefore,
        Self::CrashAfter,
    ];
    /// Bugs that need a delayed write are the hardest to find, so delays are listed twice and drawn more often.
    const WRITES: [Self; 7] = [
        Self::Late,
        Self::Late,
        Self::DeliverTwice,
        Self::DeliverTwice,
        Self::HotTable,
        Self::Conflict,
        Self::InternalErrorAfter,
    ];

    /// Returns whether the fault crashes the process that makes the call.
    #[must_use]
    pub fn is_crash(self) -> bool {
        matches!(self, Self::CrashBefore | Self::CrashAfter)
    }

    /// Returns the faults that an operation of DynamoDB can have.
    fn of(operation: &str, can_crash: bool) -> Vec<Self> {
        let mut faults = Self::EVERY_CALL.to_vec();
        faults.retain(|fault| can_crash || !fault.is_crash());
        let is_batch = operation.starts_with("Batch");
        if !is_read(operation) {
            faults.extend(Self::WRITES);
            faults.retain(|fault| match fault {
                Self::Conflict => !is_batch,
                // Transactions and batches can write to several tables.
                Self::HotTable => !is_batch && !operation.starts_with("Transact"),
                _ => true,
            });
        }
        if is_batch {
            // AWS often processes only a part of a batch, so this fault is more likely than the others.
            faults.extend([Self::Partial; 4]);
        }
        faults
    }
}

/// Decides which calls of a world have faults, and counts the faults.
#[derive(Debug)]
pub struct Faults {
    dice: Dice,
    /// How many of 1,000 calls have a fault. The unlucky function has more.
    per_mille: u32,
    /// The faults that never occur.
    excluded: Vec<Fault>,
    /// The operation whose requests are never late or delivered twice.
    on_time: Option<&'static str>,
    /// The function whose calls have [`MORE`] times as many faults as other calls.
    unlucky: Option<&'static str>,
    /// The current moments, and when each ends.
    moments: Mutex<BTreeMap<Moment, Instant>>,
    /// The environment of the run of `points` that was frozen last. Empty if the progress of a run is late.
    frozen: Mutex<String>,
    /// The table whose writes are throttled, and until when.
    hot: Mutex<Option<(String, Instant)>>,
    /// Signals that a run of `points` has frozen, or that its progress is late.
    pub points_frozen: Signal,
    /// The match that is about to be promoted: its first prediction is late.
    promoted: Mutex<Option<u32>>,
    /// Signals that this prediction is on its way.
    pub prediction_held: Signal,
    have_stopped: AtomicBool,
    counts: Mutex<BTreeMap<String, u64>>,
    calls: AtomicU64,
}

/// The factor by which the unlucky function has more faults.
const MORE: u32 = 6;

/// Not even the unlucky function has more faults in 1,000 calls. An import makes 30 calls, so with 300 it would never end.
const MOST: u32 = 150;

/// The functions that can be the unlucky one.
const FUNCTIONS: [&str; 9] =
    ["chat", "coins", "feed", "login", "points", "predictions", "profile", "recount", "tally"];

impl Faults {
    /// Draws faults for the calls of all functions: all kinds except [`Fault::Freeze`] and [`Fault::HotTable`].
    #[must_use]
    pub fn new(dice: Dice, per_mille: u32) -> Self {
        Self {
            dice,
            per_mille,
            excluded: vec![Fault::Freeze, Fault::HotTable],
            on_time: None,
            unlucky: None,
            moments: Mutex::default(),
            frozen: Mutex::default(),
            hot: Mutex::default(),
            points_frozen: Signal::default(),
            promoted: Mutex::default(),
            prediction_held: Signal::default(),
            have_stopped: AtomicBool::new(false),
            counts: Mutex::default(),
            calls: AtomicU64::new(0),
        }
    }

    /// Leaves out some kinds of faults. In half of the worlds, one function has more faults than the others. Many bugs
    /// need several faults of one kind in one place, and evenly spread faults rarely cause that.
    #[must_use]
    pub fn uneven(dice: Dice, per_mille: u32) -> Self {
        Self::uneven_among(&FUNCTIONS, dice, per_mille)
    }

    /// Does the same in a world that has only these functions.
    #[must_use]
    pub fn uneven_among(functions: &[&'static str], dice: Dice, per_mille: u32) -> Self {
        let all: BTreeSet<Fault> =
            Fault::EVERY_CALL.into_iter().chain(Fault::WRITES).chain([Fault::Partial]).collect();
        let excluded = all.into_iter().filter(|_| dice.once_in(3)).collect();
        let unlucky = dice.once_in(2).then(|| *dice.choose(functions));
        Self { excluded, unlucky, ..Self::new(dice, per_mille) }
    }

    /// Returns the same faults, but no request of an operation is late or delivered twice.
    #[must_use]
    pub fn with_on_time(self, operation: &'static str) -> Self {
        Self { on_time: Some(operation), ..self }
    }

    /// Ends all faults.
    pub fn stop(&self) {
        self.have_stopped.store(true, Ordering::Relaxed);
    }

    /// Lets faults occur again.
    pub fn resume(&self) {
        self.have_stopped.store(false, Ordering::Relaxed);
    }

    #[must_use]
    pub fn have_stopped(&self) -> bool {
        self.have_stopped.load(Ordering::Relaxed)
    }

    /// Begins a moment. It ends after `time`.
    pub fn begin(&self, moment: Moment, time: Duration) {
        self.moments.lock().expect("no holder of the lock panics").insert(moment, Instant::now() + time);
    }

    /// Lets the next prediction of a match reach the store late.
    pub fn hold_prediction(&self, event: u32) {
        *self.promoted.lock().expect("no holder of the lock panics") = Some(event);
    }

    /// Decides whether a write is the prediction that [`Self::hold_prediction`] holds. It holds only one.
    fn is_held(&self, body: &Value) -> bool {
        let mut promoted = self.promoted.lock().expect("no holder of the lock panics");
        let partition = body["Key"]["pk"]["S"].as_str().unwrap_or_default();
        let is_held = promoted.is_some_and(|event| partition.starts_with(&format!("event#{event}#")));
        if is_held {
            *promoted = None;
            self.prediction_held.change();
        }
        is_held
    }

    fn is_now(&self, moment: Moment) -> bool {
        let moments = self.moments.lock().expect("no holder of the lock panics");
        moments.get(&moment).is_some_and(|end| Instant::now() <= *end)
    }

    /// Ends [`Moment::Correction`] and begins [`Moment::CrashingPoints`]. `frozen` is the environment that does not crash.
    fn begin_crashing_points(&self, frozen: &str, time: Duration) {
        self.moments.lock().expect("no holder of the lock panics").remove(&Moment::Correction);
        self.begin(Moment::CrashingPoints, time);
        frozen.clone_into(&mut self.frozen.lock().expect("no holder of the lock panics"));
        self.points_frozen.change();
    }

    /// Draws the fault of a call to the store. `None` means that the call has no fault.
    pub fn draw(&self, operation: &str, body: &Value, process: &Process) -> Option<Fault> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if let Some(fault) = self.draw_of_moments(operation, body, process) {
            self.count(&format!("{fault:?}"));
            return Some(fault);
        }
        if self.is_hot(operation, body) {
            self.count("Throttle");
            return Some(Fault::Throttle);
        }
        let more = if self.unlucky == Some(process.function()) { MORE } else { 1 };
        if self.have_stopped() || !self.dice.per_mille((self.per_mille * more).min(MOST)) {
            return None;
        }
        let mut faults = Fault::of(operation, process.can_crash);
        let is_on_time = self.on_time == Some(operation);
        let is_late = |fault: &Fault| matches!(fault, Fault::Late | Fault::DeliverTwice);
        faults.retain(|fault| !(self.excluded.contains(fault) || is_on_time && is_late(fault)));
        if faults.is_empty() {
            return None;
        }
        let fault = *self.dice.choose(&faults);
        self.count(&format!("{fault:?}"));
        if fault == Fault::HotTable {
            let end = Instant::now() + self.dice.millis(1_000, 20_000);
            let table = body["TableName"].as_str().unwrap_or_default().to_owned();
            *self.hot.lock().expect("no holder of the lock panics") = Some((table, end));
        }
        Some(fault)
    }

    /// Decides whether the store throttles this call because of an earlier [`Fault::HotTable`].
    fn is_hot(&self, operation: &str, body: &Value) -> bool {
        let hot = self.hot.lock().expect("no holder of the lock panics");
        let Some((table, end)) = &*hot else { return false };
        !self.have_stopped()
            && Instant::now() < *end
            && !is_read(operation)
            && body["TableName"] == table.as_str()
            && !self.dice.once_in(10)
    }

    /// Draws one of the faults that the current moments cause.
    fn draw_of_moments(&self, operation: &str, body: &Value, process: &Process) -> Option<Fault> {
        if self.have_stopped() || self.per_mille == 0 {
            return None;
        }
        let is_update = operation == "UpdateItem";
        match process.function() {
            "predictions" if is_update && self.is_held(body) => Some(Fault::Late),
            "predictions" if self.is_now(Moment::EarlyResult) && is_update && self.dice.once_in(2) => {
                Some(Fault::LatePrediction)
            }
            "tally" if self.is_now(Moment::EarlyResult) && is_update && !self.dice.once_in(10) => {
                Some(Fault::Throttle)
            }
            "feed" if self.is_now(Moment::Result) && !is_read(operation) && self.dice.once_in(4) => {
                Some(*self.dice.choose(&[Fault::CrashBefore, Fault::CrashAfter, Fault::Late]))
            }
            "profile" if self.is_now(Moment::Edits) && is_update && self.dice.once_in(3) => Some(Fault::Late),
            "chat" if self.is_now(Moment::Memberships) && is_update && self.dice.once_in(4) => {
                Some(Fault::Late)
            }
            "points" if self.is_now(Moment::Correction) => self.draw_of_correction(operation, body, process),
            "points"
                if self.is_now(Moment::CrashingPoints)
                    && operation == "BatchExecuteStatement"
                    && process.name != *self.frozen.lock().expect("no holder of the lock panics") =>
            {
                Some(Fault::CrashBefore)
            }
            _ => None,
        }
    }

    /// Draws a fault for a call of `points` while a result is about to be corrected.
    fn draw_of_correction(&self, operation: &str, body: &Value, process: &Process) -> Option<Fault> {
        if operation == "UpdateItem" && !ends_settlement(body) && !self.dice.once_in(3) {
            self.begin_crashing_points("", Duration::from_secs(90));
            return Some(Fault::LateProgress);
        }
        let freezes = (operation == "BatchExecuteStatement" && self.dice.once_in(2))
            || (reads_predictions(operation, body) && self.dice.once_in(8))
            || ends_settlement(body);
        freezes.then(|| {
            // In half of the cases, the next runs succeed before this one goes on. In the others, they crash, and this
            // one goes on first.
            let time = if self.dice.once_in(2) { Duration::from_secs(90) } else { Duration::ZERO };
            self.begin_crashing_points(&process.name, time);
            Fault::FreezePoints
        })
    }

    /// Decides whether a fault outside the store happens now. It happens `per_mille` times in 1,000 calls and is counted
    /// under `name`.
    pub fn occurs(&self, name: &str, per_mille: u32) -> bool {
        let occurs = !self.have_stopped() && self.dice.per_mille(per_mille);
        if occurs {
            self.count(name);
        }
        occurs
    }

    /// Returns the number of calls to the store, with and without a fault.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    pub fn dice(&self) -> &Dice {
        &self.dice
    }

    fn count(&self, name: &str) {
        let mut counts = self.counts.lock().expect("no holder of the lock panics");
        *counts.entry(name.to_owned()).or_default() += 1;
    }

    /// Returns how often each fault happened.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, u64> {
        self.counts.lock().expect("no holder of the lock panics").clone()
    }
}

/// Returns whether a call of `points` reads predictions. It also reads the list of the matches that wait for points.
#[must_use]
pub fn reads_predictions(operation: &str, body: &Value) -> bool {
    operation == "Query" && body["ExpressionAttributeValues"].get(":due").is_none()
}

/// Whether a call of `points` marks the settlement of a match as done.
fn ends_settlement(body: &Value) -> bool {
    body["ExpressionAttributeNames"]["#name"] == "done_at"
}
