//! The `predictions` table: settlements. A settlement gives every prediction of a match its points. The table
//! holds the match results that wait for settlement, the progress of each settlement, and the points.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::types::{
    AttributeValue, BatchStatementErrorCodeEnum as Code, BatchStatementRequest, BatchStatementResponse,
    ReturnValuesOnConditionCheckFailure,
};
use chrono::serde::ts_milliseconds;
use chrono::{DateTime, SubsecRound as _, Utc};
use serde::{Deserialize, Serialize};

use super::client::Call as _;
use super::condition::condition_held;
use super::conflict_retry::Retry;
use super::error::StoreError;
use super::item::{Item, from_item, number, text, to_item};
use super::store::{Reads, Store, every_item};
use super::tallies::integer;
use super::{keys, predictions};
use crate::domain::prediction::SettledIn;
use crate::domain::{Prediction, UserId};

/// A match result that waits for settlement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Due {
    pub event_id: u32,
    /// The revision of the match's result.
    pub revision: u32,
    /// When the match was queued or, after the publication, when `feed` noted the publication.
    #[serde(with = "ts_milliseconds")]
    pub since: DateTime<Utc>,
    /// Whether the catalog with the result is published. Before that, people may still predict the match. Earlier versions
    /// did not store this.
    #[serde(default = "published")]
    pub is_published: bool,
}

fn published() -> bool {
    true
}

/// The progress of a match's settlement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    pub revision: u32,
    /// The progress of each shard. Shards whose settlement has not begun are missing.
    pub progress: BTreeMap<u8, Progress>,
    /// When the settlement began. `None` if an earlier version began it.
    pub began_at: Option<DateTime<Utc>>,
    pub is_done: bool,
}

/// How far one shard is settled. Predictions are settled in the order of their sort keys. `settled` counts the
/// predictions that have their points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Every prediction up to and including that of the user `last` has its points.
    After { last: UserId, settled: u64 },
    /// Every prediction of the shard has its points.
    Done { settled: u64 },
}

impl Progress {
    fn settled(self) -> u64 {
        match self {
            Self::After { settled, .. } | Self::Done { settled } => settled,
        }
    }

    fn to_text(self) -> String {
        match self {
            Self::After { last, settled } => format!("{settled} {last}"),
            Self::Done { settled } => format!("{settled} done"),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let (settled, last) = text.split_once(' ')?;
        let settled = settled.parse().ok()?;
        Some(match last {
            "done" => Self::Done { settled },
            last => Self::After { last: UserId(last.parse().ok()?), settled },
        })
    }
}

const SHARD: &str = "shard:";

impl Settlement {
    fn read(item: &Item) -> Result<Self, StoreError> {
        let unreadable = || StoreError::Unreadable("a settlement");
        let revision = item.get("revision").and_then(|value| value.as_n().ok()?.parse().ok());
        let mut progress = BTreeMap::new();
        for (name, value) in item {
            if let Some(shard) = name.strip_prefix(SHARD) {
                let at = value.as_s().ok().and_then(|text| Progress::parse(text)).ok_or_else(unreadable)?;
                progress.insert(shard.parse().map_err(|_| unreadable())?, at);
            }
        }
        Ok(Self {
            revision: revision.ok_or_else(unreadable)?,
            progress,
            began_at: integer(item, "began_at").and_then(|seconds| DateTime::from_timestamp(seconds, 0)),
            is_done: item.contains_key("done_at"),
        })
    }

    /// Returns the number of predictions that have their points under this revision of the result.
    #[must_use]
    pub fn settled(&self) -> u64 {
        self.progress.values().map(|progress| progress.settled()).sum()
    }
}

/// The points to write to one prediction.
#[derive(Debug, Clone)]
pub struct Award {
    /// The prediction as it was read. If the stored prediction has changed since, the points are not written.
    pub row: Prediction,
    pub points: Option<u32>,
}

/// The maximum number of awards in one call: DynamoDB's limit for the statements of a batch.
pub const MAX_AWARDS: usize = 25;

impl Store {
    /// Stores that a match result waits for settlement, unless a later revision of it waits already. A result that is not
    /// published does not replace the same result that is.
    pub async fn put_due(&self, due: &Due) -> Result<(), StoreError> {
        let put = self
            .client
            .put_item()
            .table_name(&self.tables.predictions)
            .set_item(Some(to_item(keys::due(due.event_id), due)?))
            .condition_expression(
                "attribute_not_exists(pk) OR revision < :revision \
                 OR (revision = :revision AND (is_published = :no OR is_published = :is_published))",
            )
            .expression_attribute_values(":revision", number(due.revision))
            .expression_attribute_values(":is_published", AttributeValue::Bool(due.is_published))
            .expression_attribute_values(":no", AttributeValue::Bool(false))
            .call()
            .await;
        condition_held("PutItem", put).map(|_| ())
    }

