use futures_util::future::{try_join, try_join4};
use touchline::api::Cursor;
use touchline::api::predictions::{
    AfterMember, ListedPrediction, RoomPredictionList, RoomPredictionMeta, RoomPredictions,
};
use touchline::domain::room::Member;
use touchline::flows::rooms;
use touchline::storage::Reads;
use touchline::storage::users::StoredBlocks;
use touchline::{App, Call, Error, Reply};

pub async fn handle(app: App, call: Call<RoomPredictions>) -> Result<Reply<RoomPredictionList>, Error> {
    let id = call.path.chat_room;
    let (input, caller) = (call.input, call.caller.user);
    let room = async { app.store.room(&id).await.map_err(Error::from) };
    let counts = async { app.store.room_counts(&id).await.map_err(Error::from) };
    let blocks = async { app.store.blocks(caller, Reads::Eventual).await.map_err(Error::from) };
    // Begins to load the catalog. Only the room tells which match is needed, and most are recent.
    let (_, room, mut counts, StoredBlocks { blocks, .. }) =
        try_join4(app.checked_catalog_with(&[]), room, counts, blocks).await?;
    let room = room.ok_or(Error::RoomNotFound)?;
    rooms::require_read_access(&app, &room, caller).await?;
    let catalog = app.checked_catalog_with(room.event_id.as_slice()).await?;
    let after = input.cursor.map(|cursor| cursor.position_in(id.as_str())).transpose()?.map(|after| after.0);
    let Some(event) = room.event_id.and_then(|event| catalog.event(event)) else {
        return Ok(
            RoomPredictionList { data: Vec::new(), meta: RoomPredictionMeta::of(&counts, None) }.into()
        );
    };

    let are_picks_hidden = app.config.picks_visible.hides(event, app.clock.now());
    let (users, next) = if are_picks_hidden {
        let member = app.store.member(&room, caller, Reads::Consistent).await?.filter(Member::has_joined);
        (member.filter(|_| after.is_none()).map(|member| member.user_id).into_iter().collect(), None)
    } else {
        let used = counts.shards.used(counts.totals.members, room.shards);
        let page = app.store.predictors_page(&room, after, input.per_page.0, &used).await?;
        let members = page.rows.iter().map(|member| member.user_id);
        (members.filter(|member| !blocks.contains(*member)).collect::<Vec<_>>(), page.next)
    };
    let rows = app.store.predictions_of(event.id, event.shards, &users);
    let (mut rows, people) = try_join(rows, app.store.people(&users)).await?;
    let rows: Vec<_> = users.iter().filter_map(|user| rows.remove(user)).collect();
    let data = ListedPrediction::all(&rows, &people);
    let next = next.map(|user| Cursor::new(id.as_str(), AfterMember(user)));
    if are_picks_hidden {
        counts.totals = counts.totals.without_picks();
    }
    Ok(RoomPredictionList { data, meta: RoomPredictionMeta::of(&counts, next.as_ref()) }.into())
}

#[cfg(test)]
mod tests;
