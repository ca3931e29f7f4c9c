//! The `predictions` table: one row per user and match, spread over the match's shards.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure};
use chrono::DateTime;
use serde::Deserialize;

use super::client::Call as _;
use super::condition::item_that_failed_condition;
use super::error::StoreError;
use super::item::{Item, from_item, number, text};
use super::keys;
use super::pages::{self, Page, PageQuery};
use super::store::{Reads, Store};
use crate::domain::catalog::Score;
use crate::domain::prediction::{Confidence, Forecast, SettledIn, Stamp};
use crate::domain::{Pick, Prediction, UserId};

/// The index of predictions by user and creation time.
pub(super) const BY_USER: &str = "by_user";

#[derive(Debug, Deserialize)]
struct Row {
    event_id: u32,
    user_id: UserId,
    pick: Pick,
    home: Option<u16>,
    away: Option<u16>,
    confidence: Confidence,
    created: Stamp,
    /// The stamp of the latest change. Missing in the oldest rows.
    changed: Option<Stamp>,
    edits: u32,
    points: Option<u32>,
    #[serde(default)]
    revision: u32,
    /// The tournament of the match when the points were calculated.
    tournament: Option<u32>,
    /// The kick-off when the points were calculated, in seconds.
    kick_off: Option<i64>,
    /// When the settlement began, in seconds.
    settled_at: Option<i64>,
}

impl Row {
    fn settled_in(&self) -> Option<SettledIn> {
        let time = |seconds: Option<i64>| DateTime::from_timestamp(seconds?, 0);
        Some(SettledIn {
            tournament: self.tournament?,
            kick_off: time(self.kick_off)?,
            at: time(self.settled_at)?,
        })
    }
}

impl TryFrom<Row> for Prediction {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        let score = row.home.zip(row.away).map(|(home, away)| Score { home, away });
        let settled_in = row.settled_in();
        Ok(Self {
            event_id: row.event_id,
            user_id: row.user_id,
            forecast: Forecast::new(row.pick, score).map_err(|_| StoreError::Unreadable("a forecast"))?,
            confidence: row.confidence,
            changed: row.changed.unwrap_or_else(|| row.created.clone()),
            created: row.created,
            edits: row.edits,
            points: row.points,
            revision: row.revision,
            settled_in,
        })
    }
}

pub(super) fn read(item: Item) -> Result<Prediction, StoreError> {
    from_item::<Row>(item)?.try_into()
}

/// A prediction to create or change.
#[derive(Debug, Clone)]
pub struct NewPrediction {
    pub event_id: u32,
    pub shards: u8,
    pub user_id: UserId,
    pub forecast: Forecast,
    pub confidence: Confidence,
    /// The stamp of this request. If the request creates the row, `created` keeps this stamp.
    pub stamp: Stamp,
}

/// The result of [`Store::predict`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Predicted {
    Created(Prediction),
    Updated(Prediction),
    /// Nothing was written, because a later request of the same user was stored first. Holds what that one stored.
    Superseded(Prediction),
    /// Nothing was written, because the prediction has points already. This can happen if the caller's catalog is
    /// stale and still shows the match as open.
    Settled,
}

/// Which predictions of a match to read.
#[derive(Debug, Clone)]
pub struct PredictionQuery {
    pub event_id: u32,
    pub shards: u8,
    /// The shards that hold predictions, from [`ShardRows::used`](crate::domain::tally::ShardRows::used).
    pub used: Vec<(u8, usize)>,
    pub pick: Option<Pick>,
    pub after: Option<UserId>,
    pub limit: usize,
}

impl Store {
    /// Creates or changes a prediction.
    ///
    /// The row keeps the stamp of its last change. A write with an earlier stamp fails, so a delayed write cannot
    /// overwrite a later change.
    ///
    /// The clocks of two environments differ, so a new request can have a stamp that is up to a second too early. Its
    /// write fails. The request then takes a stamp one millisecond after the stored one and writes again.
    ///
    /// If this fails too, or if the stored stamp is more than a second later, another request of the same user was
    /// stored while this request was running. This request then counts as the earlier one and changes nothing.
    pub async fn predict(&self, new: &NewPrediction) -> Result<Predicted, StoreError> {
        let mut written = self.write_prediction(new, &new.stamp).await?;
        if let Err(stored) = &written
            && stored.points.is_none()
            && stored.changed.is_just_after(&new.stamp)
        {
            written = self.write_prediction(new, &new.stamp.moved_after(&stored.changed)).await?;
        }
        let row = match written {
            Ok(row) => row,
            Err(stored) if stored.points.is_some() => return Ok(Predicted::Settled),
            Err(later) if later.created != new.stamp => return Ok(Predicted::Superseded(later)),
            Err(created) => created,
        };
        // Stamps are unique, so the stamp tells whether this request created the row, even if the SDK retried
        // the write.
        Ok(if row.created == new.stamp { Predicted::Created(row) } else { Predicted::Updated(row) })
    }

