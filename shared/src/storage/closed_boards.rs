//! The `standings` table: the rows of closed boards by user.
//!
//! After a board has closed, its counters are removed from the users' statistics. Then no other item leads from a user to the
//! row, so the rows of the last build are stored again, by user id.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::types::AttributeValue;
use chrono::{DateTime, Utc};
use futures_util::FutureExt as _;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};

use super::client::Call as _;
use super::condition::condition_held;
use super::error::StoreError;
use super::item::{Item, number};
use super::keys::{self, BoardPart};
use super::standings::{BuiltBoard, belongs_to, decoded, part_of_build};
use super::store::{Reads, Store};
use crate::domain::UserId;
use crate::domain::standings::table::{UserParts, Users};
use crate::domain::standings::{Board, Period, Row, Scope, UserTally};

/// The maximum number of concurrent batches.
const CONCURRENT_BATCHES: usize = 16;

impl Store {
    /// Adds a board to the list of open boards, if it closes at some time.
    pub(super) async fn list_open_board(&self, board: Board) -> Result<(), StoreError> {
        if board.period == Period::All || matches!(board.scope, Scope::Room(_)) {
            return Ok(());
        }
        self.change_open_boards(board, "ADD boards :boards").await
    }

    async fn change_open_boards(&self, board: Board, update: &str) -> Result<(), StoreError> {
        self.client
            .update_item()
            .table_name(&self.tables.standings)
            .set_key(Some(keys::open_boards().into()))
            .update_expression(update)
            .expression_attribute_values(":boards", AttributeValue::Ss(vec![board.to_string()]))
            .call()
            .await
            .map_err(|error| StoreError::from_sdk("UpdateItem", &error))?;
        Ok(())
    }

    /// Reads which boards have closed and are not built any more, but have no rows by user yet.
    pub async fn boards_to_close(&self, now: DateTime<Utc>) -> Result<BTreeSet<Board>, StoreError> {
        let found = self.get_item(&self.tables.standings, keys::open_boards(), Reads::Eventual).await?;
        let names = found.as_ref().and_then(|item| item.get("boards")?.as_ss().ok());
        let boards = names.into_iter().flatten().filter_map(|name| name.parse::<Board>().ok());
        Ok(boards.filter(|board| board.is_closed(now - UserTally::BUILT_AFTER_CLOSE)).collect())
    }

    /// Stores the rows of a closed board by user. Idempotent. A later build of the board lists the board again.
    pub async fn close_board(&self, board: Board) -> Result<(), StoreError> {
        if let Some(built) = self.built_board(board, Reads::Consistent).await? {
            let mut parts = UserParts::default();
            let mut groups = std::pin::pin!(self.row_groups(&built));
            while let Some(rows) = groups.try_next().await? {
                for ranked in rows {
                    parts.add(ranked.row);
                }
            }
            let build = (built.build, built.slot);
            let writes = parts
                .into_parts()
                .map(move |(number, part)| part_of_build(board, build, BoardPart::Users(number), &part));
            self.write_parts(writes).await?;
            let stored = self
                .client
                .update_item()
                .table_name(&self.tables.standings)
                .set_key(Some(keys::board_head(board).into()))
                .update_expression("SET users_of = :build")
                .condition_expression("build = :build")
                .expression_attribute_values(":build", number(built.build))
                .call()
                .await;
            if !condition_held("UpdateItem", stored)? {
                // A later build was published, after it had listed the board again.
                return Ok(());
            }
        }
        self.change_open_boards(board, "DELETE boards :boards").await
    }

    /// Reads the row of a user on a closed board. `None` if the user is not on it, or if it has no rows by user yet.
    pub async fn closed_row(&self, built: &BuiltBoard, user: UserId) -> Result<Option<Row>, StoreError> {
        if !built.has_users {
            return Ok(None);
        }
        // Parts without rows are not stored, so a missing part means that the user has no row.
        let part = self.read_part::<Users>(built, BoardPart::Users(Users::part_of(user))).await?;
        Ok(part.ok().and_then(|users| users.row(user)))
    }

    /// Reads the rows of users on a closed board that has rows by user. Users who are not on it are left out.
    pub async fn closed_rows(&self, built: &BuiltBoard, users: &[UserId]) -> Result<Vec<Row>, StoreError> {
        let parts: BTreeSet<u32> = users.iter().map(|user| Users::part_of(*user)).collect();
        let parts: Vec<u32> = parts.into_iter().collect();
        let batches: Vec<_> = parts
            .chunks(25)
            .map(|parts| {
                let key = |part: &u32| keys::board_part(built.board, built.slot, BoardPart::Users(*part));
                let keys = parts.iter().map(|part| key(part).into()).collect();
                self.batch_get(&self.tables.standings, keys, Reads::Consistent).boxed()
            })
            .collect();
        let found: Vec<Vec<Item>> = stream::iter(batches).buffered(CONCURRENT_BATCHES).try_collect().await?;
        let users: BTreeSet<UserId> = users.iter().copied().collect();
        let mut rows = Vec::new();
        for item in found.iter().flatten().filter(|item| belongs_to(item, built)) {
            let part: Users = decoded(item).ok_or(StoreError::Unreadable("a part of a board"))?;
            rows.extend(part.rows().filter(|row| users.contains(&row.place.user)));
        }
        Ok(rows)
    }
}
