//! The `standings` table: built boards, and which boards must be built again.
//!
//! A board is built from the statistics of all users (`tallies.rs`). Its parts ([`table`]) are
//! small items. At the end of a build, the head of the board changes to it, so readers see a whole build or the one before.
//!
//! Each build of a board has a number, and the head keeps the highest one that was published: a slow build cannot replace a
//! later one. A build writes its parts into a slot that is not in use, so that nothing must be deleted. A slot is in use by the
//! published build, and by a build under way for as long as its processes can run.

mod runs;

use std::collections::{BTreeSet, HashMap};

use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::{AttributeValue, PutRequest, ReturnValue, WriteRequest};
use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use futures_util::FutureExt as _;
use futures_util::stream::{self, Stream, StreamExt as _, TryStreamExt as _};
pub use runs::{Claim, RunRef};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::client::Call as _;
use super::condition::{condition_held, item_that_failed_condition};
use super::conflict_retry::Retry;
use super::error::StoreError;
use super::item::{Item, Key, from_item, number, text};
use super::keys::{self, BoardPart};
use super::store::{Reads, Store};
use super::tallies::{Aggregate, integer, read_counters};
use crate::domain::UserId;
use crate::domain::standings::table::{
    self, Block, CorruptPart, Head, Index, MadeOf, Packed, Packer, RankedRow, Ranks, Table,
};
use crate::domain::standings::{Board, Period, Place, Row, Scope, UserTally};
use crate::domain::time::midnight_after;

/// The number of slots for the parts of a board's builds.
const SLOTS: u8 = 6;

/// How long a build reserves its slot. Lambda ends the process that begins a build after five minutes, and the workers stop at
/// the same time.
const SLOT_RESERVED: TimeDelta = TimeDelta::minutes(10);

/// The number of queues of boards that must be built again. `tally` runs many times at the same time, and a partition takes
/// 1,000 writes a second.
const QUEUES: u8 = 8;

/// The maximum number of concurrent batches of parts.
const CONCURRENT_BATCHES: usize = 16;

/// The attribute of a user's statistics that takes the user off all boards.
const UNRANKED: &str = "unranked";

/// How often a reader starts again, because a part belongs to another build than the head.
const ATTEMPTS: usize = 3;

/// Builds were published faster than a reader could read one.
const REPLACED: StoreError = StoreError::Contended { what: "the parts of a board" };

/// Too many builds of a board have begun and not ended.
const NO_FREE_SLOT: StoreError = StoreError::Contended { what: "the slots of a board" };

const UNREADABLE: StoreError = StoreError::Unreadable("a part of a board");

/// A board as it was last built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltBoard {
    pub board: Board,
    pub build: u64,
    pub(super) slot: u8,
    pub built_at: DateTime<Utc>,
    pub head: Head,
    /// Whether the rows can be found by user. See [`super::closed_boards`].
    pub has_users: bool,
}

/// A build of a board that has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    number: u64,
    slot: u8,
    /// Until when the slot is reserved, in milliseconds since 1970.
    until: i64,
}

/// Boards whose rows have changed since they were built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedBoards {
    queue: u8,
    version: i64,
    /// When the first of them was queued.
    pub since: DateTime<Utc>,
    pub boards: BTreeSet<Board>,
}

/// Reads the counters that put a user on boards. Returns `None` if an operator has taken the user off the boards.
pub(super) fn read_ranked(item: &Item) -> Option<UserTally> {
    (!item.contains_key(UNRANKED)).then(|| read_counters(item))
}

/// Reads the head of a board. Returns `None` if the board was never built.
pub(super) fn read_head(board: Board, item: &Item) -> Result<Option<BuiltBoard>, StoreError> {
    if !item.contains_key("build") {
        return Ok(None);
    }
    let unreadable = || StoreError::Unreadable("the head of a board");
    let build = integer(item, "build").and_then(|build| u64::try_from(build).ok());
    let slot = integer(item, "slot").and_then(|slot| u8::try_from(slot).ok());
    let built_at = integer(item, "built_at").and_then(DateTime::from_timestamp_millis);
    Ok(Some(BuiltBoard {
        board,
        build: build.ok_or_else(unreadable)?,
        slot: slot.ok_or_else(unreadable)?,
        built_at: built_at.ok_or_else(unreadable)?,
        head: decoded(item).ok_or_else(unreadable)?,
        has_users: build.is_some()
            && build == integer(item, "users_of").and_then(|of| u64::try_from(of).ok()),
    }))
}

