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
use crate::domain::standings::table::{Changed, MadeOf, Table};
use crate::domain::standings::{Board, Period, Row, Scope, UserTally};
use crate::domain::tally::{RoomCounts, UserStats};
use crate::storage::room_tables::QueuedRoom;
use crate::storage::standings::BuiltBoard;
use crate::storage::{Reads, StoreError};
use crate::{App, Error};

/// The largest room whose table a request builds itself, in members. The reads take about 100 ms.
const BUILT_IN_REQUEST: i64 = 1_000;

/// The most members of a room with a table.
pub const MOST_MEMBERS: i64 = 100_000;

/// The pause between two builds of a small room's table. It grows with the number of members, like the cost of a build.
const PAUSE: TimeDelta = TimeDelta::seconds(2);
const PAUSE_PER_MEMBER: TimeDelta = TimeDelta::milliseconds(20);

/// How much longer the pause is after a change that may not show in the table: members predict and are active all the time.
const LONGER: i32 = 10;

/// The pause for a large room.
const LONG_PAUSE: TimeDelta = TimeDelta::minutes(2);

/// Which matches count in the table of a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// The leaderboard of all users over the same matches. One match has no leaderboard: then it is the one over all matches,
    /// and only its periods count.
    pub scope: Scope,
    /// The id of the match, and the number of its shards, in the table of one match.
    event: Option<(u32, u8)>,
}

impl Counted {
    /// Returns which matches count in a room. `event` is the match that the room is about.
    #[must_use]
    pub fn of(room: &Room, event: Option<&Match>) -> Self {
        // If the match is not in the catalog, nobody has points in the table.
        let (id, shards, tournament) =
            event.map_or((0, 1, 0), |event| (event.id, event.shards, event.tournament_id));
        match room.league() {
            League::Match => Self { scope: Scope::Global, event: Some((id, shards)) },
            League::Tournament => Self { scope: Scope::Tournament(tournament), event: None },
            League::All => Self { scope: Scope::Global, event: None },
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
    /// The board of all users over the same matches. One match has none.
    source: Option<BuiltBoard>,
    /// What a table that is built now is made of.
    made_of: MadeOf,
}

impl RoomTable {
    /// Reads the versions from which the table would be built now. They show whether a stored table is out of date.
    pub async fn read(app: &App, room: Room, counted: Counted, period: Period) -> Result<Self, StoreError> {
        let board = Board { scope: counted.scope, period };
        let results = async {
            match counted.event {
                Some((event, _)) => Ok((None, app.store.recent_settlement(event).await?)),
                None => Ok((app.store.recent_board(board).await?, None)),
            }
        };
        let ((counts, version), (source, settlement)) =
            try_join(app.store.versioned_room_counts(&room.room_id), results).await?;
        let settled = settlement.filter(|settlement| settlement.is_done);
        let made_of = MadeOf {
            tournament: match counted.scope {
                Scope::Tournament(tournament) => Some(tournament),
                Scope::Global | Scope::Room(_) => None,
            },
            event: counted.event,
            build: source.as_ref().map_or(0, |built| built.build),
            revision: settled.map_or(0, |settlement| settlement.revision),
            members: counts.totals.members - counts.totals.unranked,
            version,
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
        let changed = match made_of {
            _ if !self.can_be_built(stored.built.is_some(), now) => Changed::Nothing,
            // Members who join or leave after the period has closed do not change the table.
            Some(made_of) if self.is_closed(now) && made_of.build == self.made_of.build => Changed::Nothing,
            Some(made_of) => made_of.changed(&self.made_of),
            None => Changed::Rows,
        };
        let is_small = self.counts.totals.members <= BUILT_IN_REQUEST;
        let pause = match changed {
            Changed::Nothing => return Ok(stored.built),
            Changed::Rows | Changed::Perhaps if !is_small => LONG_PAUSE,
            Changed::Rows => self.pause(),
            Changed::Perhaps => self.pause() * LONGER,
        };
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
            // The next reader builds it.
            Err(error) if stored.built.is_some() => {
                tracing::warn!(%error, "cannot build the table of a room");
                Ok(stored.built)
            }
            Err(error) => Err(error),
        }
    }

    fn pause(&self) -> TimeDelta {
        PAUSE + PAUSE_PER_MEMBER * i32::try_from(self.counts.totals.members).unwrap_or(i32::MAX)
    }

    /// Returns the leaderboard of all users over the same matches.
    fn source_board(&self) -> Board {
        Board { scope: self.counted.scope, period: self.period }
    }

    fn is_closed(&self, now: DateTime<Utc>) -> bool {
        self.source_board().is_closed(now - UserTally::BUILT_AFTER_CLOSE)
    }

    /// Returns whether there is something to build from. The counters of a closed period are removed, so its rows by user must be
    /// stored first. Periods without results get no tables, because anybody can ask for any date. The table of a period that
    /// had no results while it lasted follows the members.
    fn can_be_built(&self, is_stored: bool, now: DateTime<Utc>) -> bool {
        if self.is_too_large() {
            false
        } else if self.is_closed(now) {
            self.closed().is_some()
        } else {
            is_stored || self.source.is_some() || self.period.contains(now)
        }
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
        // The previous rank is that among all users.
        .map(|row| (row.place.user, Row { previous: None, ..row }))
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
        tally.row(user, self.source_board()).unwrap_or_else(|| row_without_points(user))
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

/// Builds a table that was queued. Returns false if there is nothing to build: the room was removed, or has become too large.
pub async fn build_queued(app: &App, queued: &QueuedRoom) -> Result<bool, Error> {
    let Some(room) = app.store.room(&queued.room).await? else { return Ok(false) };
    let counted = counted(app, &room).await?;
    let table = RoomTable::read(app, room, counted, queued.period).await?;
    let stored = app.store.room_table(table.board(), Reads::Eventual).await?;
    if !table.can_be_built(stored.built.is_some(), app.clock.now()) {
        return Ok(false);
    }
    table.build(app).await?;
    Ok(true)
}

/// Finds out which matches count in a room.
pub async fn counted(app: &App, room: &Room) -> Result<Counted, Error> {
    let Some(event) = room.event_id else { return Ok(Counted::of(room, None)) };
    let catalog = app.catalog_with(&[event]).await?;
    Ok(Counted::of(room, catalog.event(event)))
}
