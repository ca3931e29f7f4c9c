//! What can go wrong with a call to the store, and how often it does.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::costs::is_read;
use crate::dice::Dice;

/// What goes wrong with one call to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The request never reaches the store.
    LoseRequest,
    /// The store carries the request out, but the response is lost.
    LoseResponse,
    /// The request reaches the store seconds later, when the SDK has given up waiting for it.
    Late,
    /// The network delivers the request twice, the second time late.
    DeliverTwice,
    Throttle,
    /// Another transaction or write holds an item of this request.
    Conflict,
    /// The store does nothing and reports an internal error.
    InternalError,
    /// The store carries the request out and reports an internal error.
    InternalErrorAfter,
    /// The store carries out only a part of a batch.
    Partial,
    /// The environment crashes before the request reaches the store.
    CrashBefore,
    /// The environment crashes after the store has carried the request out.
    CrashAfter,
}

impl Fault {
    const EVERY_CALL: [Self; 6] = [
        Self::LoseRequest,
        Self::LoseResponse,
        Self::Throttle,
        Self::InternalError,
        Self::CrashBefore,
        Self::CrashAfter,
    ];
    /// Delayed writes are the hardest to find in a test, so they are more likely than the others.
    const WRITES: [Self; 6] = [
        Self::Late,
        Self::Late,
        Self::DeliverTwice,
        Self::DeliverTwice,
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
            faults.extend(Self::WRITES.into_iter().filter(|fault| !is_batch || *fault != Self::Conflict));
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
    /// How many of 1,000 calls have a fault.
    per_mille: u32,
    have_stopped: AtomicBool,
    counts: Mutex<BTreeMap<String, u64>>,
    calls: AtomicU64,
}

impl Faults {
    #[must_use]
    pub fn new(dice: Dice, per_mille: u32) -> Self {
        Self {
            dice,
            per_mille,
            have_stopped: AtomicBool::new(false),
            counts: Mutex::default(),
            calls: AtomicU64::new(0),
        }
    }

    /// Ends all faults.
    pub fn stop(&self) {
        self.have_stopped.store(true, Ordering::Relaxed);
    }

    #[must_use]
    pub fn have_stopped(&self) -> bool {
        self.have_stopped.load(Ordering::Relaxed)
    }

    /// Draws the fault of a call to the store. `None` means that the call has no fault.
    pub fn draw(&self, operation: &str, can_crash: bool) -> Option<Fault> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.have_stopped() || !self.dice.per_mille(self.per_mille) {
            return None;
        }
        let fault = *self.dice.choose(&Fault::of(operation, can_crash));
        self.count(&format!("{fault:?}"));
        Some(fault)
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