    /// Reads all match results that wait for settlement, longest wait first.
    pub async fn due(&self) -> Result<Vec<Due>, StoreError> {
        let query = self
            .client
            .query()
            .table_name(&self.tables.predictions)
            .key_condition_expression("pk = :due")
            .expression_attribute_values(":due", text(keys::DUE))
            .consistent_read(true);
        let found = every_item(query).await?;
        let mut due = found.into_iter().map(from_item::<Due>).collect::<Result<Vec<_>, _>>()?;
        due.sort_by_key(|due| due.since);
        Ok(due)
    }

    /// Removes a match result from the results that wait for settlement, unless a later revision of it waits.
    pub async fn remove_due(&self, event: u32, revision: u32) -> Result<(), StoreError> {
        let removed = self
            .client
            .delete_item()
            .table_name(&self.tables.predictions)
            .set_key(Some(keys::due(event).into()))
            .condition_expression("attribute_not_exists(pk) OR revision <= :revision")
            .expression_attribute_values(":revision", number(revision))
            .call()
            .await;
        condition_held("DeleteItem", removed).map(|_| ())
    }

    /// Removes a match result from the results that wait for settlement, unless it has changed since it was read.
    pub async fn withdraw_due(&self, due: &Due) -> Result<(), StoreError> {
        let removed = self
            .client
            .delete_item()
            .table_name(&self.tables.predictions)
            .set_key(Some(keys::due(due.event_id).into()))
            .condition_expression("revision = :revision AND since = :since")
            .expression_attribute_values(":revision", number(due.revision))
            .expression_attribute_values(":since", number(due.since.timestamp_millis()))
            .call()
            .await;
        condition_held("DeleteItem", removed).map(|_| ())
    }

    /// Begins the settlement of a revision of a match result at the time `now`. If the settlement of a later revision has begun
    /// already, returns that settlement. If the settlement of this revision has begun already, returns it, or
    /// starts it over if `restart` is true. Starting over does not remove points from predictions.
    pub async fn begin_settlement(
        &self,
        event: u32,
        revision: u32,
        rules: u32,
        restart: bool,
        now: DateTime<Utc>,
    ) -> Result<Settlement, StoreError> {
        let put = self
            .client
            .put_item()
            .table_name(&self.tables.predictions)
            .set_item(Some(keys::settlement(event).into()))
            .item("event_id", number(event))
            .item("revision", number(revision))
            .item("rules", number(rules))
            .item("began_at", number(now.timestamp()))
            .condition_expression(if restart {
                "attribute_not_exists(pk) OR revision <= :revision"
            } else {
                "attribute_not_exists(pk) OR revision < :revision"
            })
            .expression_attribute_values(":revision", number(revision))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .call()
            .await;
        let Err(error) = put else {
            return Ok(Settlement {
                revision,
                progress: BTreeMap::new(),
                began_at: Some(now.trunc_subsecs(0)),
                is_done: false,
            });
        };
        match error.as_service_error() {
            Some(PutItemError::ConditionalCheckFailedException(failed)) => {
                Settlement::read(failed.item().unwrap_or(&Item::new()))
            }
            _ => Err(StoreError::from_sdk("PutItem", &error)),
        }
    }

    /// Reads the settlement of a match, strongly consistent.
    pub async fn settlement(&self, event: u32) -> Result<Option<Settlement>, StoreError> {
        let found =
            self.get_item(&self.tables.predictions, keys::settlement(event), Reads::Consistent).await?;
        found.as_ref().map(Settlement::read).transpose()
    }

    /// Reads the progress of a match's settlement. It may be some seconds old: all members of all rooms of a match read the same
    /// item.
    pub async fn recent_settlement(&self, event: u32) -> Result<Option<Settlement>, StoreError> {
        let found = self.recent_item(&self.tables.predictions, keys::settlement(event)).await?;
        found.as_ref().map(Settlement::read).transpose()
    }

    /// Stores the progress of a shard. Returns false if the settlement of a later revision has begun.
    pub async fn save_progress(
        &self,
        event: u32,
        revision: u32,
        shard: u8,
        progress: Progress,
    ) -> Result<bool, StoreError> {
        self.update_settlement(event, revision, format!("{SHARD}{shard}"), text(progress.to_text())).await
    }

    /// Marks the settlement as done. Returns false if the settlement of a later revision has begun.
    pub async fn end_settlement(
        &self,
        event: u32,
        revision: u32,
        now: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        self.update_settlement(event, revision, "done_at".into(), number(now.timestamp())).await
    }

