//! The `sms_logs` table: the counters of text messages. The rules are in [`crate::domain::sms_guard`].
//!
//! Three items count a message before it is sent: that of the network, that of the calling prefix and that of the month.
//! Conditions keep concurrent requests within the limits. The writes add to counters, so they do not conflict with each other:
//! an item takes 1,000 of them a second, and SNS sends about 20 messages.

use std::time::Duration;

use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::{BoxFuture, join_all};
use futures_util::join;

use super::client::Call as _;
use super::condition::condition_held;
use super::error::StoreError;
use super::item::{Item, Key, number, text};
use super::keys;
use super::store::{Reads, Store};
use super::tallies::integer;
use crate::domain::CallingPrefix;
use crate::domain::code::NetworkDigest;
use crate::domain::month::Month;
use crate::domain::sms_guard::{Counted, Counts, Step};

/// How long the counters of a network or a prefix are kept after their last message.
const KEPT: TimeDelta = TimeDelta::days(8);

/// How long the counters of a month are kept after their last message.
const MONTH_KEPT: TimeDelta = TimeDelta::days(32);

/// The longest duration of a write that is attempted once.
const SINGLE_ATTEMPT: Duration = Duration::from_millis(500);

/// What a message is counted for.
#[derive(Debug, Clone)]
pub struct SmsCounters {
    /// The network that requests the message. `None` for loopback, and for a message that nobody requests.
    pub network: Option<NetworkDigest>,
    pub prefix: CallingPrefix,
    pub month: Month,
}

impl SmsCounters {
    fn keys(&self) -> [Option<Key>; 3] {
        let network = self.network.as_ref().map(keys::sms_network);
        [network, Some(keys::sms_prefix(&self.prefix)), Some(keys::sms_month(self.month))]
    }
}

impl Store {
    /// Reads the counters of a message.
    pub async fn sms_counts(
        &self,
        counters: &SmsCounters,
        reads: Reads,
    ) -> Result<Counted<Counts>, StoreError> {
        let keys = counters.keys();
        let wanted = keys.iter().flatten().cloned().map(Item::from).collect();
        let items = self.batch_get(&self.tables.sms_logs, wanted, reads).await?;
        let [network, prefix, total] = keys.map(|key| {
            let pk = key.map(|key| text(key.pk));
            let item = items.iter().find(|item| pk.is_some() && item.get("pk") == pk.as_ref());
            item.map(read_counts).unwrap_or_default()
        });
        Ok(Counted { network, prefix, total })
    }

    /// Counts a message before it is sent: first for its network, so that a network over its limit does not touch the counters
    /// that all share. Also removes outdated counters. `counts` are the counters as they were read. Returns false and counts
    /// nothing if one has changed so much that a step is not allowed any more.
    ///
    /// If the SDK retries a write after a lost response, the message can count twice. That is safe: fewer messages are sent.
    pub async fn reserve_sms(
        &self,
        counters: &SmsCounters,
        counts: &Counted<Counts>,
        steps: &Counted<Vec<Step>>,
        now: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        let writes = [
            (&steps.network, counts.network.outdated(now).collect(), now + KEPT),
            (&steps.prefix, counts.prefix.outdated(now).collect(), now + KEPT),
            (&steps.total, Vec::new(), now + MONTH_KEPT),
        ];
        for (at, (key, (steps_of_item, outdated, kept_until))) in
            counters.keys().into_iter().zip(writes).enumerate()
        {
            let taken = self.take(key, steps_of_item, outdated, kept_until).await;
            if !matches!(taken, Ok(true)) {
                self.release_first(at, counters, steps).await?;
                return taken;
            }
        }
        Ok(true)
    }

    /// Rolls back [`Store::reserve_sms`].
    pub async fn release_sms(
        &self,
        counters: &SmsCounters,
        steps: &Counted<Vec<Step>>,
    ) -> Result<(), StoreError> {
        self.release_first(3, counters, steps).await
    }

