//! The `sms_logs` table: how many messages were sent to each prefix, how many of their codes were entered, and what all
//! messages cost. The rules are in [`crate::domain::sms_guard`].
//!
//! The Lambda function `tally` counts the entries of the log and the entered codes, so a request writes no counter. A request
//! writes one only near a limit: a reservation. Then the entry of the log says that the message is counted.
//!
//! An environment keeps the counters in memory for some seconds. In this time, it can send a small part of the messages that
//! are left without a reservation. So even if many environments do the same, they exceed the limit by little.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Datelike as _, Days, NaiveDate, TimeDelta, Utc};

use super::condition::condition_held;
use super::error::StoreError;
use super::item::{Item, Key, number};
use super::keys;
use super::store::{Reads, Store};
use super::tallies::{read_counters, sms_counts_kept_until};
use crate::domain::CallingPrefix;
use crate::domain::sms_guard::{History, SmsCounts, WEEK};

/// How long an environment uses counters that it has read.
const MAX_AGE: TimeDelta = TimeDelta::seconds(5);

/// How long an environment uses counters that it has read, while the store fails.
const MAX_AGE_IN_OUTAGE: TimeDelta = TimeDelta::minutes(1);

/// Which part of the messages that are left an environment can send without a reservation, before it reads the counters again.
const SHARE: i64 = 16;

/// Which part of all messages of an hour an environment can send without a reservation. The counters fall behind if `tally`
/// does not run, so they alone do not limit such messages.
const SHARE_OF_HOUR: i64 = 4;

/// Returns the first day of the month.
#[must_use]
pub fn month_of(at: DateTime<Utc>) -> NaiveDate {
    let day = at.date_naive();
    day.with_day(1).unwrap_or(day)
}

impl Store {
    /// Reads what was sent to a prefix lately, and what was spent on all prefixes. Eventually consistent.
    pub async fn sms_history(
        &self,
        prefix: &CallingPrefix,
        now: DateTime<Utc>,
    ) -> Result<History, StoreError> {
        let today = now.date_naive();
        let days = (0..WEEK).map(|ago| keys::sms_counts(prefix, today - Days::new(ago)));
        let keys = days.chain([keys::sms_spent(month_of(now))]).map(Item::from).collect();
        let (mut days, mut month) = (BTreeMap::new(), SmsCounts::default());
        for item in self.batch_get(&self.tables.sms_logs, keys, Reads::Eventual).await? {
            let counts = read_counters(&item);
            let sk = item.get("sk").and_then(|sk| sk.as_s().ok());
            match sk.and_then(|sk| keys::counted_sms_day(sk)) {
                Some(day) => {
                    days.insert(day, counts);
                }
                None => month = counts,
            }
        }
        Ok(History::of(&days, &month, now))
    }

    /// Counts a message to a prefix before it is sent, unless there are `limit` of them in this hour.
    pub async fn reserve_sms(
        &self,
        prefix: &CallingPrefix,
        limit: i64,
        now: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        let day = now.date_naive();
        self.count_sms(
            keys::sms_counts(prefix, day),
            &SmsCounts::sent_in(now),
            limit,
            sms_counts_kept_until(day),
        )
        .await
    }

    /// Rolls back [`Store::reserve_sms`].
    pub async fn release_sms(&self, prefix: &CallingPrefix, at: DateTime<Utc>) -> Result<(), StoreError> {
        self.uncount_sms(keys::sms_counts(prefix, at.date_naive()), &SmsCounts::sent_in(at)).await
    }

    /// Counts a message to a prefix without entered codes, unless there are `limit` of them on this day.
    pub async fn reserve_sms_trial(&self, limit: i64, now: DateTime<Utc>) -> Result<bool, StoreError> {
        let day = now.date_naive();
        self.count_sms(keys::sms_trials(day), TRIALS, limit, sms_counts_kept_until(day)).await
    }

    /// Rolls back [`Store::reserve_sms_trial`].
    pub async fn release_sms_trial(&self, at: DateTime<Utc>) -> Result<(), StoreError> {
        self.uncount_sms(keys::sms_trials(at.date_naive()), TRIALS).await
    }

