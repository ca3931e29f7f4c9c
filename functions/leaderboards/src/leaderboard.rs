use futures_util::future::{try_join, try_join3};
use touchline::api::leaderboards::{
    AfterPlace, Around, EmptyReason, Leaderboard, LeaderboardQuery, ScopeId, ScopeName, StandingView,
    Standings, StandingsMeta,
};
use touchline::api::{Cursor, Invalid};
use touchline::domain::room::RoomId;
use touchline::domain::standings::table::RankedRow;
use touchline::domain::standings::{Board, Period, Row, Scope, Span};
use touchline::domain::time::midnight_of;
use touchline::domain::{Timestamp, UserId};
use touchline::flows::room_table::{self, RoomTable};
use touchline::flows::rooms;
use touchline::storage::standings::{BoardWindow, BuiltBoard, OwnRow, Window};
use touchline::storage::users::StoredBlocks;
use touchline::storage::{Reads, StoreError};
use touchline::{App, Call, Error, Reply};

/// The number of rows before and after the caller's own row.
const NEIGHBOURS: usize = 5;

pub async fn handle(app: App, call: Call<Leaderboard>) -> Result<Reply<Standings>, Error> {
    let (input, caller) = (call.input, call.caller.user);
    let tally = async { app.store.ranked_tally(caller).await.map_err(Error::from) };
    let blocks = async { app.store.blocks(caller, Reads::Eventual).await.map_err(Error::from) };
    let (asked, tally, StoredBlocks { blocks, .. }) =
        try_join3(asked(&app, &input, caller), tally, blocks).await?;
    let board = asked.board();
    let after = input.cursor.map(|cursor| cursor.position_in(board)).transpose()?.map(|after| after.0);
    let window = match input.around {
        Some(Around::Me) => Window::AroundOwn { each_side: NEIGHBOURS },
        None => Window::Page { after, limit: input.per_page.0 },
    };
    let (own, found) = match &asked {
        Asked::Board(board) => {
            let (own, built) = match tally.row(caller, *board) {
                // The counters of a closed board are removed.
                None if board.is_closed(app.clock.now()) => closed_row(&app, *board, caller).await?,
                own => (own, None),
            };
            let place = own.map(|row| row.place);
            (own, app.store.board_window(*board, built, window, place).await?)
        }
        Asked::Room(table) => {
            let (own, built) = try_join(table.row_of(&app, caller, &tally), table.refreshed(&app)).await?;
            let place = own.map(|row| row.place);
            match built {
                Some(built) => (own, app.store.board_window(board, Some(built), window, place).await?),
                None => (own, None),
            }
        }
    };
    let (built, mut window) =
        found.map_or((None, BoardWindow::default()), |(built, window)| (Some(built), window));
    let is_page = input.around.is_none();
    let next = window.rows.last().filter(|_| is_page && window.has_more).map(|last| last.row.place);
    window.rows.retain(|ranked| !blocks.contains(ranked.row.place.user));

    let users: Vec<_> = window.rows.iter().map(|ranked| ranked.row.place.user).collect();
    // A page of 100 rows leaves no room for the caller in the same batch.
    let away = own.filter(|_| !users.contains(&caller)).map(|_| caller);
    let (mut people, me) = try_join(app.store.people(&users), app.store.people(away.as_slice())).await?;
    people.extend(me);
    let data: Vec<_> = window.rows.iter().filter_map(|ranked| StandingView::of(ranked, &people)).collect();
    let empty_reason = (data.is_empty() && !is_page).then_some(match (&asked, own) {
        (_, Some(_)) => EmptyReason::NotCalculated,
        (Asked::Room(_), None) => EmptyReason::NotAMember,
        (Asked::Board(_), None) => EmptyReason::NoSettledPredictions,
    });
    // Without a built board, the caller's points wait for the first build.
    let me = own.zip(window.own).and_then(|(row, own)| {
        let (rank, moved) = match own {
            OwnRow::Built(ranked) => (ranked.rank, RankedRow::moved(&ranked)),
            OwnRow::Changed { rank } => (rank, None),
        };
        Some(StandingView::new(rank, moved, &row.stats(), people.get(&caller)?))
    });
    let meta = StandingsMeta {
        me,
        total: built.as_ref().map_or(0, |built| built.head.total),
        as_of: built.map(|built| Timestamp(built.built_at)),
        next_cursor: next.map(|place| Cursor::new(board, AfterPlace(place)).to_string()),
        empty_reason,
    };
    Ok(Standings { data, meta }.into())
}

/// Reads a closed board, and the row of a user on it.
async fn closed_row(
    app: &App,
    board: Board,
    user: UserId,
) -> Result<(Option<Row>, Option<BuiltBoard>), StoreError> {
    let Some(built) = app.store.built_board(board, Reads::Eventual).await? else { return Ok((None, None)) };
    let row = app.store.closed_row(&built, user).await?;
    Ok((row, Some(built)))
}

/// What a request asks for.
enum Asked {
    /// A leaderboard of all users.
    Board(Board),
    /// The table of a room.
    Room(Box<RoomTable>),
}

impl Asked {
    fn board(&self) -> Board {
        match self {
            Self::Board(board) => *board,
            Self::Room(table) => table.board(),
        }
    }
}

async fn asked(app: &App, input: &LeaderboardQuery, caller: UserId) -> Result<Asked, Error> {
    let scope = match (input.scope, &input.id) {
        (ScopeName::Global, _) => Scope::Global,
        (ScopeName::Tournament, Some(ScopeId::Tournament(id))) => Scope::Tournament(id.0),
        (ScopeName::Tournament, _) => {
            return Err(Invalid::field("id", "Enter the id of the tournament.").into());
        }
        (ScopeName::Room, Some(ScopeId::Room(room))) => return asked_room(app, input, room, caller).await,
        (ScopeName::Room, _) => {
            return Err(Invalid::field("id", "Enter the Matrix id of the room.").into());
        }
    };
    Ok(Asked::Board(Board { scope, period: period(app, input, scope).await? }))
}

async fn asked_room(
    app: &App,
    input: &LeaderboardQuery,
    room: &RoomId,
    caller: UserId,
) -> Result<Asked, Error> {
    let room = app.store.room(room).await?.ok_or(Error::RoomNotFound)?;
    let access = rooms::require_read_access(app, &room, caller);
    let ((), counted) = try_join(access, room_table::counted(app, &room)).await?;
    if counted.is_one_match() && input.period != Span::All {
        let reason = "The room's table counts only one match, so it has no periods. Leave out period.";
        return Err(Invalid::field("period", reason).into());
    }
    let period = period(app, input, counted.scope).await?;
    let table = RoomTable::read(app, room, counted, period).await?;
    if table.is_too_large() {
        let reason =
            "Rooms of more than 100,000 members have no table. Read the leaderboard of the tournament.";
        return Err(Invalid::field("id", reason).into());
    }
    Ok(Asked::Room(Box::new(table)))
}

/// Returns the period that a request asks for.
async fn period(app: &App, input: &LeaderboardQuery, scope: Scope) -> Result<Period, Error> {
    Ok(match (input.period, input.date) {
        (span, Some(date)) => Period::of(span, midnight_of(date)),
        (Span::Matchday, None) => match app.store.latest_matchday(scope).await? {
            Some(day) => Period::Matchday(day),
            None => Period::of(Span::Matchday, app.clock.now()),
        },
        (span, None) => Period::of(span, app.clock.now()),
    })
}

#[cfg(test)]
mod room_tests;
#[cfg(test)]
mod tests;