/// The part that should be read belongs to another build.
pub(super) struct OtherBuild;

impl Store {
    /// Takes a user off all boards, or puts the user back. `tally` copies this into the user's memberships, as it copies the
    /// statistics, so the version grows.
    pub async fn set_ranked(&self, user: UserId, is_ranked: bool) -> Result<(), StoreError> {
        let base = Aggregate::User(user).base_version();
        let update = self
            .client
            .update_item()
            .table_name(&self.tables.predictions)
            .set_key(Some(keys::user_stats(user).into()))
            .expression_attribute_names("#unranked", UNRANKED)
            .expression_attribute_values(":base", number(base))
            .expression_attribute_values(":one", number(1));
        let update = if is_ranked {
            update
                .update_expression("SET version = if_not_exists(version, :base) + :one REMOVE #unranked")
                .condition_expression("attribute_exists(#unranked)")
        } else {
            update
                .update_expression(
                    "SET #unranked = :yes, user_id = :user, version = if_not_exists(version, :base) + :one",
                )
                .condition_expression("attribute_not_exists(#unranked)")
                .expression_attribute_values(":yes", AttributeValue::Bool(true))
                .expression_attribute_values(":user", number(user))
        };
        condition_held("UpdateItem", update.call().await).map(|_| ())
    }

    /// Reads the counters that put a user on boards, eventually consistent.
    pub async fn ranked_tally(&self, user: UserId) -> Result<UserTally, StoreError> {
        let found = self.get_item(&self.tables.predictions, keys::user_stats(user), Reads::Eventual).await?;
        Ok(found.as_ref().and_then(read_ranked).unwrap_or_default())
    }

    /// Reads a page of the users in one shard of the statistics, strongly consistent. Returns where the next page begins.
    pub async fn ranked_page(
        &self,
        shard: u8,
        from: Option<Key>,
    ) -> Result<(Vec<(UserId, UserTally)>, Option<Key>), StoreError> {
        let page = self
            .client
            .query()
            .table_name(&self.tables.predictions)
            .key_condition_expression("pk = :shard")
            .expression_attribute_values(":shard", text(keys::stats_shard(shard)))
            // A change is noted after it was written. An older copy of the item might not have it yet.
            .consistent_read(true)
            .set_exclusive_start_key(from.map(Item::from))
            .call()
            .await
            .map_err(|error| StoreError::from_sdk("Query", &error))?;
        let read = |item: &Item| {
            let user = integer(item, "user_id").and_then(|user| u32::try_from(user).ok())?;
            Some((UserId(user), read_ranked(item)?))
        };
        let users = page.items.unwrap_or_default().iter().filter_map(read).collect();
        Ok((users, page.last_evaluated_key.map(from_item).transpose()?))
    }

    /// Queues boards whose rows have changed, to be built again. `source` chooses the queue, so that many sources can write.
    pub async fn queue_boards(
        &self,
        boards: &BTreeSet<Board>,
        source: &str,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        if boards.is_empty() {
            return Ok(());
        }
        let queue = keys::queued_boards(keys::spread(source, QUEUES));
        self.client
            .update_item()
            .table_name(&self.tables.standings)
            .set_key(Some(queue.into()))
            .update_expression("SET since = if_not_exists(since, :now) ADD boards :boards, version :one")
            .expression_attribute_values(":now", number(now.timestamp_millis()))
            .expression_attribute_values(
                ":boards",
                AttributeValue::Ss(boards.iter().map(Board::to_string).collect()),
            )
            .expression_attribute_values(":one", number(1))
            .call()
            .await
            .map_err(|error| StoreError::from_sdk("UpdateItem", &error))?;
        Ok(())
    }