    /// If the SDK retries the write after a lost response, the message counts twice. That is safe: fewer messages are sent.
    async fn count_sms(
        &self,
        key: Key,
        counter: &str,
        limit: i64,
        expires_at: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        let updated = self
            .client
            .update_item()
            .table_name(&self.tables.sms_logs)
            .set_key(Some(key.into()))
            .update_expression("ADD #counter :one SET expires_at = :expires")
            .condition_expression(":one <= :limit AND (attribute_not_exists(#counter) OR #counter < :limit)")
            .expression_attribute_names("#counter", counter)
            .expression_attribute_values(":one", number(1))
            .expression_attribute_values(":limit", number(limit))
            .expression_attribute_values(":expires", number(expires_at.timestamp()))
            .send()
            .await;
        condition_held("UpdateItem", updated)
    }

    async fn uncount_sms(&self, key: Key, counter: &str) -> Result<(), StoreError> {
        let released = self
            .client
            .update_item()
            .table_name(&self.tables.sms_logs)
            .set_key(Some(key.into()))
            .update_expression("ADD #counter :minus_one")
            // Without this condition, the update would create an item that never expires.
            .condition_expression("attribute_exists(pk)")
            .expression_attribute_names("#counter", counter)
            .expression_attribute_values(":minus_one", number(-1))
            .send()
            .await;
        condition_held("UpdateItem", released).map(|_| ())
    }
}

/// The counter of the messages to prefixes without entered codes.
const TRIALS: &str = "sent";

/// The counters that an environment has read.
#[derive(Debug, Default)]
pub struct Cache(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    prefixes: HashMap<CallingPrefix, Entry>,
    /// Until when no trial is attempted, because all of the day were used up.
    no_trials_until: Option<DateTime<Utc>>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    read_at: DateTime<Utc>,
    history: History,
    /// Whether a reservation failed since the counters were read.
    is_full: bool,
    /// The messages without a reservation since the counters were read, and in this hour.
    unreserved: i64,
    unreserved_this_hour: i64,
}

impl Cache {
    /// Returns what was sent to a prefix lately, at most some seconds old, and whether a reservation failed since.
    pub async fn history(
        &self,
        store: &Store,
        prefix: &CallingPrefix,
        now: DateTime<Utc>,
    ) -> Result<(History, bool), StoreError> {
        let cached = self.lock().prefixes.get(prefix).copied();
        let is_younger = |entry: &Entry, age: TimeDelta| (now - entry.read_at).abs() < age;
        if let Some(entry) = cached.filter(|entry| is_younger(entry, MAX_AGE)) {
            return Ok((entry.history, entry.is_full));
        }
        let history = match (store.sms_history(prefix, now).await, cached) {
            (Ok(history), _) => history,
            (Err(error), Some(entry)) if is_younger(&entry, MAX_AGE_IN_OUTAGE) => {
                tracing::warn!(%error, "cannot read the counters of text messages; using those of some seconds ago");
                return Ok((entry.history, entry.is_full));
            }
            (Err(error), _) => return Err(error),
        };
        let hour = |at: DateTime<Utc>| at.timestamp().div_euclid(3_600);
        let unreserved_this_hour = cached
            .filter(|entry| hour(entry.read_at) == hour(now))
            .map_or(0, |entry| entry.unreserved_this_hour);
        let entry = Entry { read_at: now, history, is_full: false, unreserved: 0, unreserved_this_hour };
        self.lock().prefixes.insert(prefix.clone(), entry);
        Ok((history, false))
    }

    /// Returns whether the environment can send a message without a reservation, and counts it. `left` is the number of
    /// messages that are left.
    #[must_use]
    pub fn takes_unreserved(&self, prefix: &CallingPrefix, left: i64) -> bool {
        let mut state = self.lock();
        let Some(entry) = state.prefixes.get_mut(prefix) else { return false };
        let of_hour = left.saturating_add(entry.history.sent_this_hour) / SHARE_OF_HOUR;
        let takes = entry.unreserved < left / SHARE && entry.unreserved_this_hour < of_hour;
        if takes {
            entry.unreserved += 1;
            entry.unreserved_this_hour += 1;
        }
        takes
    }

    /// Stores that a reservation failed, so that others are not attempted until the counters are read again.
    pub fn set_full(&self, prefix: &CallingPrefix) {
        if let Some(entry) = self.lock().prefixes.get_mut(prefix) {
            entry.is_full = true;
        }
    }

    #[must_use]
    pub fn has_trials(&self, now: DateTime<Utc>) -> bool {
        self.lock().no_trials_until.is_none_or(|until| until <= now)
    }

    /// Stores that all trials of the day are used up. A message that could not be sent gives its trial back, so this holds
    /// only for a while.
    pub fn set_no_trials(&self, now: DateTime<Utc>) {
        self.lock().no_trials_until = Some(now + MAX_AGE_IN_OUTAGE);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
