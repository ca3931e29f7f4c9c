//! Finishes work that follows from a change: it deletes the data of deleted accounts, removes the chat devices of sessions
//! that have ended, ends sessions, notifies the owner of a replaced phone, and writes lists of ignored users.
//!
//! A stream record starts the work immediately. If it fails, because another system is down or the function crashes, a schedule
//! repeats it every minute until it succeeds.

mod work;

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use serde_json::{Value, json};
use touchline::domain::UserId;
use touchline::domain::cleanup::{OVERDUE_AFTER, REQUESTS_END, Work};
use touchline::ports::chat::ChatError;
use touchline::storage::StoreError;
use touchline::storage::cleanups::Cleanup;
use touchline::storage::keys::Key;
use touchline::storage::stream::{Batch, Change};
use touchline::{App, Error, lambda};

/// A run starts no new work during this time before its deadline, so that work in progress can finish.
const RESERVE: TimeDelta = TimeDelta::seconds(10);

/// The number of pieces of work that are done concurrently.
const CONCURRENT: usize = 10;

/// Handles one invocation: a batch of stream records, `{}` for a scheduled run, or, after an update from a version that stored
/// usernames without a hash and without a search, `{"hash_names": {}}` and `{"index_usernames": {}}`. Lambda stops it at
/// `deadline`.
pub async fn handle(app: App, event: Value, deadline: DateTime<Utc>) -> Result<Value, StoreError> {
    let run = Run {
        app: &app,
        begun: app.clock.now(),
        until: deadline - RESERVE,
        chat_is_down: AtomicBool::new(false),
    };
    if event.get("Records").is_some() {
        run.process(Batch::read(event)?).await
    } else if let Some(order) = event.get("hash_names") {
        run.hash_names(position(&order["from"])).await
    } else if let Some(order) = event.get("index_usernames") {
        run.index_usernames(position(&order["from"])).await
    } else {
        run.sweep().await
    }
}

/// Reads the key after which a step through all users continues.
fn position(from: &Value) -> Option<Key> {
    let text = |at: usize| from[at].as_str().map(str::to_owned);
    Some(Key { pk: text(0)?, sk: text(1)? })
}

/// One invocation.
struct Run<'a> {
    app: &'a App,
    begun: DateTime<Utc>,
    until: DateTime<Utc>,
    /// Whether the homeserver has failed to respond. Then this run sends it no further requests, because each would take
    /// seconds.
    chat_is_down: AtomicBool,
}

