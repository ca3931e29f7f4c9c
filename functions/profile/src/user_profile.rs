use std::cmp::Reverse;

use futures_util::future::{try_join, try_join3};
use touchline::api::Data;
use touchline::api::my_prediction::PointsReason;
use touchline::api::users::{RanksView, RecordView, UserProfile, UserProfileView, UserRef, UserView};
use touchline::domain::UserId;
use touchline::domain::standings::{Board, Period, Scope, Span, UserTally};
use touchline::{App, Call, Error, Reply};

/// How many results the form has.
const FORM: usize = 5;

/// How many of the user's newest predictions are read. They can be of any matches, also of upcoming ones.
const READ: usize = 60;

pub async fn handle(app: App, call: Call<UserProfile>) -> Result<Reply<Data<UserProfileView>>, Error> {
    let caller = call.caller.user;
    let id = match &call.path.user {
        UserRef::Id(id) => *id,
        UserRef::Name(name) => app.store.user_named(name).await?.ok_or(Error::UserNotFound)?,
    };
    let (mut profiles, blockers) =
        try_join(app.store.public_profiles(&[id]), app.store.blockers(caller, &[id])).await?;
    let profile = profiles.remove(&id).filter(|profile| !profile.is_suspended() && blockers.is_empty());
    let profile = profile.ok_or(Error::UserNotFound)?;
    let standing = async {
        let tally = app.store.ranked_tally(id).await?;
        let ranks = ranks(&app, id, &tally).await?;
        Ok((tally.stats, ranks))
    };
    let ((stats, ranks), form) = try_join(standing, form(&app, id)).await?;
    // Without a team there is nothing to look up in the catalog.
    let catalog = if profile.primary_team.is_some() { Some(app.teams().await?) } else { None };
    let data = UserProfileView {
        member_since: profile.created_at.into(),
        user: UserView::of(profile, catalog.as_deref()),
        record: RecordView::of(&stats),
        ranks,
        form,
    };
    Ok(Data { data }.into())
}

/// Reads the ranks of a user, two reads for each.
async fn ranks(app: &App, user: UserId, tally: &UserTally) -> Result<RanksView, Error> {
    let now = app.clock.now();
    let rank = async |span| {
        let board = Board { scope: Scope::Global, period: Period::of(span, now) };
        match tally.row(user, board) {
            Some(row) => app.store.rank(board, row.place.points).await.map_err(Error::from),
            None => Ok(None),
        }
    };
    let (all, season, month) = try_join3(rank(Span::All), rank(Span::Season), rank(Span::Month)).await?;
    Ok(RanksView { all, season, month })
}

/// Returns how the user's last predictions of finished matches went, the latest match first. Looks only at the newest
/// predictions, so that a profile has a bounded cost.
async fn form(app: &App, user: UserId) -> Result<Vec<PointsReason>, Error> {
    let (mut rows, _) = app.store.own_predictions(user, None, READ).await?;
    // Predictions without points need no catalog: they are not settled.
    rows.retain(|row| row.points.is_some());
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<u32> = rows.iter().map(|row| row.event_id).collect();
    let catalog = app.catalog_with(&ids).await?;
    let settled = rows.iter().filter_map(|row| {
        let event = catalog.event(row.event_id)?;
        Some((Reverse(event.start), event.id, PointsReason::of(row, event)?))
    });
    let mut settled: Vec<_> = settled.collect();
    settled.sort_unstable_by_key(|(start, id, _)| (*start, *id));
    Ok(settled.into_iter().take(FORM).map(|(_, _, reason)| reason).collect())
}

#[cfg(test)]
mod tests;
