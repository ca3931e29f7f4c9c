//! What can go wrong with a call to the store, and how often it does.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

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
    const WRITES: [Self; 4] = [Self::Late, Self::DeliverTwice, Self::Conflict, Self::InternalErrorAfter];

    /// Returns the faults that an operation of DynamoDB can have.
    fn of(operation: &str) -> Vec<Self> {
        let mut faults = Self::EVERY_CALL.to_vec();
        if matches!(operation, "PutItem" | "UpdateItem" | "DeleteItem" | "TransactWriteItems") {
            faults.extend(Self::WRITES);
        }
        if matches!(operation, "BatchWriteItem" | "BatchGetItem" | "BatchExecuteStatement") {
            // AWS often processes only a part of a batch, so this fault is more likely than the others.
            faults.extend([Self::Partial; 4]);
        }
        faults
    }
}

/// Decides which calls of a world have faults, and counts the faults.
#[derive(Debug)]
pub struct Weather {
    dice: Dice,
    /// How many of 1,000 calls have a fault.
    per_mille: u32,
    is_calm: AtomicBool,
    counts: Mutex<BTreeMap<String, u64>>,
}

impl Weather {
    #[must_use]
    pub fn new(dice: Dice, per_mille: u32) -> Self {
        Self { dice, per_mille, is_calm: AtomicBool::new(false), counts: Mutex::default() }
    }

    /// Ends all faults.
    pub fn calm_down(&self) {
        self.is_calm.store(true, Ordering::Relaxed);
    }

    #[must_use]
    pub fn is_calm(&self) -> bool {
        self.is_calm.load(Ordering::Relaxed)
    }

    /// Draws the fault of a call to the store. `None` means that the call has no fault.
    pub fn draw(&self, operation: &str) -> Option<Fault> {
        if self.is_calm() || !self.dice.per_mille(self.per_mille) {
            return None;
        }
        let fault = *self.dice.choose(&Fault::of(operation));
        self.count(&format!("{fault:?}"));
        Some(fault)
    }

    /// Decides whether a fault outside the store happens now. It happens `per_mille` times in 1,000 calls and is counted
    /// under `name`.
    pub fn strikes(&self, name: &str, per_mille: u32) -> bool {
        let strikes = !self.is_calm() && self.dice.per_mille(per_mille);
        if strikes {
            self.count(name);
        }
        strikes
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
