//! What `points` keeps in the `predictions` table: which results wait, how far each has got, and the
//! points themselves.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::types::{
    AttributeValue, BatchStatementErrorCodeEnum as Code, BatchStatementRequest, BatchStatementResponse,
    ReturnValuesOnConditionCheckFailure,
};
use chrono::serde::ts_milliseconds;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{
    Item, Retry, Store, StoreError, every_item, from_item, keys, made, number, predictions, text, to_item,
};
use crate::domain::{Prediction, UserId};

/// A result that waits for its points.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Due {
    pub event_id: u32,
    /// Of the match's result.
    pub revision: u32,
    #[serde(with = "ts_milliseconds")]
    pub since: DateTime<Utc>,
}

/// How far the calculation of a match's points has got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    pub revision: u32,
    /// By shard; one that has not begun has no entry.
    pub progress: BTreeMap<u8, Progress>,
    pub is_done: bool,
}

/// How far one shard has got. Everything up to `last` has its points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    After { last: UserId, settled: u64 },
    Done { settled: u64 },
}

impl Progress {
    #[must_use]
    pub fn settled(self) -> u64 {
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
            is_done: item.contains_key("done_at"),
        })
    }

    /// How many predictions have their points under this revision.
    #[must_use]
    pub fn settled(&self) -> u64 {
        self.progress.values().map(|progress| progress.settled()).sum()
    }
}

/// The points of one row.
#[derive(Debug, Clone)]
pub struct Award {
    /// As it was read; a row that changed since is not written.
    pub row: Prediction,
    pub points: Option<u32>,
}

/// How many rows one call writes. The store takes no more.
pub const AWARDS_AT_ONCE: usize = 25;

impl Store {
    /// Notes that a match has a result that its predictions do not know yet.
    pub async fn put_due(&self, due: &Due) -> Result<(), StoreError> {
        let put = self
            .client
            .put_item()
            .table_name(&self.tables.predictions)
            .set_item(Some(to_item(keys::due(due.event_id), due)?))
            .condition_expression("attribute_not_exists(pk) OR revision <= :revision")
            .expression_attribute_values(":revision", number(due.revision))
            .send()
            .await;
        made("PutItem", put).map(|_| ())
    }

    /// Every result that waits, those of the longest standing first.
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

    /// Forgets that a result waits, unless a later one does.
    pub async fn remove_due(&self, event: u32, revision: u32) -> Result<(), StoreError> {
        let removed = self
            .client
            .delete_item()
            .table_name(&self.tables.predictions)
            .set_key(Some(keys::due(event).into()))
            .condition_expression("attribute_not_exists(pk) OR revision <= :revision")
            .expression_attribute_values(":revision", number(revision))
            .send()
            .await;
        made("DeleteItem", removed).map(|_| ())
    }

    /// Begins the settlement of a match under a revision, or finds how far it has got. `again` begins
    /// anew; rows that have their points keep them.
    pub async fn begin_settlement(
        &self,
        event: u32,
        revision: u32,
        rules: u32,
        again: bool,
    ) -> Result<Settlement, StoreError> {
        let put = self
            .client
            .put_item()
            .table_name(&self.tables.predictions)
            .set_item(Some(keys::settlement(event).into()))
            .item("event_id", number(event))
            .item("revision", number(revision))
            .item("rules", number(rules))
            .condition_expression(if again {
                "attribute_not_exists(pk) OR revision <= :revision"
            } else {
                "attribute_not_exists(pk) OR revision < :revision"
            })
            .expression_attribute_values(":revision", number(revision))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .send()
            .await;
        let Err(error) = put else {
            return Ok(Settlement { revision, progress: BTreeMap::new(), is_done: false });
        };
        match error.as_service_error() {
            Some(PutItemError::ConditionalCheckFailedException(refused)) => {
                Settlement::read(refused.item().unwrap_or(&Item::new()))
            }
            _ => Err(StoreError::from_sdk("PutItem", &error)),
        }
    }

    /// The settlement of a match, for whoever wants to know.
    pub async fn settlement(&self, event: u32) -> Result<Option<Settlement>, StoreError> {
        let found = self
            .client
            .get_item()
            .table_name(&self.tables.predictions)
            .set_key(Some(keys::settlement(event).into()))
            .consistent_read(true)
            .send()
            .await
            .map_err(|error| StoreError::from_sdk("GetItem", &error))?;
        found.item.as_ref().map(Settlement::read).transpose()
    }

