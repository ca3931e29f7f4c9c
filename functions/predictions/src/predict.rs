use lambda_http::http::StatusCode;
use touchline::api::predictions::{Predict, PredictionView};
use touchline::api::{Invalid, Message};
use touchline::domain::prediction::{Forecast, PredictionsClosed, ScoreContradictsPick, Stamp};
use touchline::storage::predictions::{NewPrediction, Predicted};
use touchline::{App, Call, Error, Reply};

pub async fn handle(app: App, call: Call<Predict>) -> Result<Reply<Message<PredictionView>>, Error> {
    let input = call.input;
    let forecast = match Forecast::new(input.prediction, input.score_prediction) {
        Ok(forecast) => forecast,
        Err(contradiction) => return Err(explain(&app, input.event_id.0, contradiction).await.into()),
    };
    // With an old catalog, the function could reject a prediction for a match that was moved to a later time. Or it could
    // store one after the points were awarded, which would never get points.
    let catalog = app.checked_catalog_with(&[input.event_id.0]).await?;
    let event = catalog.event(input.event_id.0).ok_or(Error::EventNotFound)?;
    let now = app.clock.now();
    event.admits_predictions(now)?;
    if event.pause.is_some() {
        return Err(Error::PredictionsPaused);
    }

    let new = NewPrediction {
        event_id: event.id,
        shards: event.shards,
        user_id: call.caller.user,
        forecast,
        confidence: input.confidence,
        stamp: Stamp::new(now, app.random.number()),
    };
    let (status, message, row) = match app.store.predict(&new).await? {
        Predicted::Created(row) => (StatusCode::CREATED, "Prediction saved.", row),
        Predicted::Updated(row) => (StatusCode::OK, "Prediction updated.", row),
        Predicted::Superseded(row) => {
            (StatusCode::OK, "You predicted again, and the later prediction counts.", row)
        }
        Predicted::Settled => return Err(PredictionsClosed.into()),
    };
    let body = Message { message: message.into(), data: PredictionView::of(&row) };
    Ok(Reply::new(status, body))
}

/// Explains that the score contradicts the pick, with the names of the teams if they are known.
async fn explain(app: &App, event: u32, contradiction: ScoreContradictsPick) -> Invalid {
    let catalog = app.catalog_with(&[event]).await.ok();
    let event = catalog.as_ref().and_then(|catalog| catalog.event(event));
    let name = |team: Option<u32>| catalog.as_ref()?.team(team?).map(|team| team.name.clone());
    let home = name(event.map(|event| event.home_team_id));
    let away = name(event.map(|event| event.away_team_id));
    let sentence = contradiction
        .sentence(home.as_deref().unwrap_or("the home team"), away.as_deref().unwrap_or("the away team"));
    Invalid::field("score_prediction", sentence)
}

#[cfg(test)]
mod tests;