    /// Reads which boards must be built again, strongly consistent.
    pub async fn queued_boards(&self) -> Result<Vec<QueuedBoards>, StoreError> {
        let keys = (0..QUEUES).map(|queue| keys::queued_boards(queue).into()).collect();
        let items = self.batch_get(&self.tables.standings, keys, Reads::Consistent).await?;
        let unreadable = || StoreError::Unreadable("a queue of boards");
        let read = |item: Item| {
            let boards = item.get("boards").and_then(|boards| boards.as_ss().ok()).ok_or_else(unreadable)?;
            let queue = item.get("sk").and_then(|sk| sk.as_s().ok()?.parse().ok());
            let since = integer(&item, "since").and_then(DateTime::from_timestamp_millis);
            Ok(QueuedBoards {
                queue: queue.ok_or_else(unreadable)?,
                version: integer(&item, "version").ok_or_else(unreadable)?,
                since: since.ok_or_else(unreadable)?,
                // A later version of this program may have queued boards that this one does not know.
                boards: boards.iter().filter_map(|name| name.parse().ok()).collect(),
            })
        };
        items.into_iter().filter(|item| item.contains_key("boards")).map(read).collect()
    }

    /// Removes boards that were built from their queue, unless further ones were queued since it was read.
    ///
    /// The item stays, with its version. Without it, the version would begin again, and the late retry of this write could
    /// remove boards that were queued after it.
    pub async fn unqueue_boards(&self, queued: &QueuedBoards) -> Result<(), StoreError> {
        let removed = self
            .client
            .update_item()
            .table_name(&self.tables.standings)
            .set_key(Some(keys::queued_boards(queued.queue).into()))
            .update_expression("REMOVE boards, since")
            .condition_expression("version = :version")
            .expression_attribute_values(":version", number(queued.version))
            .call()
            .await;
        condition_held("UpdateItem", removed).map(|_| ())
    }

    /// Takes the lease for a build by workers, so that only one such build runs at a time. Two of them would take executions
    /// and throughput from each other. Returns false if another run has the lease.
    pub async fn lease_workers(&self, now: DateTime<Utc>, until: DateTime<Utc>) -> Result<bool, StoreError> {
        let leased = self
            .lease_update()
            .update_expression("SET #until = :until")
            .condition_expression("attribute_not_exists(#until) OR #until <= :now OR #until = :until")
            .expression_attribute_values(":until", number(until.timestamp_millis()))
            .expression_attribute_values(":now", number(now.timestamp_millis()))
            .call()
            .await;
        condition_held("UpdateItem", leased)
    }

    /// Ends a lease. Without that, it ends at `until`.
    pub async fn end_lease(&self, until: DateTime<Utc>) -> Result<(), StoreError> {
        let ended = self
            .lease_update()
            .update_expression("REMOVE #until")
            .condition_expression("#until = :until")
            .expression_attribute_values(":until", number(until.timestamp_millis()))
            .call()
            .await;
        condition_held("UpdateItem", ended).map(|_| ())
    }

    fn lease_update(&self) -> UpdateItemFluentBuilder {
        self.client
            .update_item()
            .table_name(&self.tables.standings)
            .set_key(Some(keys::workers_lease().into()))
            .expression_attribute_names("#until", "until")
    }

    /// Draws the number of the next build of a board, and reserves a slot for it. The build must read the statistics after
    /// that.
    pub async fn begin_build(&self, board: Board, now: DateTime<Utc>) -> Result<Build, StoreError> {
        let mut retry = Retry::immediate("slots of a board", 10);
        loop {
            let key = keys::board_head(board);
            let head = self.get_item(&self.tables.standings, key.clone(), Reads::Consistent).await?;
            let head = head.unwrap_or_default();
            let is_free = |slot: &u8| {
                integer(&head, "slot") != Some(i64::from(*slot))
                    && integer(&head, &reserved(*slot)).is_none_or(|until| until <= now.timestamp_millis())
            };
            let Some(slot) = (0..SLOTS).find(is_free) else { return Err(NO_FREE_SLOT) };
            let known = integer(&head, &reserved(slot)).unwrap_or(0);
            let until = (now + SLOT_RESERVED).timestamp_millis();
            let drawn = self
                .client
                .update_item()
                .table_name(&self.tables.standings)
                .set_key(Some(key.into()))
                .update_expression("SET #reserved = :until ADD drawn :one")
                .condition_expression(
                    "(attribute_not_exists(#reserved) OR #reserved = :known) \
                     AND (attribute_not_exists(slot) OR slot <> :slot)",
                )
                .expression_attribute_names("#reserved", reserved(slot))
                .expression_attribute_values(":until", number(until))
                .expression_attribute_values(":known", number(known))
                .expression_attribute_values(":slot", number(slot))
                .expression_attribute_values(":one", number(1))
                .return_values(ReturnValue::UpdatedNew)
                .call()
                .await;
            match drawn {
                Ok(drawn) => {
                    let drawn = drawn.attributes.as_ref().and_then(|item| integer(item, "drawn"));
                    let number = drawn.and_then(|drawn| u64::try_from(drawn).ok());
                    return Ok(Build {
                        number: number.ok_or(StoreError::Unreadable("the number of a build"))?,
                        slot,
                        until,
                    });
                }
                // Another build has reserved the slot. A retry of the SDK cannot tell that it was this one, and takes
                // another slot.
                Err(error) if item_that_failed_condition(&error).is_some() => {
                    retry.again().await?;
                }
                Err(error) => return Err(StoreError::from_sdk("UpdateItem", &error)),
            }
        }
    }

