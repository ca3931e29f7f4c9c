//! The `rooms` table: how far a change is copied into the memberships of a user who has many.
//!
//! The function `tally` copies a change into a limited number of memberships, and stores how far it came. The stream record
//! of that item starts the next step. Each step moves the item on, so each step has a stream record of its own.
//!
//! A later change can arrive in between. It does not begin again at the first room: then frequent changes would keep the
//! last rooms from ever getting one. It makes the copy go around once more from where it is (see [`CopyProgress`]). It also
//! gives the item a new `round`. A step that read the user's data before the change then cannot move the item, and the same
//! rooms get the later data.

use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;

use super::condition::condition_held;
use super::error::StoreError;
use super::item::{Item, from_item, number, text};
use super::keys;
use super::store::{Reads, Store};
use crate::domain::UserId;
use crate::domain::copying::{Copied, CopyProgress};
use crate::domain::room::RoomId;

/// How long the item is kept after its last change. The stream keeps records for a day, so after two days no record is left
/// that could continue the copy.
const KEPT: TimeDelta = TimeDelta::days(2);

/// A copy under way, as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copying {
    pub user: UserId,
    pub what: Copied,
    pub progress: CopyProgress,
    /// The id of the last change that began the copy or extended it.
    round: String,
}

pub(super) fn read(user: UserId, what: Copied, item: Item) -> Result<Copying, StoreError> {
    #[derive(Deserialize)]
    struct Row {
        after: String,
        until: String,
        round: String,
    }
    let Row { after, until, round } = from_item(item)?;
    let room = |text: String| match text.as_str() {
        "" => Ok(None),
        id => RoomId::parse(id).map(Some).ok_or(StoreError::Unreadable("the progress of a copy")),
    };
    Ok(Copying { user, what, progress: CopyProgress { after: room(after)?, until: room(until)? }, round })
}

/// Returns the text that stores a room, or the place before the first room.
fn place(room: Option<&RoomId>) -> &str {
    room.map_or("", RoomId::as_str)
}

impl Store {
    /// Stores that a change is copied only up to the room `first`. If an earlier change is being copied already, makes that
    /// copy go around once more instead. `round` must be new for each call.
    pub async fn begin_copying(
        &self,
        user: UserId,
        what: Copied,
        first: Option<&RoomId>,
        round: &str,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        self.client
            .update_item()
            .table_name(&self.tables.rooms)
            .set_key(Some(keys::copying(user, what).into()))
            .update_expression(
                "SET #until = if_not_exists(#after, :start), #after = if_not_exists(#after, :first), \
                 round = :round, expires_at = :expires",
            )
            .expression_attribute_names("#after", "after")
            .expression_attribute_names("#until", "until")
            .expression_attribute_values(":start", text(place(None)))
            .expression_attribute_values(":first", text(place(first)))
            .expression_attribute_values(":round", text(round))
            .expression_attribute_values(":expires", number((now + KEPT).timestamp()))
            .send()
            .await
            .map_err(|error| StoreError::from_sdk("UpdateItem", &error))?;
        Ok(())
    }

    /// Reads how far a change is copied, strongly consistent. Returns `None` if no copy is under way.
    pub async fn copying(&self, user: UserId, what: Copied) -> Result<Option<Copying>, StoreError> {
        let item = self.get_item(&self.tables.rooms, keys::copying(user, what), Reads::Consistent).await?;
        item.map(|item| read(user, what, item)).transpose()
    }

    /// Stores the progress after a step, or that nothing is left. Does nothing if the copy has changed since `copying` was
    /// read: then another invocation has made the same step, or a later change must be copied.
    pub async fn continue_copying(
        &self,
        copying: &Copying,
        next: Option<&CopyProgress>,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        const UNCHANGED: &str = "#after = :after AND round = :round";
        let (key, before) = (keys::copying(copying.user, copying.what), &copying.progress);
        let Some(next) = next else {
            let ended = self
                .client
                .delete_item()
                .table_name(&self.tables.rooms)
                .set_key(Some(key.into()))
                .condition_expression(UNCHANGED)
                .expression_attribute_names("#after", "after")
                .expression_attribute_values(":after", text(place(before.after.as_ref())))
                .expression_attribute_values(":round", text(&copying.round))
                .send()
                .await;
            return condition_held("DeleteItem", ended).map(|_| ());
        };
        let moved = self
            .client
            .update_item()
            .table_name(&self.tables.rooms)
            .set_key(Some(key.into()))
            .update_expression("SET #after = :next, expires_at = :expires")
            .condition_expression(UNCHANGED)
            .expression_attribute_names("#after", "after")
            .expression_attribute_values(":next", text(place(next.after.as_ref())))
            .expression_attribute_values(":after", text(place(before.after.as_ref())))
            .expression_attribute_values(":round", text(&copying.round))
            .expression_attribute_values(":expires", number((now + KEPT).timestamp()))
            .send()
            .await;
        condition_held("UpdateItem", moved).map(|_| ())
    }
}
