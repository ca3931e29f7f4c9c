//! What the fans predict. Pure: it depends on the fan and the match.

use std::fmt::Write as _;

use chrono::TimeDelta;
use touchline::domain::catalog::{Match, Score};
use touchline::domain::points::RULES;
use touchline::domain::prediction::{Confidence, Forecast, Stamp};
use touchline::domain::{Pick, UserId};
use touchline::storage::keys;

use super::fans::Fan;
use crate::demo;
use crate::draw::draw;

/// Salts: one for each property of a prediction. A fan's salts for a match begin at ten times the fan's number.
const TAKES_PART: u32 = 0;
const FORESEES: u32 = 1;
const PICK: u32 = 2;
const HAS_SCORE: u32 = 3;
const GOALS: u32 = 4;
const MORE_GOALS: u32 = 5;
const SURE: u32 = 6;
const MINUTES: u32 = 7;

/// Every fan predicts at least this long before the kick-off. So the matches of the next two days always have their
/// predictions.
pub(super) const AHEAD: TimeDelta = TimeDelta::days(2);

/// The prediction of a fan for a match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Guess {
    pub(super) forecast: Forecast,
    pub(super) confidence: Confidence,
    pub(super) stamp: Stamp,
}

/// Returns what a fan predicts. `None` if the fan does not predict the match. Fans predict more matches of a featured
/// tournament.
pub(super) fn guess(fan: Fan, event: &Match, is_featured: bool) -> Option<Guess> {
    let drawn = |salt: u32| draw(event.id, fan.0 * 10 + salt);
    let activity = if is_featured { fan.activity() } else { fan.activity() / 3 };
    if drawn(TAKES_PART) % 100 >= activity {
        return None;
    }
    // A match that has not been played has no result to foresee, but a favourite.
    let (home, away) = (draw(event.id, u32::MAX) % 4, draw(event.id, u32::MAX - 1) % 3);
    let favourite = match home.cmp(&away) {
        std::cmp::Ordering::Less => Pick::Away,
        std::cmp::Ordering::Equal => Pick::Draw,
        std::cmp::Ordering::Greater => Pick::Home,
    };
    let result = event.score.filter(|_| event.result().is_some());
    let is_foreseen = drawn(FORESEES) % 100 < fan.skill();
    let pick = match (result, drawn(PICK) % 100) {
        (Some(result), _) if is_foreseen => Pick::of(result),
        (_, 0..22) => favourite,
        (_, 22..56) => Pick::Home,
        (_, 56..78) => Pick::Draw,
        _ => Pick::Away,
    };
    let score = (drawn(HAS_SCORE) % 100 < 70).then(|| {
        let exact = result.filter(|_| is_foreseen && drawn(HAS_SCORE) % 100 < 25);
        let less = u16::try_from(drawn(GOALS) % 2).unwrap_or_default();
        let more = less + 1 + u16::try_from(drawn(MORE_GOALS) % 2).unwrap_or_default();
        exact.unwrap_or(match pick {
            Pick::Home => Score { home: more, away: less },
            Pick::Draw => Score { home: less, away: less },
            Pick::Away => Score { home: less, away: more },
        })
    });
    let minutes = i64::from(drawn(MINUTES) % (23 * 60)) + 30;
    Some(Guess {
        forecast: Forecast::new(pick, score).ok()?,
        confidence: Confidence::new(i64::from(30 + 5 * (drawn(SURE) % 14))).ok()?,
        stamp: Stamp::new(event.start - AHEAD - TimeDelta::minutes(minutes), drawn(MINUTES)),
    })
}