    /// Writes all parts of a build, then changes the head to it. Returns false if a later build was published.
    pub async fn publish_board(
        &self,
        board: Board,
        build: Build,
        table: &Table,
        now: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        let rows = table.rows().map(Ok);
        let about = (table.latest(), table.made_of());
        Ok(self.publish_rows(board, build, rows, about, now).await?.is_some())
    }

    /// Writes all parts of a build, then changes the head to it. `rows` are in the order of the board. Returns the number of
    /// users, or `None` if a later build was published.
    pub async fn publish_rows(
        &self,
        board: Board,
        build: Build,
        rows: impl Iterator<Item = Result<Row, CorruptPart>> + Send,
        (latest, made_of): (u32, Option<MadeOf>),
        now: DateTime<Utc>,
    ) -> Result<Option<u32>, StoreError> {
        let mut packer = Packer::default();
        let full = rows.filter_map(|row| row.map(|row| packer.add(row)).map_err(|_| UNREADABLE).transpose());
        let blocks =
            (0..).zip(full).map(|(at, block)| part_write(board, build, BoardPart::Block(at), &block?));
        self.write_parts(blocks).await?;
        let Packed { block, indexes, ranks, head } = packer.finish(latest);
        let mut rest = Vec::new();
        if let Some(block) = block {
            // All blocks before the last one are full.
            let at = (head.total as usize - 1) / table::ROWS_PER_BLOCK;
            rest.push(part_write(board, build, BoardPart::Block(at), &block));
        }
        for (at, part) in indexes.iter().enumerate() {
            rest.push(part_write(board, build, BoardPart::Index(at), part));
        }
        for (at, part) in ranks.iter().enumerate() {
            rest.push(part_write(board, build, BoardPart::Ranks(at), part));
        }
        self.write_parts(rest.into_iter()).await?;
        self.list_open_board(board).await?;
        let head = Head { made_of, ..head };
        let published = self
            .client
            .update_item()
            .table_name(&self.tables.standings)
            .set_key(Some(keys::board_head(board).into()))
            .update_expression(
                "SET build = :build, slot = :slot, built_at = :now, #data = :data REMOVE #reserved",
            )
            .condition_expression("attribute_not_exists(build) OR build < :build")
            .expression_attribute_names("#data", "data")
            .expression_attribute_names("#reserved", reserved(build.slot))
            .expression_attribute_values(":build", number(build.number))
            .expression_attribute_values(":slot", number(build.slot))
            .expression_attribute_values(":now", number(now.timestamp_millis()))
            .expression_attribute_values(":data", encoded(&head)?)
            .call()
            .await;
        let is_published = condition_held("UpdateItem", published)?;
        // Also if it is not published: it may be published by a retry of the SDK, or by another run that has crashed.
        if let Period::Matchday(day) = board.period
            && !matches!(board.scope, Scope::Room(_))
            && head.total > 0
            && day <= midnight_after(now.date_naive()).date_naive()
        {
            self.store_matchday(board.scope, day).await?;
        }
        Ok(is_published.then_some(head.total))
    }

