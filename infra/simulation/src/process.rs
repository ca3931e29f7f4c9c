use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::costs::Units;

/// One invocation of a function. It can crash at every call to the store, unless it is created without crashes.
#[derive(Debug)]
pub struct Process {
    /// The environment that runs the invocation, for the trace.
    pub name: String,
    /// Whether a fault can crash the process.
    pub can_crash: bool,
    crashed: Notify,
    has_crashed: AtomicBool,
    /// The units of all calls. `None` after a fault or a failed condition: retries cost more, and the request may fail.
    spent: Mutex<Option<Units>>,
}

tokio::task_local! {
    static CURRENT: Arc<Process>;
}

impl Process {
    #[must_use]
    pub fn new(name: String) -> Arc<Self> {
        Self::with(name, true)
    }

    /// Creates a process that never crashes. Its calls still have the other faults.
    #[must_use]
    pub fn without_crashes(name: String) -> Arc<Self> {
        Self::with(name, false)
    }

    fn with(name: String, can_crash: bool) -> Arc<Self> {
        Arc::new(Self {
            name,
            can_crash,
            crashed: Notify::new(),
            has_crashed: AtomicBool::new(false),
            spent: Mutex::new(Some(Units::default())),
        })
    }

    /// Does the work in this process. Returns `None` if the process crashes.
    pub async fn run<T>(self: Arc<Self>, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.crashed.notified() => None,
            result = CURRENT.scope(Arc::clone(&self), work) => {
                (!self.has_crashed.load(Ordering::Relaxed)).then_some(result)
            }
        }
    }

    /// Returns the process that makes the current call, or `None` outside of a process.
    #[must_use]
    pub fn current() -> Option<Arc<Self>> {
        CURRENT.try_with(Arc::clone).ok()
    }

    /// Adds the units of a call.
    pub fn spend(&self, units: Units) {
        if let Some(spent) = &mut *self.spent.lock().expect("no holder of the lock panics") {
            spent.reads += units.reads;
            spent.writes += units.writes;
        }
    }

    /// Stops counting units, because a call to a service failed.
    pub fn stop_counting(&self) {
        *self.spent.lock().expect("no holder of the lock panics") = None;
    }

    /// Returns the units of all calls, or `None` if a call failed.
    #[must_use]
    pub fn spent(&self) -> Option<Units> {
        *self.spent.lock().expect("no holder of the lock panics")
    }

    /// Ends the process: [`Self::run`] returns `None`, and this call never returns.
    pub async fn crash<T>(&self) -> T {
        self.has_crashed.store(true, Ordering::Relaxed);
        self.crashed.notify_one();
        std::future::pending().await
    }
}
