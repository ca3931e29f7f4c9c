use chrono::{DateTime, Utc};
use futures_util::future::try_join;
use touchline::api::leaderboards::{
    AfterPlace, Around, Leaderboard, LeaderboardQuery, ScopeName, StandingView, Standings, StandingsMeta,
};
use touchline::api::{Cursor, Invalid};
use touchline::domain::Timestamp;
use touchline::domain::standings::table::RankedRow;
use touchline::domain::standings::{Board, Period, Scope, Span};
use touchline::domain::time::midnight_of;
use touchline::storage::Reads;
use touchline::storage::standings::{BoardWindow, OwnRow, Window};
use touchline::storage::users::StoredBlocks;
use touchline::{App, Call, Error, Reply};

/// The number of rows before and after the caller's own row.
const NEIGHBOURS: usize = 5;

pub async fn handle(app: App, call: Call<Leaderboard>) -> Result<Reply<Standings>, Error> {
    let (input, caller) = (call.input, call.caller.user);
    let board = board(&app, &input, app.clock.now()).await?;
    let after = input.cursor.map(|cursor| cursor.position_in(board)).transpose()?.map(|after| after.0);
    let window = match input.around {
        Some(Around::Me) => Window::AroundOwn { each_side: NEIGHBOURS },
        None => Window::Page { after, limit: input.per_page.0 },
    };
    let (tally, StoredBlocks { blocks, .. }) =
        try_join(app.store.ranked_tally(caller), app.store.blocks(caller, Reads::Eventual)).await?;
    let own = tally.row(caller, board);
    let found = app.store.board_window(board, window, own.map(|row| row.place)).await?;
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
    let data = window.rows.iter().filter_map(|ranked| StandingView::of(ranked, &people)).collect();
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
    };
    Ok(Standings { data, meta }.into())
}

/// Returns the board that a request asks for.
async fn board(app: &App, input: &LeaderboardQuery, now: DateTime<Utc>) -> Result<Board, Error> {
    let scope = match (input.scope, input.id) {
        (ScopeName::Global, _) => Scope::Global,
        (ScopeName::Tournament, Some(id)) => Scope::Tournament(id.0),
        (ScopeName::Tournament, None) => {
            return Err(Invalid::field("id", "Enter the id of the tournament.").into());
        }
    };
    let period = match (input.period, input.date) {
        (span, Some(date)) => Period::of(span, midnight_of(date)),
        (Span::Matchday, None) => match app.store.latest_matchday(scope).await? {
            Some(day) => Period::Matchday(day),
            None => Period::of(Span::Matchday, now),
        },
        (span, None) => Period::of(span, now),
    };
    Ok(Board { scope, period })
}

#[cfg(test)]
mod tests;