    /// Writes parts of a board. A part has up to 4 KB, so a batch has up to 100 KB. The parts are made one batch after the
    /// other, because all of them can be larger than the memory.
    pub(super) async fn write_parts(
        &self,
        parts: impl Iterator<Item = Result<WriteRequest, StoreError>> + Send,
    ) -> Result<(), StoreError> {
        stream::iter(parts)
            .try_chunks(25)
            .map_err(|stopped| stopped.1)
            .map_ok(|parts| self.batch_write(&self.tables.standings, parts).boxed())
            .try_buffer_unordered(CONCURRENT_BATCHES)
            .try_collect()
            .await
    }

    /// Stores the last matchday of a scope that has results, unless a later one is stored.
    async fn store_matchday(&self, scope: Scope, day: NaiveDate) -> Result<(), StoreError> {
        let noted = self
            .client
            .update_item()
            .table_name(&self.tables.standings)
            .set_key(Some(keys::latest_matchday(scope).into()))
            .update_expression("SET #day = :day")
            .condition_expression("attribute_not_exists(#day) OR #day < :day")
            .expression_attribute_names("#day", "day")
            .expression_attribute_values(":day", text(day.to_string()))
            .call()
            .await;
        condition_held("UpdateItem", noted).map(|_| ())
    }

    /// Returns the last matchday of a scope that has results.
    pub async fn latest_matchday(&self, scope: Scope) -> Result<Option<NaiveDate>, StoreError> {
        let found =
            self.get_item(&self.tables.standings, keys::latest_matchday(scope), Reads::Eventual).await?;
        Ok(found.and_then(|item| item.get("day")?.as_s().ok()?.parse().ok()))
    }

    /// Reads the head of a board. Returns `None` if the board was never built.
    pub async fn built_board(&self, board: Board, reads: Reads) -> Result<Option<BuiltBoard>, StoreError> {
        let found = self.get_item(&self.tables.standings, keys::board_head(board), reads).await?;
        found.as_ref().map_or(Ok(None), |head| read_head(board, head))
    }

    /// Reads all rows of a build, with their ranks, strongly consistent. Leaves out rows that a later build has overwritten.
    pub async fn board_rows(&self, built: &BuiltBoard) -> Result<Vec<RankedRow>, StoreError> {
        let mut rows = Vec::new();
        let mut found = std::pin::pin!(self.row_groups(built));
        while let Some(group) = found.try_next().await? {
            rows.extend(group);
        }
        Ok(rows)
    }

