use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

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
    frozen_until: Mutex<Option<Instant>>,
    /// The units of all calls. `None` after a fault or a failed condition: retries cost more, and the request may fail.
    spent: Mutex<Option<Units>>,
    had_fault: AtomicBool,
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
            frozen_until: Mutex::default(),
            spent: Mutex::new(Some(Units::default())),
            had_fault: AtomicBool::new(false),
        })
    }

    /// Does the work in this process. Returns `None` if the process crashes.
    pub async fn run<T>(self: Arc<Self>, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(CURRENT.scope(Arc::clone(&self), work));
        let mut thaw = pin!(tokio::time::sleep(Duration::ZERO));
        let work = poll_fn(|context| {
            let mut result = Poll::Pending;
            if !self.is_frozen() {
                result = work.as_mut().poll(context);
            }
            if let (true, Some(until)) = (result.is_pending(), self.frozen_until()) {
                thaw.as_mut().reset(until);
                if thaw.as_mut().poll(context).is_ready() {
                    context.waker().wake_by_ref();
                }
            }
            result
        });
        tokio::select! {
            biased;
            () = self.crashed.notified() => None,
            result = work => (!self.has_crashed.load(Ordering::Relaxed)).then_some(result),
        }
    }

    /// Returns the name of the function, which is the first part of the environment's name.
    #[must_use]
    pub fn function(&self) -> &str {
        self.name.split('/').next().unwrap_or_default()
    }

    fn frozen_until(&self) -> Option<Instant> {
        let mut until = self.frozen_until.lock().expect("no holder of the lock panics");
        *until = until.filter(|until| *until > Instant::now());
        *until
    }

    fn is_frozen(&self) -> bool {
        self.frozen_until().is_some()
    }

    /// Pauses the process. Afterwards it continues where it stopped.
    pub fn freeze(&self, time: Duration) {
        *self.frozen_until.lock().expect("no holder of the lock panics") = Some(Instant::now() + time);
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
        self.had_fault.store(true, Ordering::Relaxed);
        self.count_nothing();
    }

    /// Stops counting units, because an earlier fault can affect this invocation.
    pub fn count_nothing(&self) {
        *self.spent.lock().expect("no holder of the lock panics") = None;
    }

    #[must_use]
    pub fn had_fault(&self) -> bool {
        self.had_fault.load(Ordering::Relaxed)
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