    /// Writes a prediction with this stamp. Returns the stored prediction as an error if it has points or a later stamp.
    async fn write_prediction(
        &self,
        new: &NewPrediction,
        stamp: &Stamp,
    ) -> Result<Result<Prediction, Prediction>, StoreError> {
        let mut update = self
            .client
            .update_item()
            .table_name(&self.tables.predictions)
            .set_key(Some(keys::prediction(new.event_id, new.shards, new.user_id).into()))
            .condition_expression(
                "attribute_not_exists(points) AND (attribute_not_exists(changed) OR changed <= :stamp)",
            )
            .expression_attribute_values(":event", number(new.event_id))
            .expression_attribute_values(":user", number(new.user_id))
            .expression_attribute_values(":pick", text(new.forecast.pick().as_str()))
            .expression_attribute_values(":confidence", number(new.confidence.percent()))
            .expression_attribute_values(":stamp", text(stamp.as_str()))
            .expression_attribute_values(":one", number(1))
            .expression_attribute_values(":zero", number(0))
            .return_values(ReturnValue::AllNew)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let set = "SET event_id = :event, user_id = :user, pick = :pick, confidence = :confidence, \
                   changed = :stamp, created = if_not_exists(created, :stamp), revision = if_not_exists(revision, :zero)";
        update = match new.forecast.score() {
            Some(score) => update
                .update_expression(format!("{set}, home = :home, away = :away ADD edits :one"))
                .expression_attribute_values(":home", number(score.home))
                .expression_attribute_values(":away", number(score.away)),
            None => update.update_expression(format!("{set} REMOVE home, away ADD edits :one")),
        };
        match update.call().await {
            Ok(done) => read(done.attributes.unwrap_or_default()).map(Ok),
            Err(error) => match item_that_failed_condition(&error) {
                Some(item) => read(item).map(Err),
                None => Err(StoreError::from_sdk("UpdateItem", &error)),
            },
        }
    }

    /// Reads a user's prediction for a match that has `shards` shards.
    pub async fn prediction(
        &self,
        event: u32,
        shards: u8,
        user: UserId,
        reads: Reads,
    ) -> Result<Option<Prediction>, StoreError> {
        let key = keys::prediction(event, shards, user);
        let row: Option<Row> = self.get(&self.tables.predictions, key, reads).await?;
        row.map(TryInto::try_into).transpose()
    }

    /// Reads the predictions of up to 100 users for a match, eventually consistent. Users without a
    /// prediction are left out.
    pub async fn predictions_of(
        &self,
        event: u32,
        shards: u8,
        users: &[UserId],
    ) -> Result<HashMap<UserId, Prediction>, StoreError> {
        let keys = users.iter().map(|user| keys::prediction(event, shards, *user).into()).collect();
        let items = self.batch_get(&self.tables.predictions, keys, Reads::Eventual).await?;
        items.into_iter().map(|item| read(item).map(|row| (row.user_id, row))).collect()
    }

    /// Reads a user's predictions for up to 100 matches, eventually consistent. Each match comes with its number of shards.
    /// Matches without a prediction are left out.
    pub async fn predictions_for(
        &self,
        user: UserId,
        events: impl Iterator<Item = (u32, u8)>,
    ) -> Result<HashMap<u32, Prediction>, StoreError> {
        let keys = events.map(|(event, shards)| keys::prediction(event, shards, user).into()).collect();
        let items = self.batch_get(&self.tables.predictions, keys, Reads::Eventual).await?;
        items.into_iter().map(|item| read(item).map(|row| (row.event_id, row))).collect()
    }

