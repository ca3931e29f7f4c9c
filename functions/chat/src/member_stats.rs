use std::collections::BTreeMap;

use futures_util::future::{try_join, try_join3};
use touchline::api::Data;
use touchline::api::chat::{MemberStats, MemberStatsView, PredictorView};
use touchline::domain::block::Blocks;
use touchline::domain::catalog::{Catalog, NEUTRAL, Team, distribution_keys};
use touchline::domain::room::{Day, Room};
use touchline::domain::tally::RoomCounts;
use touchline::flows::rooms;
use touchline::storage::Reads;
use touchline::storage::users::StoredBlocks;
use touchline::{App, Call, Error, Reply};

use crate::lookup;

/// The maximum number of predictors in the response.
const MAX_PREDICTORS: usize = 10;

/// The maximum number of blocked predictors who are replaced by others. If a caller has blocked more of the best
/// predictors, the response has fewer than ten.
const MAX_LEFT_OUT: usize = 40;

pub async fn handle(app: App, call: Call<MemberStats>) -> Result<Reply<Data<MemberStatsView>>, Error> {
    let id = &call.path.chat_room;
    let counts = async { app.store.room_counts(id).await.map_err(Error::from) };
    let blocks = async { app.store.blocks(call.caller.user, Reads::Eventual).await.map_err(Error::from) };
    let (room, counts, StoredBlocks { blocks, .. }) =
        try_join3(lookup::room(&app, id), counts, blocks).await?;
    rooms::require_read_access(&app, &room, call.caller.user).await?;
    let top_predictors = top_predictors(&app, &room, &counts, &blocks);
    let (catalog, top_predictors) =
        try_join(app.catalog_with(room.event_id.as_slice()), top_predictors).await?;
    let data = MemberStatsView {
        total_members: counts.totals.members,
        active_members: counts.active(Day::of(app.clock.now())),
        predictions_made: counts.totals.predictions,
        team_distribution: distribution(&room, &counts, &catalog),
        top_predictors,
    };
    Ok(Data { data }.into())
}

async fn top_predictors(
    app: &App,
    room: &Room,
    counts: &RoomCounts,
    blocks: &Blocks,
) -> Result<Vec<PredictorView>, Error> {
    let used = counts.shards.used(counts.totals.members, room.shards);
    // Blocked users are left out, so others follow in their place.
    let limit = MAX_PREDICTORS + blocks.len().min(MAX_LEFT_OUT);
    let mut best = app.store.standings(room, limit, &used).await?;
    best.retain(|one| !blocks.contains(one.user_id));
    best.truncate(MAX_PREDICTORS);
    let people = app.store.people(&best.iter().map(|one| one.user_id).collect::<Vec<_>>()).await?;
    let view = |one: touchline::storage::members::Standing| {
        Some(PredictorView {
            user_id: one.user_id,
            username: people.get(&one.user_id)?.username.clone(),
            correct_predictions: one.stats.correct,
            accuracy: one.stats.accuracy(),
        })
    };
    Ok(best.into_iter().filter_map(view).collect())
}

/// Counts the members by team. The teams are the two teams of the room's match or, without a match, all teams
/// that members support. Members who support none of these teams count as neutral.
fn distribution(room: &Room, counts: &RoomCounts, catalog: &Catalog) -> BTreeMap<String, i64> {
    let ids: Vec<u32> = match room.event_id.and_then(|event| catalog.event(event)) {
        Some(event) => vec![event.home_team_id, event.away_team_id],
        None => counts.teams.iter().filter(|(_, members)| **members > 0).map(|(team, _)| *team).collect(),
    };
    let teams: Vec<&Team> = ids.into_iter().filter_map(|id| catalog.team(id)).collect();
    let members = teams.iter().map(|team| counts.teams.get(&team.id).copied().unwrap_or(0));
    let mut distribution: BTreeMap<String, i64> =
        distribution_keys(&teams).into_iter().zip(members).collect();
    let supporters: i64 = distribution.values().sum();
    distribution.insert(NEUTRAL.to_owned(), counts.totals.members - supporters);
    distribution
}

#[cfg(test)]
mod tests;