    /// Rolls back the steps for the first `count` items.
    async fn release_first(
        &self,
        count: usize,
        counters: &SmsCounters,
        steps: &Counted<Vec<Step>>,
    ) -> Result<(), StoreError> {
        let steps = [&steps.network, &steps.prefix, &steps.total];
        let releases = counters.keys().into_iter().zip(steps).take(count);
        let releases =
            releases.map(|(key, steps)| self.change(key, steps.iter().map(Step::reversed).collect()));
        join_all(releases).await.into_iter().collect()
    }

    /// Counts the entry of a code for its network and its prefix.
    pub async fn count_entered_sms(
        &self,
        counters: &SmsCounters,
        steps: Vec<Step>,
    ) -> Result<(), StoreError> {
        let [network, prefix, _] = counters.keys();
        let (network, prefix) = join!(self.change(network, steps.clone()), self.change(prefix, steps));
        network.and(prefix)
    }

    /// Adds to the counters of an item, if all steps are allowed.
    async fn take(
        &self,
        key: Option<Key>,
        steps: &[Step],
        outdated: Vec<&str>,
        kept_until: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        let Some(key) = key.filter(|_| !steps.is_empty()) else { return Ok(true) };
        let (mut update, additions) = self.adding(key, steps);
        let (mut conditions, mut removed) = (Vec::new(), Vec::new());
        for (at, step) in steps.iter().enumerate() {
            conditions.push(format!("(attribute_not_exists(#c{at}) OR #c{at} <= :m{at})"));
            update = update.expression_attribute_values(format!(":m{at}"), number(step.at_most));
        }
        for (at, name) in outdated.into_iter().enumerate() {
            removed.push(format!("#o{at}"));
            update = update.expression_attribute_names(format!("#o{at}"), name);
        }
        let remove =
            if removed.is_empty() { String::new() } else { format!(" REMOVE {}", removed.join(", ")) };
        let updated = update
            .update_expression(format!("{additions} SET expires_at = :kept_until{remove}"))
            .condition_expression(conditions.join(" AND "))
            .expression_attribute_values(":kept_until", number(kept_until.timestamp()))
            .call()
            .await;
        condition_held("UpdateItem", updated)
    }

    /// Adds to the counters of an item, in a single attempt. A retry after a lost response would add twice, and nothing waits
    /// for these counters.
    fn change(&self, key: Option<Key>, steps: Vec<Step>) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.try_change(key, steps))
    }

    async fn try_change(&self, key: Option<Key>, steps: Vec<Step>) -> Result<(), StoreError> {
        let Some(key) = key.filter(|_| !steps.is_empty()) else { return Ok(()) };
        let (update, additions) = self.adding(key, &steps);
        let timeouts = TimeoutConfig::builder().operation_timeout(SINGLE_ATTEMPT).build();
        let changed = update
            .update_expression(additions)
            // Without this condition, the update would create an item that never expires.
            .condition_expression("attribute_exists(pk)")
            .customize()
            .config_override(
                aws_sdk_dynamodb::Config::builder()
                    .retry_config(RetryConfig::disabled())
                    .timeout_config(timeouts),
            )
            .send()
            .await;
        condition_held("UpdateItem", changed).map(|_| ())
    }

    fn adding(&self, key: Key, steps: &[Step]) -> (UpdateItemFluentBuilder, String) {
        let mut update =
            self.client.update_item().table_name(&self.tables.sms_logs).set_key(Some(key.into()));
        let mut additions = Vec::new();
        for (at, Step { counter, amount, .. }) in steps.iter().enumerate() {
            additions.push(format!("#c{at} :a{at}"));
            update = update
                .expression_attribute_names(format!("#c{at}"), counter)
                .expression_attribute_values(format!(":a{at}"), number(amount));
        }
        (update, format!("ADD {}", additions.join(", ")))
    }
}

fn read_counts(item: &Item) -> Counts {
    // The names of counters, and of no other attributes, have a colon.
    let counters = item.keys().filter(|name| name.contains(':'));
    Counts(counters.filter_map(|name| Some((name.clone(), integer(item, name)?))).collect())
}
