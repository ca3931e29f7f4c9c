use std::collections::BTreeMap;

use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure};
use chrono::{DateTime, Utc};
use futures_util::stream;
use futures_util::{FutureExt as _, StreamExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::super::client::Call as _;
use super::CONCURRENCY;
use crate::domain::catalog::{Key, Kind, Match, Sport, Team, Tournament};
use crate::storage::condition::condition_held;
use crate::storage::error::StoreError;
use crate::storage::item::{Item, from_item, number, text, to_item};
use crate::storage::keys;
use crate::storage::store::{Reads, Store};

/// The maximum number of keys that `BatchGetItem` takes.
const ROWS_PER_BATCH: usize = 100;

/// A row of the catalog: a sport, a team, a tournament or a match.
pub trait Row: Serialize + DeserializeOwned + Clone + PartialEq + Send + Sync {
    const KIND: Kind;
    fn id(&self) -> u32;
    fn key(&self) -> Key;
    fn as_of(&self) -> DateTime<Utc>;
    /// Returns the same row with another `as_of`.
    #[must_use]
    fn dated(self, as_of: DateTime<Utc>) -> Self;
    /// Returns the row, if it is that of a match.
    fn as_match(&self) -> Option<&Match>;

    /// Returns how often the row's result has changed: always 0 for rows other than matches.
    fn revision(&self) -> u32 {
        self.as_match().map_or(0, |event| event.revision)
    }
}

macro_rules! rows {
    ($($row:ty => $kind:expr, $as_match:expr;)*) => {
        $(impl Row for $row {
            const KIND: Kind = $kind;

            fn id(&self) -> u32 {
                self.id
            }

            fn key(&self) -> Key {
                self.key
            }

            fn as_of(&self) -> DateTime<Utc> {
                self.as_of
            }

            fn dated(self, as_of: DateTime<Utc>) -> Self {
                Self { as_of, ..self }
            }

            fn as_match(&self) -> Option<&Match> {
                let as_match: fn(&Self) -> Option<&Match> = $as_match;
                as_match(self)
            }
        })*
    };
}

rows! {
    Sport => Kind::Sport, |_| None;
    Team => Kind::Team, |_| None;
    Tournament => Kind::Tournament, |_| None;
    Match => Kind::Event, |event| Some(event);
}

/// A row to write in place of the row that was read. `read` is `None` if no row was found.
#[derive(Debug, Clone)]
pub struct Replacement<T> {
    pub row: T,
    pub read: Option<T>,
}

/// The result of writing a [`Replacement`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written<T> {
    Now,
    /// Nothing was written, because the stored row is no longer the one that was read. Holds the stored row.
    Changed(T),
}

impl Store {
    /// Reads rows of one kind by id, strongly consistent. Unknown ids are left out.
    pub async fn catalog_rows<T: Row>(&self, ids: &[u32]) -> Result<BTreeMap<u32, T>, StoreError> {
        let keys: Vec<Item> = ids.iter().map(|id| keys::catalog_row(T::KIND, *id).into()).collect();
        // The futures are boxed and collected, because otherwise the compiler cannot infer the closure's
        // lifetimes.
        let batches: Vec<_> = keys
            .chunks(ROWS_PER_BATCH)
            .map(|batch| self.batch_get(&self.tables.catalog, batch.to_vec(), Reads::Consistent).boxed())
            .collect();
        let mut rows = BTreeMap::new();
        let mut running = stream::iter(batches).buffer_unordered(CONCURRENCY);
        while let Some(items) = running.next().await {
            for item in items? {
                let row: T = from_item(item)?;
                rows.insert(row.id(), row);
            }
        }
        Ok(rows)
    }

    /// Writes rows concurrently. The results are in the order of `rows`.
    pub async fn put_rows<T: Row>(&self, rows: &[Replacement<T>]) -> Result<Vec<Written<T>>, StoreError> {
        let writes: Vec<_> = rows.iter().map(|row| self.put_row(row).boxed()).collect();
        let mut written = Vec::with_capacity(rows.len());
        let mut running = stream::iter(writes).buffered(CONCURRENCY);
        while let Some(outcome) = running.next().await {
            written.push(outcome?);
        }
        Ok(written)
    }