    async fn update_settlement(
        &self,
        event: u32,
        revision: u32,
        name: String,
        value: AttributeValue,
    ) -> Result<bool, StoreError> {
        let updated = self
            .client
            .update_item()
            .table_name(&self.tables.predictions)
            .set_key(Some(keys::settlement(event).into()))
            .update_expression("SET #name = :value")
            .condition_expression("revision = :revision")
            .expression_attribute_names("#name", name)
            .expression_attribute_values(":value", value)
            .expression_attribute_values(":revision", number(revision))
            .call()
            .await;
        condition_held("UpdateItem", updated)
    }

    /// Writes the points of up to [`MAX_AWARDS`] predictions of a match.
    ///
    /// Returns the current rows of the predictions that changed since they were read. The caller must award points
    /// to these rows again, except for rows that were settled under this revision or a later one.
    ///
    /// `BatchExecuteStatement` writes many rows in one call, at one write unit each. `BatchWriteItem` would
    /// cost the same, but it does not support conditions. Without conditions, a slow settlement could
    /// overwrite the points of a later, corrected result.
    pub async fn award(
        &self,
        shards: u8,
        revision: u32,
        settled_in: &SettledIn,
        awards: &[Award],
    ) -> Result<Vec<Prediction>, StoreError> {
        let mut changed = Vec::new();
        let mut open: Vec<BatchStatementRequest> = awards
            .iter()
            .map(|award| self.award_statement(shards, revision, settled_in, award))
            .collect::<Result<_, _>>()?;
        let mut retry = Retry::doubling("batch of points", 8, Duration::from_millis(10));
        loop {
            let done = self
                .client
                .batch_execute_statement()
                .set_statements(Some(open.clone()))
                .call()
                .await
                .map_err(|error| StoreError::from_sdk("BatchExecuteStatement", &error))?;
            let mut left = Vec::new();
            let responses = done.responses.unwrap_or_default();
            if responses.len() != open.len() {
                return Err(StoreError::Unreadable("a complete batch response"));
            }
            for (statement, response) in open.into_iter().zip(responses) {
                match outcome(response) {
                    // Only an operator deletes predictions. A deleted prediction gets no points.
                    Outcome::Written | Outcome::Missing => {}
                    Outcome::Changed(item) => changed.push(predictions::read(item)?),
                    Outcome::Throttled => left.push(statement),
                    Outcome::Rejected(code) => {
                        return Err(StoreError::Misconfigured { operation: "BatchExecuteStatement", code });
                    }
                }
            }
            if left.is_empty() {
                return Ok(changed);
            }
            open = left;
            retry.again().await?;
        }
    }

    fn award_statement(
        &self,
        shards: u8,
        revision: u32,
        settled_in: &SettledIn,
        award: &Award,
    ) -> Result<BatchStatementRequest, StoreError> {
        let table = &self.tables.predictions;
        let Prediction { event_id, user_id, edits, .. } = award.row;
        let SettledIn { tournament, kick_off, at } = settled_in;
        let key = keys::prediction(event_id, shards, user_id);
        let points = match award.points {
            Some(points) => format!("SET points={points}"),
            None => "REMOVE points".to_owned(),
        };
        // The statement can contain the values, because none of them is user input. Passing them as
        // parameters would take three times the bytes and be measurably slower.
        let statement = BatchStatementRequest::builder()
            .statement(format!(
                "UPDATE \"{table}\" {points} SET revision={revision} SET tournament={tournament} \
                 SET kick_off={} SET settled_at={} \
                 WHERE pk='{}' AND sk='{}' AND edits={edits} AND revision<{revision}",
                kick_off.timestamp(),
                at.timestamp(),
                key.pk,
                key.sk
            ))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .build()?;
        Ok(statement)
    }
}

/// The result of one statement of a batch.
enum Outcome {
    Written,
    Changed(Item),
    Missing,
    Throttled,
    Rejected(String),
}

fn outcome(response: BatchStatementResponse) -> Outcome {
    let Some(error) = response.error else { return Outcome::Written };
    match error.code {
        Some(Code::ConditionalCheckFailed) => match error.item {
            Some(item) if !item.is_empty() => Outcome::Changed(item),
            _ => Outcome::Missing,
        },
        Some(
            Code::ThrottlingError
            | Code::ProvisionedThroughputExceeded
            | Code::RequestLimitExceeded
            | Code::TransactionConflict
            | Code::InternalServerError,
        ) => Outcome::Throttled,
        code => Outcome::Rejected(code.map_or_else(|| "Unknown".into(), |code| code.as_str().to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_the_same_after_a_round_trip_through_text() {
        for progress in [
            Progress::After { last: UserId(7), settled: 1_000 },
            Progress::Done { settled: 0 },
            Progress::Done { settled: 123_456 },
        ] {
            assert_eq!(Progress::parse(&progress.to_text()), Some(progress));
        }
    }

    #[test]
    fn malformed_progress_texts_are_rejected() {
        for text in ["", "7", "x done", "7 x", "7 7 7"] {
            assert_eq!(Progress::parse(text), None, "{text}");
        }
    }
}
