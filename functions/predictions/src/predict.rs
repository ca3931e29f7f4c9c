use lambda_http::http::StatusCode;
use touchline::api::predictions::{Predict, PredictionView};
use touchline::api::{Invalid, Message};
use touchline::domain::Pick;
use touchline::domain::catalog::{Catalog, Match, Score};
use touchline::domain::prediction::{Forecast, PredictionsClosed, ScoreContradictsPick, Stamp};
use touchline::domain::sport_rules::{Impossible, SportRules};
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
    fits_the_sport(&catalog, event, input.prediction, input.score_prediction)?;
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

/// Checks that a match of this sport can end as predicted.
fn fits_the_sport(catalog: &Catalog, event: &Match, pick: Pick, score: Option<Score>) -> Result<(), Invalid> {
    // Without a sport, the rules are those of most sports.
    let sport = catalog.sport_of(event);
    let (name, slug) = sport.map_or(("", ""), |sport| (&*sport.name, &*sport.slug));
    SportRules::of(slug).check(pick, score).map_err(|impossible| {
        let no_draws = format!("{name} has no draws.");
        match impossible {
            Impossible::DrawnPick => {
                Invalid::field("prediction", format!("{no_draws} Pick one of the teams."))
            }
            Impossible::DrawnScore => {
                Invalid::field("score_prediction", format!("{no_draws} Give one team more points."))
            }
            Impossible::TooHigh(max) => {
                Invalid::field("score_prediction", format!("Enter 0 to {max} for each team."))
            }
        }
    })
}

/// Explains that the score contradicts the pick, with the names of the teams if they are known. What the sport does not
/// allow comes first.
async fn explain(app: &App, event: u32, contradiction: ScoreContradictsPick) -> Invalid {
    let catalog = app.catalog_with(&[event]).await.ok();
    let found = catalog.as_ref().and_then(|catalog| Some((catalog, catalog.event(event)?)));
    if let Some((catalog, event)) = found
        && let Err(invalid) = fits_the_sport(catalog, event, contradiction.pick, Some(contradiction.score))
    {
        return invalid;
    }
    let name = |id: fn(&Match) -> u32| {
        let team = found.and_then(|(catalog, event)| catalog.team(id(event)));
        team.map(|team| team.name.clone())
    };
    let (home, away) = (name(|event| event.home_team_id), name(|event| event.away_team_id));
    let sentence = contradiction
        .sentence(home.as_deref().unwrap_or("the home team"), away.as_deref().unwrap_or("the away team"));
    Invalid::field("score_prediction", sentence)
}

#[cfg(test)]
mod tests;
