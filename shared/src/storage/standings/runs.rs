//! The runs of a build that several processes make: sorted rows of some of the users.
//!
//! The chunks of a run are stored in the slot of the build, and the next build that uses the slot overwrites them.

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure};
use futures_util::FutureExt as _;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use serde::{Deserialize, Serialize};

use super::super::client::Call as _;
use super::{Build, UNREADABLE, reserved};
use crate::domain::standings::run::{self, Rows};
use crate::domain::standings::{Board, Row};
use crate::storage::condition::{condition_held, item_that_failed_condition};
use crate::storage::error::StoreError;
use crate::storage::item::{Item, number};
use crate::storage::keys;
use crate::storage::store::{Reads, Store};
use crate::storage::tallies::integer;

/// The maximum number of chunks that are read or written concurrently.
const CONCURRENT_CHUNKS: usize = 16;

/// Another process writes into the slot of the build: a later build, or a duplicate of the worker.
const OVERWRITTEN: StoreError = StoreError::Contended { what: "a run of a board" };

/// The time by which a worker can extend the reservation of a slot, in milliseconds.
const CLAIMS: u32 = 60_000;

/// A run that is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRef {
    pub group: u8,
    /// The worker's invocation. A duplicate of it has read the statistics at another time, so its chunks can have other rows.
    attempt: u32,
    chunks: u32,
    pub rows: u32,
    /// The latest [`reached`](crate::domain::standings::Place::reached) of the rows.
    pub latest: u32,
}

/// Whether a process may publish a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    Granted,
    /// A later build was published.
    Outdated,
    /// Another process publishes this build or has published it, or the slot is no longer reserved for it.
    Taken,
}

impl Store {
    /// Stores the rows of a group of users. They must be in the order of the board. `attempt` is a random number.
    pub async fn put_run(
        &self,
        board: Board,
        build: Build,
        group: u8,
        attempt: u32,
        rows: &[Row],
    ) -> Result<RunRef, StoreError> {
        let chunks = run::encode(rows).map_err(|_| UNREADABLE)?;
        let stored = RunRef {
            group,
            attempt,
            chunks: u32::try_from(chunks.len()).unwrap_or(u32::MAX),
            rows: u32::try_from(rows.len()).unwrap_or(u32::MAX),
            latest: rows.iter().map(|row| row.place.reached).max().unwrap_or(0),
        };
        let writes = (0..).zip(chunks).map(|(chunk, data)| {
            async move {
                let written = self
                    .client
                    .update_item()
                    .table_name(&self.tables.standings)
                    .set_key(Some(keys::board_run(board, build.slot, group, chunk).into()))
                    .update_expression("SET build = :build, attempt = :attempt, #data = :data")
                    .condition_expression("attribute_not_exists(build) OR build <= :build")
                    .expression_attribute_names("#data", "data")
                    .expression_attribute_values(":build", number(build.number))
                    .expression_attribute_values(":attempt", number(attempt))
                    .expression_attribute_values(":data", AttributeValue::B(Blob::new(data)))
                    .call()
                    .await;
                if condition_held("UpdateItem", written)? { Ok(()) } else { Err(OVERWRITTEN) }
            }
            .boxed()
        });
        stream::iter(writes).buffer_unordered(CONCURRENT_CHUNKS).try_collect::<()>().await?;
        Ok(stored)
    }

    /// Reads a run, strongly consistent. Fails if a chunk belongs to another build or to a duplicate of the worker.
    pub async fn run(&self, board: Board, build: Build, stored: &RunRef) -> Result<Rows<Blob>, StoreError> {
        let reads = (0..stored.chunks).map(|chunk| {
            async move {
                let key = keys::board_run(board, build.slot, stored.group, chunk);
                let item = self.get_item(&self.tables.standings, key, Reads::Consistent).await?;
                let mut item = item.ok_or(OVERWRITTEN)?;
                if !belongs_to(&item, build, stored) {
                    return Err(OVERWRITTEN);
                }
                match item.remove("data") {
                    Some(AttributeValue::B(data)) => Ok(data),
                    _ => Err(UNREADABLE),
                }
            }
            .boxed()
        });
        let chunks = stream::iter(reads).buffered(CONCURRENT_CHUNKS).try_collect().await?;
        Ok(Rows::new(chunks))
    }

    /// Makes the calling process the only one that publishes a build. `attempt` is a random number.
    ///
    /// Lambda can deliver an invocation twice. Two processes could compare the rows with different earlier builds, and mix
    /// their blocks in the slot.
    pub async fn claim_build(&self, board: Board, build: Build, attempt: u32) -> Result<Claim, StoreError> {
        // The claim extends the reservation by some milliseconds, which tell a retry of this write from a duplicate.
        let claimed = build.until + 1 + i64::from(attempt % CLAIMS);
        let written = self
            .client
            .update_item()
            .table_name(&self.tables.standings)
            .set_key(Some(keys::board_head(board).into()))
            .update_expression("SET #reserved = :claimed")
            .condition_expression(
                "(#reserved = :until OR #reserved = :claimed) \
                 AND (attribute_not_exists(build) OR build < :build)",
            )
            .expression_attribute_names("#reserved", reserved(build.slot))
            .expression_attribute_values(":claimed", number(claimed))
            .expression_attribute_values(":until", number(build.until))
            .expression_attribute_values(":build", number(build.number))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .call()
            .await;
        match written {
            Ok(_) => Ok(Claim::Granted),
            Err(error) => match item_that_failed_condition(&error) {
                Some(head) if unsigned(&head, "build") > Some(build.number) => Ok(Claim::Outdated),
                Some(_) => Ok(Claim::Taken),
                None => Err(StoreError::from_sdk("UpdateItem", &error)),
            },
        }
    }
}

fn belongs_to(chunk: &Item, build: Build, stored: &RunRef) -> bool {
    unsigned(chunk, "build") == Some(build.number)
        && unsigned(chunk, "attempt") == Some(stored.attempt.into())
}

fn unsigned(item: &Item, name: &str) -> Option<u64> {
    integer(item, name).and_then(|value| u64::try_from(value).ok())
}
