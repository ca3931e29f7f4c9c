//! The recount of all matches, rooms and users, in as many invocations as it takes.

use chrono::{DateTime, Utc};
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use touchline::App;
use touchline::Error;
use touchline::domain::UserId;
use touchline::storage::StoreError;

use crate::copies::copy_into_members;
use crate::position::Position;
use crate::report::Report;
use crate::subject::{recount_match, recount_room, recount_user};

/// How many users are counted concurrently. Most need three reads.
const CONCURRENT_USERS: u32 = 16;

/// Recounts everything from `position` on, until `until`. If that is not enough time, or the store is busy,
/// `report.next` says where to continue.
pub async fn recount_everything(
    app: &App,
    mut position: Position,
    report: &mut Report,
    until: DateTime<Utc>,
) -> Result<(), Error> {
    loop {
        if app.clock.now() >= until || report.is_full() {
            break;
        }
        match step(app, &position, report, until).await {
            // The time is over, or the store is busy.
            Ok(Some(next)) if next == position => break,
            Ok(Some(next)) => position = next,
            Ok(None) => return Ok(()),
            // The next invocation counts this step again. Counting twice is safe.
            Err(Error::Store(error @ (StoreError::Busy { .. } | StoreError::Contended { .. }))) => {
                tracing::warn!(%error, ?position, "the recount of everything stops early");
                break;
            }
            Err(error) => return Err(error),
        }
    }
    report.next = Some(position);
    Ok(())
}

/// Recounts the next match, room or users. Returns the position after those that the time was enough for, or `None` after
/// the last ones.
async fn step(
    app: &App,
    position: &Position,
    report: &mut Report,
    until: DateTime<Utc>,
) -> Result<Option<Position>, Error> {
    match position {
        Position::Matches { after } => {
            let catalog = app.catalog().await?;
            let next = catalog.events().filter(|event| event.id > *after).min_by_key(|event| event.id);
            let Some(event) = next else {
                tracing::info!(report.checked, "counted all matches again");
                return Ok(Some(Position::Rooms { after: None }));
            };
            let recounted = recount_match(app, event, report, until).await;
            report.unless_permanent(recounted, || format!("match {}", event.id))?;
            if report.remove_out_of_time() {
                return Ok(Some(position.clone()));
            }
            Ok(Some(Position::Matches { after: event.id }))
        }
        Position::Rooms { after } => {
            let (rooms, next) = app.store.every_room(after.as_ref()).await?;
            let mut done = after.clone();
            for room in rooms {
                if app.clock.now() >= until || report.is_full() {
                    return Ok(Some(Position::Rooms { after: done }));
                }
                let recounted = recount_room(app, &room, report, until).await;
                let rest =
                    report.unless_permanent(recounted, || format!("room {}", room.room_id.as_str()))?;
                if report.remove_out_of_time() {
                    return Ok(Some(Position::Rooms { after: done }));
                }
                if let Some(members) = rest.flatten() {
                    return Ok(Some(Position::Members(members)));
                }
                done = Some(room.room_id);
            }
            tracing::info!(report.checked, "counted a page of rooms again");
            Ok(Some(next.map_or(Position::Users { after: 0 }, |room| Position::Rooms { after: Some(room) })))
        }
        Position::Members(members) => {
            let id = &members.room;
            let name = || format!("memberships of room {}", id.as_str());
            let room = report.unless_permanent(app.store.room(id).await, name)?;
            let rest = match room.flatten() {
                Some(room) => {
                    let copied = copy_into_members(app, &room, members.clone(), report, until).await;
                    report.unless_permanent(copied, name)?.flatten()
                }
                None => None,
            };
            let next = Position::Rooms { after: Some(id.clone()) };
            Ok(Some(rest.map_or(next, Position::Members)))
        }
        Position::Users { after } => {
            let highest = app.store.last_user_id().await?.0;
            if *after >= highest {
                return Ok(None);
            }
            let end = highest.min(after.saturating_add(CONCURRENT_USERS));
            let users = (after + 1..=end).map(|user| {
                async move {
                    let mut report = Report::default();
                    recount_user(app, UserId(user), &mut report, until).await.map(|()| report)
                }
                .boxed()
            });
            let mut failed = Ok(());
            for (user, counted) in (after + 1..).zip(join_all(users).await) {
                match report.unless_permanent(counted, || format!("user {user}")) {
                    Ok(counted) => report.extend(counted.unwrap_or_default()),
                    Err(error) => failed = Err(error),
                }
            }
            failed?;
            if report.remove_out_of_time() {
                return Ok(Some(position.clone()));
            }
            if end % 10_000 < CONCURRENT_USERS {
                tracing::info!(end, highest, "counted users again");
            }
            Ok(Some(Position::Users { after: end }))
        }
    }
}