/// Returns the `PartiQL` statement that inserts a prediction, unless the user has predicted the match. If the match
/// is over, the prediction has its points.
pub(super) fn insert_statement(table: &str, event: &Match, user: UserId, guess: &Guess) -> String {
    let Guess { forecast, confidence, stamp } = guess;
    let key = keys::prediction(event.id, event.shards, user);
    let mut row = format!(
        "'pk':'{}','sk':'{}','event_id':{},'user_id':{user},'pick':'{}','confidence':{},'created':'{}','changed':'{}','edits':1",
        key.pk,
        key.sk,
        event.id,
        forecast.pick().as_str(),
        confidence.percent(),
        stamp.as_str(),
        stamp.as_str(),
    );
    if let Some(score) = forecast.score() {
        let _ = write!(row, ",'home':{},'away':{}", score.home, score.away);
    }
    match event.result() {
        Some(result) => {
            let _ = write!(
                row,
                ",'points':{},'revision':{},'tournament':{},'kick_off':{},'settled_at':{}",
                RULES.points(forecast, result),
                event.revision,
                event.tournament_id,
                event.start.timestamp(),
                (event.start + demo::LENGTH).timestamp(),
            );
        }
        None => row.push_str(",'revision':0"),
    }
    format!("INSERT INTO \"{table}\" VALUE {{{row}}}")
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use aws_sdk_dynamodb::Client;
    use aws_sdk_dynamodb::types::AttributeValue;
    use clap::Parser as _;
    use touchline::config::Config;
    use touchline::domain::catalog::{Key, Status};
    use touchline::domain::prediction::SettledIn;
    use touchline::storage::Store;
    use touchline::storage::predictions::{NewPrediction, Predicted};
    use touchline::storage::settlements::Award;
    use touchline_stack::{EmbeddedStore, direct, tables};

    use super::*;
    use crate::crowd::fans;
    use crate::options::Options;
    use crate::settings;

    fn event(status: Status) -> Match {
        let start = "2026-11-14T18:00:00Z".parse().unwrap();
        Match {
            id: 1_003_815,
            tournament_id: 1_000_001,
            home_team_id: 1_000_001,
            away_team_id: 1_000_002,
            start,
            status,
            venue: None,
            score: (status == Status::Finished).then_some(Score { home: 2, away: 1 }),
            room: "!room:example.org".into(),
            room_name_hash: 0,
            shards: 4,
            pause: None,
            revision: 1,
            key: Key(1),
            as_of: start,
        }
    }

    #[test]
    fn fans_predict_before_the_kick_off_and_differ() {
        for status in [Status::Scheduled, Status::Finished] {
            let event = event(status);
            let guesses: Vec<Guess> = fans::all().filter_map(|fan| guess(fan, &event, true)).collect();
            assert!((30..80).contains(&guesses.len()), "{}", guesses.len());
            for pick in [Pick::Home, Pick::Draw, Pick::Away] {
                assert!(guesses.iter().any(|guess| guess.forecast.pick() == pick), "{pick:?}");
            }
            assert!(guesses.iter().all(|guess| guess.stamp.time().unwrap() <= event.start - AHEAD));
            assert_eq!(guess(fans::Fan(7), &event, true), guess(fans::Fan(7), &event, true));
        }
    }

    async fn stored(client: &Client, table: &str, key: &keys::Key) -> HashMap<String, AttributeValue> {
        let [pk, sk] = [&key.pk, &key.sk].map(|part| AttributeValue::S(part.clone()));
        let get = client.get_item().table_name(table).key("pk", pk).key("sk", sk);
        get.send().await.unwrap().item.unwrap_or_default()
    }

    /// The crowd writes predictions in batches. They must not differ from what the functions store.
    #[tokio::test]
    async fn an_inserted_prediction_is_the_item_that_the_product_stores() {
        let embedded = EmbeddedStore::open(None).unwrap();
        let options = Options::parse_from(["touchline"]);
        let stack = settings::read_stack(&options, None).unwrap();
        let variables =
            settings::environment(&stack.functions[0].environment, direct::ENDPOINT, &options, None);
        let config = Config::read(|name| variables.get(name).cloned()).unwrap();
        let client = touchline::storage::connect(&config.aws, embedded.http_client());
        tables::create(&client, &stack.tables).await.unwrap();
        let store = Store::new(client.clone(), config.tables.clone());
        let table = &config.tables.predictions;
        for (user, status) in [(UserId(7), Status::Scheduled), (UserId(8), Status::Finished)] {
            let event = event(status);
            let guess = fans::all().find_map(|fan| guess(fan, &event, true)).unwrap();
            let new = NewPrediction {
                event_id: event.id,
                shards: event.shards,
                user_id: user,
                forecast: guess.forecast,
                confidence: guess.confidence,
                stamp: guess.stamp.clone(),
            };
            let Predicted::Created(row) = store.predict(&new).await.unwrap() else { panic!("a new row") };
            if let Some(result) = event.result() {
                let settled_in = SettledIn {
                    tournament: event.tournament_id,
                    kick_off: event.start,
                    at: event.start + demo::LENGTH,
                };
                let award = Award { points: Some(RULES.points(&guess.forecast, result)), row };
                store.award(event.shards, event.revision, &settled_in, &[award]).await.unwrap();
            }
            let key = keys::prediction(event.id, event.shards, user);
            let expected = stored(&client, table, &key).await;
            let delete = client.delete_item().table_name(table);
            let delete = delete.key("pk", expected["pk"].clone()).key("sk", expected["sk"].clone());
            delete.send().await.unwrap();
            let statement = insert_statement(table, &event, user, &guess);
            client.execute_statement().statement(statement).send().await.unwrap();
            assert_eq!(stored(&client, table, &key).await, expected, "{status:?}");
        }
        embedded.stop().await;
    }
}