impl Run<'_> {
    /// Does the work of stream records. A record fails only if the store does. Lambda then delivers the batch again.
    async fn process(&self, batch: Batch) -> Result<Value, StoreError> {
        for record in &batch.unreadable {
            tracing::error!(number = record.number, "skipped an unreadable stream record");
        }
        let changes: Vec<_> =
            batch.records.into_iter().map(|record| self.process_change(record.change)).collect();
        stream::iter(changes).buffer_unordered(CONCURRENT).try_collect::<()>().await?;
        Ok(json!({ "batchItemFailures": [] }))
    }

    async fn process_change(&self, change: Change) -> Result<(), StoreError> {
        match change {
            Change::SessionEnded { user, device_id } => self.log_out(user, device_id).await,
            // If this fails, the next scheduled run repeats it.
            Change::Cleanup(cleanup) => self.attempt(&cleanup, self.begun).await.map(|_| ()),
            _ => Ok(()),
        }
    }

    /// Stores that the chat device of a session must be removed. The record of that begins with it.
    async fn log_out(&self, user: UserId, device_id: String) -> Result<(), StoreError> {
        // The chat account of a deleted user is deleted with all devices.
        let Some(owner) = self.app.store.find_user(user).await? else { return Ok(()) };
        let work = Work::LogOutDevice { user, username: owner.username, device_id };
        self.app.store.save_cleanup(&work, self.begun).await
    }

    /// Moves the items of usernames to hashed keys. If the time is over, `next` in the result is where the next invocation
    /// continues.
    async fn hash_names(&self, from: Option<Key>) -> Result<Value, StoreError> {
        let (mut moved, mut conflicts, mut from) = (0, Vec::new(), from);
        loop {
            let step = self.app.store.hash_names(from).await?;
            moved += step.moved;
            conflicts.extend(step.conflicts);
            from = step.next;
            if from.is_none() || self.app.clock.now() >= self.until {
                let next = from.map(|Key { pk, sk }| json!([pk, sk]));
                return Ok(json!({ "moved": moved, "conflicts": conflicts, "next": next }));
            }
        }
    }

    /// Writes the items with which a search finds existing users. If the time is over, `next` in the result is where the next
    /// invocation continues.
    async fn index_usernames(&self, from: Option<Key>) -> Result<Value, StoreError> {
        let (mut indexed, mut from) = (0, from);
        loop {
            let step = self.app.store.index_usernames(from).await?;
            indexed += step.indexed;
            from = step.next;
            if from.is_none() || self.app.clock.now() >= self.until {
                let next = from.map(|Key { pk, sk }| json!([pk, sk]));
                return Ok(json!({ "indexed": indexed, "next": next }));
            }
        }
    }

    /// Does all work that is not finished.
    async fn sweep(&self) -> Result<Value, StoreError> {
        let cleanups = self.app.store.cleanups().await?;
        let mut finished = self.attempt_all(&cleanups).await?;
        if let Some(pause) = self.pause_before_second_pass(&cleanups) {
            tokio::time::sleep(pause).await;
            finished += self.attempt_all(&self.app.store.cleanups().await?).await?;
        }
        let overdue = cleanups.iter().filter(|cleanup| self.begun - cleanup.since > OVERDUE_AFTER).count();
        lambda::count(self.app, "OverdueWork", overdue);
        Ok(json!({ "finished": finished, "waiting": cleanups.len().saturating_sub(finished) }))
    }

    /// Runs the given work. Returns how many pieces are finished.
    async fn attempt_all(&self, cleanups: &[Cleanup]) -> Result<usize, StoreError> {
        let begun = self.app.clock.now();
        let attempts: Vec<_> = cleanups.iter().map(|cleanup| self.attempt(cleanup, begun)).collect();
        let finished: Vec<bool> = stream::iter(attempts).buffer_unordered(CONCURRENT).try_collect().await?;
        Ok(finished.into_iter().filter(|is_finished| *is_finished).count())
    }

    /// Returns how long to wait until all work can have its second pass. Without this wait, the second
    /// pass could fall to the next run, and a deletion would take more than a minute.
    fn pause_before_second_pass(&self, cleanups: &[Cleanup]) -> Option<Duration> {
        let now = self.app.clock.now();
        let early = cleanups.iter().filter(|cleanup| !cleanup.work.is_final(cleanup.since, now));
        let last = early.map(|cleanup| cleanup.since + REQUESTS_END).max()?;
        let pause = (last - now).to_std().ok()?;
        // Test clocks do not advance.
        (last < self.until && !cfg!(test)).then_some(pause)
    }

    /// Does a piece of work in a pass that began at `begun`, and deletes it if it is finished. Returns whether it is.
    async fn attempt(&self, cleanup: &Cleanup, begun: DateTime<Utc>) -> Result<bool, StoreError> {
        if self.app.clock.now() >= self.until || !self.try_work(&cleanup.work, cleanup.since).await {
            return Ok(false);
        }
        let is_final = cleanup.work.is_final(cleanup.since, begun);
        if is_final {
            self.app.store.finish_cleanup(cleanup).await?;
        }
        Ok(is_final)
    }

    /// Runs work that was stored at `since`. Returns whether it is done.
    async fn try_work(&self, work: &Work, since: DateTime<Utc>) -> bool {
        if work.needs_chat() && self.chat_is_down.load(Ordering::Relaxed) {
            return false;
        }
        let error = match work::run(self.app, work, since).await {
            Ok(is_done) => return is_done,
            Err(error) => error,
        };
        tracing::warn!(%error, "work is not finished; the next run repeats it");
        if matches!(error, Error::Chat(ChatError::Unavailable(_))) {
            self.chat_is_down.store(true, Ordering::Relaxed);
        }
        false
    }
}
