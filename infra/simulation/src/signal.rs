use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Wakes all tasks that wait for a change, in the order in which they began to wait. Tokio's own `watch` wakes them in a random order.
#[derive(Debug, Default)]
pub struct Signal {
    changes: AtomicU64,
    changed: Notify,
}

impl Signal {
    pub fn change(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
        self.changed.notify_waiters();
    }

    /// Returns the number of changes so far.
    pub fn count(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Waits until there are more changes than `seen`, and sets `seen` to their number.
    pub async fn changed(&self, seen: &mut u64) {
        loop {
            let notified = self.changed.notified();
            let changes = self.count();
            if changes != *seen {
                *seen = changes;
                return;
            }
            notified.await;
        }
    }
}
