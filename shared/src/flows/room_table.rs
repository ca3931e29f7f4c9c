//! The table of a room: its members, ranked by their points in the matches of the room's league.
//!
//! A reader who finds that the table is out of date builds it, or has the Lambda function `standings` build it if the room
//! is large. Until then, all readers see the table of the last build.

use std::collections::HashMap;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::{try_join, try_join3};

use crate::domain::UserId;
use crate::domain::catalog::Match;
use crate::domain::prediction::Prediction;
use crate::domain::room::{League, Member, Room};
use crate::domain::standings::table::{MadeOf, Table};
use crate::domain::standings::{Board, Period, Row, Scope, UserTally};
use crate::domain::tally::{RoomCounts, UserStats};
use crate::storage::room_tables::QueuedRoom;
use crate::storage::standings::BuiltBoard;
use crate::storage::{Reads, StoreError};
use crate::{App, Error};

/// The most members with whom a request builds the table itself: the requests to the store take about 100 ms.
const BUILT_IN_REQUEST: i64 = 1_000;

/// The most members of a room with a table.
pub const MOST_MEMBERS: i64 = 100_000;

/// After a reader has claimed a build, other readers wait this long before they claim it again.
const PAUSE: TimeDelta = TimeDelta::seconds(2);

/// The pause for a large room, whose members join and leave all the time.
const LONG_PAUSE: TimeDelta = TimeDelta::minutes(2);

/// Which matches count in the table of a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// The leaderboard of all users over the same matches. In the table of one match, it tells when a user was suspended.
    pub scope: Scope,
    /// The id of the match, and the number of its shards, in the table of one match.
    event: Option<(u32, u8)>,
}

impl Counted {
    /// Returns which matches count in a room. `event` is the match that the room is about.
    #[must_use]
    pub fn of(room: &Room, event: Option<&Match>) -> Self {
        match (room.league(), event) {
            (League::Match, Some(event)) => {
                Self { scope: Scope::Global, event: Some((event.id, event.shards)) }
            }
            (League::Tournament, Some(event)) => {
                Self { scope: Scope::Tournament(event.tournament_id), event: None }
            }
            // The match was removed from the catalog.
            (League::Match | League::Tournament, None) | (League::All, _) => {
                Self { scope: Scope::Global, event: None }
            }
        }
    }

    /// Returns whether only one match counts. Such a table has no periods.
    #[must_use]
    pub fn is_one_match(&self) -> bool {
        self.event.is_some()
    }
}

/// The table of a room in a period.
#[derive(Debug, Clone)]
pub struct RoomTable {
    room: Room,
    counted: Counted,
    period: Period,
    counts: RoomCounts,
    /// The board of all users over the same matches.
    source: Option<BuiltBoard>,
    /// What a table that is built now is made of.
    made_of: MadeOf,
}

impl RoomTable {
    /// Reads what is needed to tell whether the table is out of date.
    pub async fn read(app: &App, room: Room, counted: Counted, period: Period) -> Result<Self, StoreError> {
        let board = Board { scope: counted.scope, period };
        let settlement = async {
            match counted.event {
                Some((event, _)) => app.store.settlement(event).await,
                None => Ok(None),
            }
        };
        let ((counts, members), source, settlement) = try_join3(
            app.store.versioned_room_counts(&room.room_id),
            app.store.built_board(board, Reads::Eventual),
            settlement,
        )
        .await?;
        let settled = settlement.filter(|settlement| settlement.is_done);
        let made_of = MadeOf {
            build: source.as_ref().map_or(0, |built| built.build),
            revision: settled.map_or(0, |settlement| settlement.revision),
            members,
        };
        Ok(Self { room, counted, period, counts, source, made_of })
    }

    #[must_use]
    pub fn board(&self) -> Board {
        Board { scope: Scope::Room(self.room.room_id.table_digest()), period: self.period }
    }

    #[must_use]
    pub fn is_too_large(&self) -> bool {
        self.counts.totals.members > MOST_MEMBERS
    }

    /// Returns the stored table, after it was built if it was out of date and the room is small. `None` if the table was
    /// never built.
    pub async fn refreshed(&self, app: &App) -> Result<Option<BuiltBoard>, StoreError> {
        let (board, now) = (self.board(), app.clock.now());
        let stored = app.store.room_table(board, Reads::Eventual).await?;
        let made_of = stored.built.as_ref().and_then(|built| built.head.made_of);
        let is_current = if self.is_closed(now) {
            // Who joins or leaves after the period has closed does not change the table. It cannot be built before the closed
            // board has rows by user.
            made_of.is_some_and(|made_of| made_of.build == self.made_of.build) || self.closed().is_none()
        } else {
            made_of == Some(self.made_of)
        };
        if is_current || self.is_too_large() {
            return Ok(stored.built);
        }
        let is_small = self.counts.totals.members <= BUILT_IN_REQUEST;
        let pause = if is_small { PAUSE } else { LONG_PAUSE };
        if stored.claimed_at.is_some_and(|claimed| claimed > now - pause)
            || !app.store.claim_room_build(board, now, pause).await?
        {
            return Ok(stored.built);
        }
        if !is_small {
            let queued = QueuedRoom { room: self.room.room_id.clone(), period: self.period };
            app.store.queue_room(&queued).await?;
            return Ok(stored.built);
        }
        match self.build(app).await {
            Ok(()) => Ok(app.store.room_table(board, Reads::Consistent).await?.built),
            // Many builds have begun and not ended. Their slots become free after some minutes.
            Err(StoreError::Contended { .. }) => Ok(stored.built),
            Err(error) => Err(error),
        }
    }