    /// Reads all rows of a build like [`Self::board_rows`], in groups of consecutive rows. All of them can be larger than the
    /// memory.
    pub fn row_groups<'a>(
        &'a self,
        built: &'a BuiltBoard,
    ) -> impl Stream<Item = Result<Vec<RankedRow>, StoreError>> + Send + 'a {
        let blocks = (built.head.total as usize).div_ceil(table::ROWS_PER_BLOCK);
        let batches = (0..blocks).step_by(25).map(move |first| {
            async move {
                let key = |number: usize| keys::board_part(built.board, built.slot, BoardPart::Block(number));
                let numbers = first..blocks.min(first + 25);
                let keys = numbers.clone().map(|number| key(number).into()).collect();
                let items = self.batch_get(&self.tables.standings, keys, Reads::Consistent).await?;
                let mut found: HashMap<String, Item> = items
                    .into_iter()
                    .filter(|item| belongs_to(item, built))
                    .filter_map(|item| Some((item.get("pk")?.as_s().ok()?.clone(), item)))
                    .collect();
                let mut rows = Vec::new();
                for number in numbers {
                    if let Some(item) = found.remove(&key(number).pk) {
                        let block: Block = decoded(&item).ok_or(UNREADABLE)?;
                        rows.extend(block.ranked(number));
                    }
                }
                Ok::<_, StoreError>(rows)
            }
            .boxed()
        });
        stream::iter(batches).buffered(CONCURRENT_BATCHES)
    }

    async fn rows_of_block(
        &self,
        built: &BuiltBoard,
        at: usize,
    ) -> Result<Result<Vec<RankedRow>, OtherBuild>, StoreError> {
        let block = self.read_part::<Block>(built, BoardPart::Block(at)).await?;
        Ok(block.map(|block| block.ranked(at).collect()))
    }

    /// Reads a part of a board, eventually consistent. If the read is stale, repeats it strongly consistent.
    pub(super) async fn read_part<T: DeserializeOwned>(
        &self,
        built: &BuiltBoard,
        part: BoardPart,
    ) -> Result<Result<T, OtherBuild>, StoreError> {
        let key = keys::board_part(built.board, built.slot, part);
        for reads in [Reads::Eventual, Reads::Consistent] {
            let item = self.get_item(&self.tables.standings, key.clone(), reads).await?.unwrap_or_default();
            if belongs_to(&item, built) {
                return decoded(&item).map(Ok).ok_or(UNREADABLE);
            }
        }
        Ok(Err(OtherBuild))
    }

    /// Reads the head of a board. It may be some seconds old.
    pub async fn recent_board(&self, board: Board) -> Result<Option<BuiltBoard>, StoreError> {
        self.head_for(board, 0).await
    }

    /// Reads the head of a board. The first attempt may return an older head.
    async fn head_for(&self, board: Board, attempt: usize) -> Result<Option<BuiltBoard>, StoreError> {
        let (table, key) = (&self.tables.standings, keys::board_head(board));
        let found = if attempt == 0 {
            self.recent_item(table, key).await?
        } else {
            self.current_item(table, key).await?
        };
        found.map_or(Ok(None), |head| read_head(board, &head))
    }

    /// Returns the rank that a user with so many points has on a board: two reads. `None` if the board was never built.
    pub async fn rank(&self, board: Board, points: u32) -> Result<Option<u32>, StoreError> {
        for attempt in 0..ATTEMPTS {
            let Some(built) = self.head_for(board, attempt).await? else { return Ok(None) };
            if let Ok(rank) = self.rank_on(&built, points).await? {
                return Ok(Some(rank));
            }
        }
        Err(REPLACED)
    }

    async fn rank_on(&self, built: &BuiltBoard, points: u32) -> Result<Result<u32, OtherBuild>, StoreError> {
        if built.head.total == 0 || points > built.head.most_points {
            return Ok(Ok(1));
        }
        let part = self.read_part::<Ranks>(built, BoardPart::Ranks(Ranks::part_of(points) as usize)).await?;
        Ok(part.map(|ranks| ranks.rank(points)))
    }

    /// Reads a window of a board, and the row of a user. Returns `None` if the board was never built. `known` is the head of
    /// the board, if the caller has just read it.
    pub async fn board_window(
        &self,
        board: Board,
        known: Option<BuiltBoard>,
        window: Window,
        own: Option<Place>,
    ) -> Result<Option<(BuiltBoard, BoardWindow)>, StoreError> {
        let mut known = known;
        for attempt in 0..ATTEMPTS {
            let built = match known.take() {
                Some(known) => Some(known),
                None => self.head_for(board, attempt).await?,
            };
            let Some(built) = built else { return Ok(None) };
            let mut reader = Reader { store: self, built: &built, blocks: Vec::new() };
            match reader.window(window, own).await {
                Ok(found) => return Ok(Some((built, found))),
                Err(Stopped::OtherBuild) => {}
                Err(Stopped::Failed(error)) => return Err(error),
            }
        }
        Err(REPLACED)
    }
}

/// Which rows of a board to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// So many rows, from the top or after a place.
    Page { after: Option<Place>, limit: usize },
    /// The own row, and so many rows before and after it.
    AroundOwn { each_side: usize },
}

/// Rows of a board, and the row of one user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BoardWindow {
    pub rows: Vec<RankedRow>,
    /// Whether rows follow.
    pub has_more: bool,
    pub own: Option<OwnRow>,
}

/// The row of a user, as far as the last build has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnRow {
    Built(RankedRow),
    /// The user's points have changed since the build. The rank is the one that the points have in the build.
    Changed {
        rank: u32,
    },
}

enum Stopped {
    OtherBuild,
    Failed(StoreError),
}

impl From<StoreError> for Stopped {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

impl From<OtherBuild> for Stopped {
    fn from(_: OtherBuild) -> Self {
        Self::OtherBuild
    }
}

/// Reads the parts of one build, each block once.
struct Reader<'a> {
    store: &'a Store,
    built: &'a BuiltBoard,
    blocks: Vec<(usize, Vec<RankedRow>)>,
}

