use futures_util::future::try_join;
use touchline::api::predictions::{
    EventCursor, EventPredictionList, EventPredictionMeta, EventPredictions, ListedPrediction,
};
use touchline::config::PicksVisible;
use touchline::storage::Reads;
use touchline::storage::predictions::{Page, Wanted};
use touchline::{App, Call, Error, Reply};

pub async fn handle(app: App, call: Call<EventPredictions>) -> Result<Reply<EventPredictionList>, Error> {
    let id = call.path_number("event").ok_or(Error::EventNotFound)?;
    let (input, caller) = (call.input, call.caller.user);
    let counts = async { app.store.event_counts(id).await.map_err(Error::from) };
    let (catalogue, counts) = try_join(app.catalogue(), counts).await?;
    let event = catalogue.event(id).ok_or(Error::EventNotFound)?;
    let after = input.cursor.map(|cursor| cursor.within(id)).transpose()?;

    let secret = app.config.picks_visible == PicksVisible::AfterStart
        && !event.has_kicked_off(app.clock.now());
    // One row at most, where somebody's own is asked for or nobody else's is shown.
    let only = match (secret, input.user_id) {
        (true, Some(user)) if user != caller => Only::Nobody,
        (true, _) => Only::User(caller),
        (false, Some(user)) => Only::User(user),
        (false, None) => Only::All,
    };
    let page = match only {
        Only::Nobody => Page::default(),
        Only::User(user) => {
            let row = app.store.prediction(id, event.shards, user, Reads::Eventual).await?;
            let wanted = |pick| input.prediction.is_none_or(|wanted| wanted == pick);
            let rows = row.into_iter().filter(|row| wanted(row.forecast.pick()));
            Page { rows: rows.filter(|_| after.is_none()).collect(), next: None }
        }
        Only::All => {
            let wanted = Wanted {
                event_id: id,
                shards: event.shards,
                pick: input.prediction,
                after,
                most: input.per_page.0,
                about: usize::try_from(counts.predictions).unwrap_or(0),
            };
            app.store.predictions_page(&wanted).await?
        }
    };
    let users: Vec<_> = page.rows.iter().map(|row| row.user_id).collect();
    let people = app.store.people(&users).await?;
    let data = ListedPrediction::all(&page.rows, &people);
    let next = page.next.map(|user| EventCursor::new(id, user));
    Ok(EventPredictionList { data, meta: EventPredictionMeta::of(&counts, next) }.into())
}

enum Only {
    All,
    User(touchline::domain::UserId),
    Nobody,
}
