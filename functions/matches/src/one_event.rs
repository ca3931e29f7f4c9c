use touchline::api::Data;
use touchline::api::matches::{EventView, OneEvent};
use touchline::{App, Call, Error, Reply};

pub async fn handle(app: App, call: Call<OneEvent>) -> Result<Reply<Data<EventView>>, Error> {
    let id = call.path_number("event").ok_or(Error::EventNotFound)?;
    let catalogue = app.catalogue().await?;
    let event = catalogue.event(id).ok_or(Error::EventNotFound)?;
    let counts = app.store.prediction_counts(&[id]).await?;
    let count = counts.get(&id).copied().unwrap_or(0);
    let data = EventView::of(event, &catalogue, count).ok_or(Error::Broken("a match without its teams"))?;
    Ok(Data { data }.into())
}