    async fn put_row<T: Row>(&self, replacement: &Replacement<T>) -> Result<Written<T>, StoreError> {
        let Replacement { row, read } = replacement;
        let put = self
            .client
            .put_item()
            .table_name(&self.tables.catalog)
            .set_item(Some(to_item(keys::catalog_row(T::KIND, row.id()), row)?))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let put = match read {
            None => put.condition_expression("attribute_not_exists(pk)"),
            Some(read) => {
                // `as_of` and the revision identify the version that was read. `as_of` alone is not enough: a
                // corrected result can have the same `as_of`, but it has a new revision.
                let mut condition = String::from(
                    "#key = :key AND as_of = :as_of AND (attribute_not_exists(revision) OR revision = :revision)",
                );
                let mut put = put
                    .expression_attribute_names("#key", "key")
                    .expression_attribute_values(":key", number(read.key().0))
                    .expression_attribute_values(":as_of", number(read.as_of().timestamp_millis()))
                    .expression_attribute_values(":revision", number(read.revision()));
                // A promotion changes neither of them. An import that read the match before must not write the
                // old number of shards back.
                if let Some(event) = read.as_match() {
                    condition.push_str(" AND shards = :shards AND pause = :pause");
                    let pause = event.pause.map(|pause| number(pause.since().timestamp_millis()));
                    put = put
                        .expression_attribute_values(":shards", number(event.shards))
                        .expression_attribute_values(":pause", pause.unwrap_or(AttributeValue::Null(true)));
                }
                put.condition_expression(condition)
            }
        };
        let Err(error) = put.call().await else { return Ok(Written::Now) };
        match error.as_service_error() {
            Some(PutItemError::ConditionalCheckFailedException(failed)) => {
                let found: T = from_item(failed.item().cloned().unwrap_or_default())?;
                // The stored row equals ours if the response to our write was lost and the SDK retried the
                // write.
                Ok(if found == *row { Written::Now } else { Written::Changed(found) })
            }
            _ => Err(StoreError::from_sdk("PutItem", &error)),
        }
    }

    /// Records the hash of the current name of a match's room. Changes no other field of the match's row.
    pub async fn set_room_name_hash(&self, event: &Match, hash: u32) -> Result<(), StoreError> {
        let recorded = self
            .client
            .update_item()
            .table_name(&self.tables.catalog)
            .set_key(Some(keys::catalog_row(Kind::Event, event.id).into()))
            .update_expression("SET room_name_hash = :hash")
            .condition_expression("room = :room")
            .expression_attribute_values(":hash", number(hash))
            .expression_attribute_values(":room", text(&*event.room))
            .call()
            .await;
        condition_held("UpdateItem", recorded).map(|_| ())
    }

    /// Reads every row of a kind. Scans the whole table, so it is only for rebuilding a snapshot.
    pub async fn all_rows<T: Row>(&self) -> Result<BTreeMap<u32, T>, StoreError> {
        let mut rows = BTreeMap::new();
        let mut from = None;
        loop {
            let page = self
                .client
                .scan()
                .table_name(&self.tables.catalog)
                .filter_expression("begins_with(pk, :kind) AND sk = :row")
                .expression_attribute_values(":kind", text(format!("{}#", T::KIND.as_str())))
                .expression_attribute_values(":row", text(keys::CATALOG_ROW))
                .set_exclusive_start_key(from.take())
                .consistent_read(true)
                .call()
                .await
                .map_err(|error| StoreError::from_sdk("Scan", &error))?;
            for item in page.items.unwrap_or_default() {
                let row: T = from_item(item)?;
                rows.insert(row.id(), row);
            }
            from = page.last_evaluated_key;
            if from.is_none() {
                return Ok(rows);
            }
        }
    }
}
