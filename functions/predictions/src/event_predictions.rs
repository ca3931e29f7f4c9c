use futures_util::future::try_join3;
use touchline::api::Cursor;
use touchline::api::predictions::{
    AfterPredictor, EventPredictionList, EventPredictionMeta, EventPredictions, ListedPrediction,
};
use touchline::domain::tally::EventTally;
use touchline::storage::Reads;
use touchline::storage::pages::Page;
use touchline::storage::predictions::PredictionQuery;
use touchline::storage::users::StoredBlocks;
use touchline::{App, Call, Error, Reply};

pub async fn handle(app: App, call: Call<EventPredictions>) -> Result<Reply<EventPredictionList>, Error> {
    let id = call.path.event.0;
    let (input, caller) = (call.input, call.caller.user);
    let tally = async { app.store.event_tally(id).await.map_err(Error::from) };
    let blocks = async { app.store.blocks(caller, Reads::Eventual).await.map_err(Error::from) };
    let (catalog, EventTally { counts, shards }, StoredBlocks { blocks, .. }) =
        try_join3(app.checked_catalog_with(&[id]), tally, blocks).await?;
    let event = catalog.event(id).ok_or(Error::EventNotFound)?;
    let after = input.cursor.map(|cursor| cursor.position_in(id)).transpose()?.map(|after| after.0);

    let are_picks_hidden = app.config.picks_visible.hides(event, app.clock.now());
    // Lists at most one row if the caller filters by user, or if the picks of others are hidden.
    let only = match (are_picks_hidden, input.user_id) {
        (true, Some(user)) if user != caller => Only::None,
        (true, _) => Only::User(caller),
        (false, Some(user)) => Only::User(user),
        (false, None) => Only::All,
    };
    let mut page = match only {
        Only::None => Page::default(),
        Only::User(user) => {
            let row = app.store.prediction(id, event.shards, user, Reads::Eventual).await?;
            let wanted = |pick| input.prediction.is_none_or(|wanted| wanted == pick);
            let rows = row.into_iter().filter(|row| wanted(row.forecast.pick()));
            Page { rows: rows.filter(|_| after.is_none()).collect(), next: None }
        }
        Only::All => {
            let query = PredictionQuery {
                event_id: id,
                shards: event.shards,
                used: shards.used(counts.predictions, event.shards),
                pick: input.prediction,
                after,
                limit: input.per_page.0,
            };
            app.store.predictions_page(&query).await?
        }
    };
    page.rows.retain(|row| !blocks.contains(row.user_id));
    let users: Vec<_> = page.rows.iter().map(|row| row.user_id).collect();
    let people = app.store.people(&users).await?;
    let data = ListedPrediction::all(&page.rows, &people);
    let next = page.next.map(|user| Cursor::new(id, AfterPredictor(user)));
    let counts = if are_picks_hidden { counts.without_picks() } else { counts };
    Ok(EventPredictionList { data, meta: EventPredictionMeta::of(&counts, next.as_ref()) }.into())
}

/// The users whose predictions are listed.
enum Only {
    All,
    User(touchline::domain::UserId),
    None,
}

#[cfg(test)]
mod tests;