    fn is_closed(&self, now: DateTime<Utc>) -> bool {
        let source = Board { scope: self.counted.scope, period: self.period };
        source.is_closed(now - UserTally::BUILT_AFTER_CLOSE)
    }

    /// Returns the board of all users over the same matches, if it has rows by user.
    fn closed(&self) -> Option<&BuiltBoard> {
        self.source.as_ref().filter(|source| source.has_users)
    }

    /// Builds and publishes the table.
    pub async fn build(&self, app: &App) -> Result<(), StoreError> {
        let board = self.board();
        let build = app.store.begin_build(board, app.clock.now()).await?;
        let used = self.counts.shards.used(self.counts.totals.members, self.room.shards);
        let members = app.store.member_ids(&self.room, &used).await?;
        let predictions = async {
            match self.counted.event {
                Some((event, shards)) => {
                    app.store.predictions_of_members(event, shards, &members).await.map(Some)
                }
                None => Ok(None),
            }
        };
        let (tallies, predictions, earlier) = try_join3(
            app.store.ranked_tallies(&members),
            predictions,
            app.store.built_board(board, Reads::Consistent),
        )
        .await?;
        let closed: HashMap<UserId, Row> = match self.closed() {
            Some(closed) => app.store.closed_rows(closed, &members).await?,
            None => Vec::new(),
        }
        .into_iter()
        .map(|row| (row.place.user, row))
        .collect();
        let row = |(user, tally): &(UserId, UserTally)| match (&predictions, self.closed()) {
            (Some(predictions), _) => row_of_prediction(*user, predictions.get(user)),
            (None, Some(_)) => closed.get(user).copied().unwrap_or_else(|| row_without_points(*user)),
            (None, None) => self.row_of_tally(*user, tally),
        };
        let mut table = Table::new(tallies.iter().map(row).collect()).with_made_of(self.made_of);
        if let Some(earlier) = earlier {
            let before = app.store.board_rows(&earlier).await?;
            table.compare_with(before.into_iter(), earlier.head.latest);
        }
        app.store.publish_board(board, build, &table, app.clock.now()).await?;
        Ok(())
    }

    /// Reads the row of a user. `None` if the user is not a member. `tally` has the user's counters.
    pub async fn row_of(
        &self,
        app: &App,
        user: UserId,
        tally: &UserTally,
    ) -> Result<Option<Row>, StoreError> {
        let prediction = async {
            match self.counted.event {
                Some((event, shards)) => app.store.prediction(event, shards, user, Reads::Eventual).await,
                None => Ok(None),
            }
        };
        let member = app.store.member(&self.room, user, Reads::Eventual);
        let (member, prediction) = try_join(member, prediction).await?;
        if !member.as_ref().is_some_and(Member::has_joined) {
            return Ok(None);
        }
        let row = if self.counted.is_one_match() {
            row_of_prediction(user, prediction.as_ref())
        } else if let Some(closed) = self.closed() {
            app.store.closed_row(closed, user).await?.unwrap_or_else(|| row_without_points(user))
        } else {
            self.row_of_tally(user, tally)
        };
        Ok(Some(row))
    }

    fn row_of_tally(&self, user: UserId, tally: &UserTally) -> Row {
        let source = Board { scope: self.counted.scope, period: self.period };
        tally.row(user, source).unwrap_or_else(|| row_without_points(user))
    }
}

fn row_without_points(user: UserId) -> Row {
    Row::of_member(user, &UserStats::default(), 0)
}

fn row_of_prediction(user: UserId, prediction: Option<&Prediction>) -> Row {
    let stats = prediction.map(UserStats::of).unwrap_or_default();
    let settled_at = prediction.and_then(|prediction| prediction.settled_in).map(|settled| settled.at);
    let reached = settled_at.and_then(|at| u32::try_from(at.timestamp()).ok()).unwrap_or(0);
    Row::of_member(user, &stats, reached)
}

/// Builds a table that was queued. Does nothing if the room was removed, or has become too large.
pub async fn build_queued(app: &App, queued: &QueuedRoom) -> Result<(), Error> {
    let Some(room) = app.store.room(&queued.room).await? else { return Ok(()) };
    let counted = counted(app, &room).await?;
    let table = RoomTable::read(app, room, counted, queued.period).await?;
    if !table.is_too_large() {
        table.build(app).await?;
    }
    Ok(())
}

/// Finds out which matches count in a room.
pub async fn counted(app: &App, room: &Room) -> Result<Counted, Error> {
    let Some(event) = room.event_id else { return Ok(Counted::of(room, None)) };
    let catalog = app.catalog_with(&[event]).await?;
    Ok(Counted::of(room, catalog.event(event)))
}