    /// Reads a page of a match's predictions.
    pub async fn predictions_page(&self, query: &PredictionQuery) -> Result<Page<Prediction>, StoreError> {
        let PredictionQuery { event_id, shards, ref used, pick, after, limit } = *query;
        pages::page(
            PageQuery { shards, used, after, limit, is_filtered: pick.is_some() },
            |shard, after, limit| self.shard_page(event_id, shard, after, limit),
            |row| row.user_id,
            |row| pick.is_none_or(|pick| row.forecast.pick() == pick),
        )
        .await
    }

    /// Reads up to `limit` predictions of one shard, sorted by sort key, beginning after the user `after`.
    /// Returns the predictions and whether they reach the end of the shard.
    pub async fn shard_page(
        &self,
        event: u32,
        shard: u8,
        after: Option<UserId>,
        limit: usize,
    ) -> Result<(Vec<Prediction>, bool), StoreError> {
        let partition = keys::event_shard(event, shard);
        let after = after.map(keys::predictor);
        let (items, has_ended) = self
            .partition_page(
                &self.tables.predictions,
                &partition,
                keys::PREDICTOR,
                after,
                limit,
                Reads::Eventual,
            )
            .await?;
        Ok((items.into_iter().map(read).collect::<Result<_, _>>()?, has_ended))
    }

    /// Returns whether a match that has `shards` shards has any prediction, strongly consistent.
    pub async fn has_predictions(&self, event: u32, shards: u8) -> Result<bool, StoreError> {
        for shard in 0..shards {
            let page = self
                .client
                .query()
                .table_name(&self.tables.predictions)
                .key_condition_expression("pk = :shard AND begins_with(sk, :predictor)")
                .expression_attribute_values(":shard", text(keys::event_shard(event, shard)))
                .expression_attribute_values(":predictor", text(keys::PREDICTOR))
                .consistent_read(true)
                .limit(1)
                .call()
                .await
                .map_err(|error| StoreError::from_sdk("Query", &error))?;
            if page.count > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads up to `limit` of a user's predictions, newest first. Returns the predictions and whether older
    /// ones exist. Eventually consistent.
    pub async fn own_predictions(
        &self,
        user: UserId,
        before: Option<&Stamp>,
        limit: usize,
    ) -> Result<(Vec<Prediction>, bool), StoreError> {
        let query = self
            .client
            .query()
            .table_name(&self.tables.predictions)
            .index_name(BY_USER)
            .expression_attribute_values(":user", number(user))
            .scan_index_forward(false)
            .limit(i32::try_from(limit + 1).unwrap_or(i32::MAX));
        let query = match before {
            None => query.key_condition_expression("user_id = :user"),
            Some(before) => query
                .key_condition_expression("user_id = :user AND created < :before")
                .expression_attribute_values(":before", text(before.as_str())),
        };
        let page = query.call().await.map_err(|error| StoreError::from_sdk("Query", &error))?;
        let found = page.items.unwrap_or_default();
        let has_more = found.len() > limit;
        let keys: Vec<Item> = found
            .into_iter()
            .take(limit)
            .map(|mut item| {
                // The index also returns its own key attributes, which a batch read rejects.
                item.retain(|name, _| name == "pk" || name == "sk");
                item
            })
            .collect();
        let items = self.batch_get(&self.tables.predictions, keys, Reads::Eventual).await?;
        let mut rows = items.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
        rows.sort_by(|a, b| b.created.cmp(&a.created));
        Ok((rows, has_more))
    }
}

/// Builds the item of a prediction, for benchmarks that fill the table directly.
#[must_use]
pub fn item(new: &NewPrediction) -> HashMap<String, AttributeValue> {
    let mut item: Item = keys::prediction(new.event_id, new.shards, new.user_id).into();
    item.extend(
        [
            ("event_id", number(new.event_id)),
            ("user_id", number(new.user_id)),
            ("pick", text(new.forecast.pick().as_str())),
            ("confidence", number(new.confidence.percent())),
            ("created", text(new.stamp.as_str())),
            ("changed", text(new.stamp.as_str())),
            ("edits", number(1)),
            ("revision", number(0)),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    if let Some(score) = new.forecast.score() {
        item.insert("home".into(), number(score.home));
        item.insert("away".into(), number(score.away));
    }
    item
}
