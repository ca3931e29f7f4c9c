//! Bounded retries, for every loop that retries after a conflict or an incomplete batch.

use std::time::Duration;

use tokio::time::sleep;

use super::error::StoreError;

/// Limits how many attempts a loop makes, and waits between the attempts.
///
/// The loop makes an attempt, returns on success, and calls [`Retry::again`] otherwise:
///
/// ```ignore
/// let mut retry = Retry::immediate("wallet", 5);
/// loop {
///     if write().await? {
///         return Ok(());
///     }
///     retry.again().await?;
/// }
/// ```
///
/// The SDK already retries single calls that DynamoDB throttles. [`Retry`] is for what the SDK does not retry:
/// a write whose condition failed, and the part of a batch that DynamoDB left unprocessed.
#[derive(Debug)]
pub struct Retry {
    what: &'static str,
    is_own: bool,
    attempts: u32,
    failed: u32,
    first_wait: Duration,
}

impl Retry {
    /// Allows up to `attempts` attempts without waits. `what` names the contended resource in the error.
    #[must_use]
    pub fn immediate(what: &'static str, attempts: u32) -> Self {
        Self::doubling(what, attempts, Duration::ZERO)
    }

    /// Allows up to `attempts` attempts. The first wait is `first_wait`; each further wait is twice as long
    /// as the wait before.
    #[must_use]
    pub fn doubling(what: &'static str, attempts: u32, first_wait: Duration) -> Self {
        Self { what, is_own: false, attempts, failed: 0, first_wait }
    }

    /// Returns the same retries for an item that only requests of one user change. Then the last failure is
    /// [`StoreError::Overtaken`].
    #[must_use]
    pub fn of_own_item(self) -> Self {
        Self { is_own: true, ..self }
    }

    /// Returns how many attempts have failed so far.
    #[must_use]
    pub fn failed(&self) -> u32 {
        self.failed
    }

    /// Counts a failed attempt, then waits. Fails with [`StoreError::Contended`] after the last attempt, or with
    /// [`StoreError::Overtaken`] if the item is the user's own.
    pub async fn again(&mut self) -> Result<(), StoreError> {
        let wait = self.first_wait.saturating_mul(2_u32.saturating_pow(self.failed));
        self.count_failure()?;
        if !wait.is_zero() {
            sleep(wait).await;
        }
        Ok(())
    }

    /// Does the same as [`Retry::again`], but waits for `wait`.
    pub async fn again_after(&mut self, wait: Duration) -> Result<(), StoreError> {
        self.count_failure()?;
        sleep(wait).await;
        Ok(())
    }

    fn count_failure(&mut self) -> Result<(), StoreError> {
        self.failed += 1;
        let what = self.what;
        if self.failed < self.attempts {
            Ok(())
        } else if self.is_own {
            Err(StoreError::Overtaken { what })
        } else {
            Err(StoreError::Contended { what })
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    /// Returns the waits between attempts, in milliseconds, until the retries are exhausted.
    #[expect(clippy::disallowed_methods, reason = "measures the paused clock")]
    async fn waits(mut retry: Retry) -> Vec<u128> {
        let mut waits = Vec::new();
        loop {
            let start = Instant::now();
            match retry.again().await {
                Ok(()) => waits.push(start.elapsed().as_millis()),
                Err(error) => {
                    assert!(matches!(error, StoreError::Contended { what: "row" }), "{error}");
                    return waits;
                }
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn waits_double_and_no_wait_follows_the_last_failure() {
        assert_eq!(waits(Retry::doubling("row", 4, Duration::from_millis(10))).await, [10, 20, 40]);
    }

    #[tokio::test(start_paused = true)]
    async fn immediate_retries_do_not_wait() {
        assert_eq!(waits(Retry::immediate("row", 3)).await, [0, 0]);
        assert!(waits(Retry::immediate("row", 1)).await.is_empty());
    }
}