    /// Notes how far a shard has got. `false` where a later revision is being settled by now.
    pub async fn note_progress(
        &self,
        event: u32,
        revision: u32,
        shard: u8,
        progress: Progress,
    ) -> Result<bool, StoreError> {
        self.update_settlement(event, revision, format!("{SHARD}{shard}"), text(progress.to_text())).await
    }

    /// Notes that every shard is done. `false` where a later revision is being settled by now.
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
            .send()
            .await;
        made("UpdateItem", updated)
    }

    /// Writes the points of up to [`AWARDS_AT_ONCE`] rows of a match under a revision, each in place of
    /// the row that was read. Returns the rows that have changed since, as they are now: those of them
    /// that have points under this revision or a later one are done.
    ///
    /// One call for many rows at one unit each. A plain batch of puts would cost the same, but takes no
    /// conditions: a run that was overtaken by a correction would write old points over new ones.
    pub async fn award(
        &self,
        shards: u8,
        revision: u32,
        awards: &[Award],
    ) -> Result<Vec<Prediction>, StoreError> {
        let mut changed = Vec::new();
        let mut open: Vec<BatchStatementRequest> = awards
            .iter()
            .map(|award| self.award_statement(shards, revision, award))
            .collect::<Result<_, _>>()?;
        let mut retry = Retry::doubling("batch of points", 8, Duration::from_millis(10));
        loop {
            let done = self
                .client
                .batch_execute_statement()
                .set_statements(Some(open.clone()))
                .send()
                .await
                .map_err(|error| StoreError::from_sdk("BatchExecuteStatement", &error))?;
            let mut left = Vec::new();
            let responses = done.responses.unwrap_or_default();
            if responses.len() != open.len() {
                return Err(StoreError::Unreadable("a response per statement"));
            }
            for (statement, response) in open.into_iter().zip(responses) {
                match outcome(response) {
                    // A row that is gone was deleted by hand.
                    Outcome::Written | Outcome::Gone => {}
                    Outcome::Changed(item) => changed.push(predictions::read(item)?),
                    Outcome::Later => left.push(statement),
                    Outcome::Refused(code) => {
                        return Err(StoreError::Misconfigured { operation: "BatchExecuteStatement", code });
                    }
                }
            }
            if left.is_empty() {
                return Ok(changed);
            }
            open = left;
            // DynamoDB throttled the rest.
            retry.again().await?;
        }
    }

    fn award_statement(
        &self,
        shards: u8,
        revision: u32,
        award: &Award,
    ) -> Result<BatchStatementRequest, StoreError> {
        let table = &self.tables.predictions;
        let Prediction { event_id, user_id, edits, .. } = award.row;
        let key = keys::prediction(event_id, shards, user_id);
        let points = match award.points {
            Some(points) => format!("SET points={points}"),
            None => "REMOVE points".to_owned(),
        };
        // Keys and numbers of our own making, so they can stand in the text: as parameters they would be
        // three times the bytes, and measurably slower.
        let statement = BatchStatementRequest::builder()
            .statement(format!(
                "UPDATE \"{table}\" {points} SET revision={revision} \
                 WHERE pk='{}' AND sk='{}' AND edits={edits} AND revision<{revision}",
                key.pk, key.sk
            ))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .build()?;
        Ok(statement)
    }
}

/// What became of one statement.
enum Outcome {
    Written,
    Changed(Item),
    Gone,
    Later,
    Refused(String),
}

fn outcome(response: BatchStatementResponse) -> Outcome {
    let Some(error) = response.error else { return Outcome::Written };
    match error.code {
        Some(Code::ConditionalCheckFailed) => match error.item {
            Some(item) if !item.is_empty() => Outcome::Changed(item),
            _ => Outcome::Gone,
        },
        Some(
            Code::ThrottlingError
            | Code::ProvisionedThroughputExceeded
            | Code::RequestLimitExceeded
            | Code::TransactionConflict
            | Code::InternalServerError,
        ) => Outcome::Later,
        code => Outcome::Refused(code.map_or_else(|| "Unknown".into(), |code| code.as_str().to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_reads_back() {
        for progress in [
            Progress::After { last: UserId(7), settled: 1_000 },
            Progress::Done { settled: 0 },
            Progress::Done { settled: 123_456 },
        ] {
            assert_eq!(Progress::parse(&progress.to_text()), Some(progress));
        }
        for text in ["", "7", "x done", "7 x", "7 7 7"] {
            assert_eq!(Progress::parse(text), None, "{text}");
        }
    }
}
