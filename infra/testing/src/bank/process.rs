use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

use super::dice::Dice;
use super::faults::Fault;

/// A simulated process: one invocation of a Lambda function. Its calls to the store can fail, and it can crash.
#[derive(Debug)]
pub struct Process {
    dice: Arc<Dice>,
    hazards: Hazards,
    crashed: Notify,
    counts: Arc<Counts>,
}

/// What can happen to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hazards {
    None,
    /// Its calls can fail.
    Faults,
    /// Its calls can fail, and it can crash.
    FaultsAndCrashes,
}

/// What happened to the processes of a schedule.
#[derive(Debug, Default)]
pub struct Counts {
    pub calls: AtomicU64,
    pub faults: AtomicU64,
    pub crashes: AtomicU64,
}

tokio::task_local! {
    static CURRENT: Arc<Process>;
}

impl Process {
    pub fn new(dice: Arc<Dice>, counts: Arc<Counts>, hazards: Hazards) -> Arc<Self> {
        Arc::new(Self { dice, hazards, crashed: Notify::new(), counts })
    }

    /// Does the work in this process. Returns `None` if the process crashes.
    pub async fn run<T>(self: Arc<Self>, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            result = CURRENT.scope(Arc::clone(&self), work) => Some(result),
            () = self.crashed.notified() => None,
        }
    }

    /// Returns the process that makes the current call, or `None` outside of a process.
    pub fn current() -> Option<Arc<Self>> {
        CURRENT.try_with(Arc::clone).ok()
    }

    pub fn count_call(&self) {
        self.counts.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Draws the fault of the next call. `None` means that the call has no fault.
    pub fn draw_fault(&self) -> Option<Fault> {
        if self.hazards == Hazards::None {
            return None;
        }
        let fault = Fault::draw(&self.dice)?;
        self.counts.faults.fetch_add(1, Ordering::Relaxed);
        let is_crash = matches!(fault, Fault::CrashBefore | Fault::CrashAfter);
        (!is_crash || self.hazards == Hazards::FaultsAndCrashes).then_some(fault)
    }

    /// Yields to other processes a random number of times, fewer than `bound`.
    pub async fn wait(&self, bound: u32) {
        for _ in 0..self.dice.below(bound) {
            tokio::task::yield_now().await;
        }
    }

    /// Ends the process: [`Self::run`] returns `None`, and this call never returns.
    pub async fn crash<T>(&self) -> T {
        self.counts.crashes.fetch_add(1, Ordering::Relaxed);
        self.crashed.notify_one();
        std::future::pending().await
    }
}
