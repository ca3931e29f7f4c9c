use lambda_http::http::StatusCode;
use touchline::api::predictions::{Predict, PredictionView};
use touchline::api::{Invalid, Message};
use touchline::domain::prediction::{Closed, Forecast, Mark};
use touchline::storage::predictions::{NewPrediction, Predicted};
use touchline::{App, Call, Error, Reply};

pub async fn handle(app: App, call: Call<Predict>) -> Result<Reply<Message<PredictionView>>, Error> {
    let input = call.input;
    let forecast = Forecast::new(input.prediction, input.score_prediction)
        .map_err(|reason| Invalid::field("score_prediction", reason))?;
    let catalogue = app.catalogue().await?;
    let event = catalogue.event(input.event_id.0).ok_or(Error::EventNotFound)?;
    let now = app.clock.now();
    event.admits_predictions(now)?;

    let new = NewPrediction {
        event_id: event.id,
        shards: event.shards,
        user_id: call.caller.user,
        forecast,
        confidence: input.confidence,
        mark: Mark::new(now, app.random.number()),
    };
    let (status, message, row) = match app.store.predict(&new).await? {
        Predicted::Created(row) => (StatusCode::CREATED, "Your prediction is in.", row),
        Predicted::Updated(row) => (StatusCode::OK, "Your prediction is changed.", row),
        Predicted::Settled => return Err(Closed.into()),
    };
    let body = Message { message: message.into(), data: PredictionView::of(&row) };
    Ok(Reply { status, body })
}