impl Reader<'_> {
    async fn window(&mut self, window: Window, own: Option<Place>) -> Result<BoardWindow, Stopped> {
        let total = self.built.head.total as usize;
        let own_position = match own {
            Some(place) => Some((place, self.position(&place).await?)),
            None => None,
        };
        let (from, until) = match window {
            Window::Page { after: None, limit } => (0, limit),
            Window::Page { after: Some(place), limit } => {
                let position = self.position(&place).await?;
                // The cursor's row itself is on the previous page.
                let from = position + usize::from(self.is_at(position, &place).await?);
                (from, from + limit)
            }
            Window::AroundOwn { each_side } => match own_position {
                Some((_, position)) => (position.saturating_sub(each_side), position + each_side + 1),
                None => (0, 0),
            },
        };
        let until = until.min(total);
        let mut rows = Vec::new();
        for position in from..until {
            rows.extend(self.row(position).await?);
        }
        let own = match own_position {
            Some((place, position)) => Some(match self.row(position).await? {
                Some(row) if row.row.place == place => OwnRow::Built(row),
                _ => OwnRow::Changed { rank: self.store.rank_on(self.built, place.points).await?? },
            }),
            None => None,
        };
        Ok(BoardWindow { rows, has_more: until < total, own })
    }

    async fn is_at(&mut self, position: usize, place: &Place) -> Result<bool, Stopped> {
        Ok(self.row(position).await?.is_some_and(|row| row.row.place == *place))
    }

    /// Returns the position of a place: that of its row, or that of the row which follows it.
    async fn position(&mut self, place: &Place) -> Result<usize, Stopped> {
        if self.built.head.indexes.is_empty() {
            return Ok(0);
        }
        let at = table::part_with(&self.built.head.indexes, place);
        let index = self.store.read_part::<Index>(self.built, BoardPart::Index(at)).await??;
        let number = at * table::BLOCKS_PER_INDEX + table::part_with(&index.0, place);
        let rows = self.block(number).await?;
        Ok(number * table::ROWS_PER_BLOCK + rows.partition_point(|row| row.row.place < *place))
    }

    async fn row(&mut self, position: usize) -> Result<Option<RankedRow>, Stopped> {
        if position >= self.built.head.total as usize {
            return Ok(None);
        }
        let rows = self.block(position / table::ROWS_PER_BLOCK).await?;
        Ok(rows.get(position % table::ROWS_PER_BLOCK).copied())
    }

    async fn block(&mut self, number: usize) -> Result<&[RankedRow], Stopped> {
        if !self.blocks.iter().any(|(known, _)| *known == number) {
            let rows = self.store.rows_of_block(self.built, number).await??;
            self.blocks.push((number, rows));
        }
        let found = self.blocks.iter().find(|(known, _)| *known == number);
        Ok(found.map_or(&[][..], |(_, rows)| rows))
    }
}

fn part_write<T: Serialize>(
    board: Board,
    build: Build,
    part: BoardPart,
    data: &T,
) -> Result<WriteRequest, StoreError> {
    part_of_build(board, (build.number, build.slot), part, data)
}

/// Returns the write of a part. `build` and `slot` are those of the build that it belongs to.
pub(super) fn part_of_build<T: Serialize>(
    board: Board,
    (build, slot): (u64, u8),
    part: BoardPart,
    data: &T,
) -> Result<WriteRequest, StoreError> {
    let mut item = Item::from(keys::board_part(board, slot, part));
    item.insert("build".to_owned(), number(build));
    item.insert("data".to_owned(), encoded(data)?);
    Ok(WriteRequest::builder().put_request(PutRequest::builder().set_item(Some(item)).build()?).build())
}

fn encoded<T: Serialize>(part: &T) -> Result<AttributeValue, StoreError> {
    let bytes = table::encode(part).map_err(|_| UNREADABLE)?;
    Ok(AttributeValue::B(Blob::new(bytes)))
}

pub(super) fn decoded<T: DeserializeOwned>(item: &Item) -> Option<T> {
    table::decode(item.get("data")?.as_b().ok()?.as_ref()).ok()
}

pub(super) fn belongs_to(part: &Item, built: &BuiltBoard) -> bool {
    integer(part, "build").and_then(|build| u64::try_from(build).ok()) == Some(built.build)
}

/// Returns the attribute of a head that says until when a slot is reserved, in milliseconds.
fn reserved(slot: u8) -> String {
    format!("reserved:{slot}")
}
