//! Calculates points after matches, on a schedule or for one match that is named.

mod settle;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use touchline::App;
use touchline::storage::StoreError;

use settle::settle;

/// What is asked for: everything that is due, or one match.
#[derive(Debug, Default, Deserialize)]
struct Order {
    event_id: Option<u32>,
    /// Goes through the rows once more, for those that came in too late for the first time.
    #[serde(default)]
    again: bool,
}

/// What became of one match.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Settled {
    pub event_id: u32,
    pub revision: u32,
    /// How many predictions have their points under this revision, in this run and those before it.
    pub scored: u64,
    /// `false` where the time was up; the next run goes on.
    pub finished: bool,
}

#[derive(Debug, Default, Serialize)]
struct Report {
    matches: Vec<Settled>,
}

#[derive(Debug, thiserror::Error)]
pub enum PointsError {
    #[error("the payload must be {{}} or {{\"event_id\": n}}: {0}")]
    BadOrder(String),
    #[error("points could not be calculated for {0:?}; the log says why")]
    Failed(Vec<u32>),
    #[error("there is no match {0}")]
    UnknownEvent(u32),
    #[error("the store failed: {0}")]
    Store(#[from] StoreError),
}

/// A request that decided to write just before the result came may still be at it: a scheduled run waits
/// until it must be over. The import publishes within seconds, catalogs are a second old or whatever is
/// configured, and requests end after 10 seconds at the latest.
const SETTLING: TimeDelta = TimeDelta::seconds(20);

/// Work that was begun gets this long to end, before Lambda ends everything.
const RESERVE: TimeDelta = TimeDelta::seconds(20);

/// One invocation. `deadline` is when its time is up.
pub async fn handle(app: App, event: Value, deadline: DateTime<Utc>) -> Result<Value, PointsError> {
    let order: Order =
        serde_json::from_value(event).map_err(|error| PointsError::BadOrder(error.to_string()))?;
    let until = deadline - RESERVE;
    let settling = SETTLING + app.config.catalog_max_age;
    let mut report = Report::default();
    let mut failed = Vec::new();
    match order.event_id {
        Some(event) => {
            let settled = settle(&app, event, order.again, until).await?;
            report.matches.push(settled.ok_or(PointsError::UnknownEvent(event))?);
        }
        None => {
            for due in app.store.due().await? {
                let now = app.clock.now();
                if now >= until {
                    break;
                }
                if due.since + settling > now {
                    continue;
                }
                match settle(&app, due.event_id, false, until).await {
                    Ok(Some(settled)) if settled.revision >= due.revision => report.matches.push(settled),
                    // The import that noted it died before it wrote the result, or is at it right now.
                    Ok(_) => tracing::warn!(event = due.event_id, "a result is due that is not there yet"),
                    // One match that cannot be settled does not keep the others from it.
                    Err(error) => {
                        tracing::error!(event = due.event_id, %error, "points could not be calculated");
                        failed.push(due.event_id);
                    }
                }
            }
        }
    }
    for settled in &report.matches {
        let Settled { event_id, revision, scored, finished } = settled;
        tracing::info!(event_id, revision, scored, finished, "points");
    }
    // Told as an error, so that the alarm rings.
    if failed.is_empty() {
        Ok(serde_json::to_value(report).unwrap_or_default())
    } else {
        Err(PointsError::Failed(failed))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use chrono::TimeDelta;
    use serde_json::{Value, json};
    use touchline::App;
    use touchline::domain::UserId;
    use touchline::domain::catalog::Score;
    use touchline::domain::prediction::{Confidence, Forecast, Pick, Stamp};
    use touchline::domain::tally::UserRecord;
    use touchline::storage::Reads;
    use touchline::storage::predictions::{NewPrediction, Predicted};
    use touchline::storage::settlements::Award;
    use touchline_testing::{Fault, TestApp, at_once};

    use super::PointsError;

    const EVENT: u32 = 9;
    const SHARDS: u8 = 4;

    type Guess = (Pick, Option<(u16, u16)>);

    /// Who predicts what, from user 1 on; and what it earns for 2-1 and for 1-1.
    const GUESSES: [(Guess, u32, u32); 8] = [
        ((Pick::Home, Some((2, 1))), 4, 0),
        ((Pick::Home, Some((3, 2))), 3, 0),
        ((Pick::Home, Some((2, 0))), 2, 0),
        ((Pick::Home, None), 2, 0),
        ((Pick::Draw, Some((1, 1))), 0, 4),
        ((Pick::Draw, Some((0, 0))), 0, 2),
        ((Pick::Draw, None), 0, 2),
        ((Pick::Away, Some((0, 3))), 0, 0),
    ];

    /// Each guess by several users, so that shards have several pages.
    const USERS: u32 = 24;

    fn guess(user: u32) -> (Guess, u32, u32) {
        GUESSES[(user as usize - 1) % GUESSES.len()]
    }

    async fn app() -> TestApp {
        let app = TestApp::serving(&[]).start().await;
        import(
            &app,
            json!({
                "format": "touchline",
                "sports": [{ "id": 1, "name": "Football" }],
                "tournaments": [{ "id": 1, "name": "Harbour League" }],
                "teams": [
                    { "id": 1, "name": "Northgate Rovers", "sport_id": 1 },
                    { "id": 2, "name": "Westport Albion", "sport_id": 1 },
                ],
            }),
        )
        .await;
        event(&app, "scheduled", None).await;
        for user in 1..=USERS {
            assert!(matches!(predict(&app, user, guess(user).0).await, Predicted::Created(_)));
        }
        app
    }

    async fn import(app: &TestApp, document: Value) {
        let report = feed::handle(app.app.clone(), document).await.unwrap();
        assert_eq!(report["rejected"], 0, "{report}");
        app.clock.advance(TimeDelta::seconds(1));
    }

    async fn event(app: &TestApp, status: &str, score: Option<(u16, u16)>) {
        let event = json!({
            "id": EVENT, "tournament_id": 1, "home_team_id": 1, "away_team_id": 2,
            "start_time": "2026-11-15T15:00:00Z", "status": status,
            "home_score": score.map(|score| score.0), "away_score": score.map(|score| score.1),
        });
        import(app, json!({ "format": "touchline", "events": [event] })).await;
    }

    async fn predict(app: &TestApp, user: u32, (pick, score): Guess) -> Predicted {
        let score = score.map(|(home, away)| Score { home, away });
        let new = NewPrediction {
            event_id: EVENT,
            shards: SHARDS,
            user_id: UserId(user),
            forecast: Forecast::new(pick, score).unwrap(),
            confidence: Confidence::default(),
            stamp: Stamp::new(app.app.clock.now(), user),
        };
        app.app.store.predict(&new).await.unwrap()
    }

    async fn try_run(app: &App, order: Value) -> Result<Value, PointsError> {
        super::handle(app.clone(), order, app.clock.now() + TimeDelta::minutes(5)).await
    }

    async fn run(app: &TestApp, order: Value) -> Value {
        try_run(&app.app, order).await.unwrap()
    }

    /// What a run for the match answers.
    fn settled(revision: u32) -> Value {
        json!({ "matches": [{ "event_id": EVENT, "revision": revision, "scored": USERS, "finished": true }] })
    }

    async fn points(app: &TestApp) -> Vec<Option<u32>> {
        let mut points = Vec::new();
        for user in 1..=USERS {
            let row = app.app.store.prediction(EVENT, SHARDS, UserId(user), Reads::Consistent).await;
            points.push(row.unwrap().unwrap().points);
        }
        points
    }

    /// Every user's record, after `tally` has seen every change there ever was.
    async fn records(app: &TestApp) -> Vec<UserRecord> {
        let changes = app.changes(&app.app.config.tables.predictions).await;
        let answer = tally::handle(app.app.clone(), changes).await.unwrap();
        assert_eq!(answer["batchItemFailures"], json!([]));
        let mut records = Vec::new();
        for user in 1..=USERS {
            records.push(app.app.store.user_record(UserId(user)).await.unwrap());
        }
        records
    }

    async fn assert_points(app: &TestApp, of: impl Fn(u32) -> Option<u32>) {
        let expected: Vec<_> = (1..=USERS).map(&of).collect();
        assert_eq!(points(app).await, expected);
        let record = |points: Option<u32>| match points {
            None => UserRecord::default(),
            Some(points) => {
                UserRecord { settled: 1, correct: i64::from(points > 0), points: i64::from(points) }
            }
        };
        let expected: Vec<_> = expected.into_iter().map(record).collect();
        assert_eq!(records(app).await, expected);
    }

    /// What each user earns.
    type Points = fn(u32) -> Option<u32>;

    const FOR_TWO_ONE: Points = |user| Some(guess(user).1);
    const FOR_ONE_ONE: Points = |user| Some(guess(user).2);

    #[tokio::test]
    async fn a_result_gives_points_and_a_correction_moves_exactly_the_right_people() {
        let app = app().await;
        assert_points(&app, |_| None).await;
        event(&app, "finished", Some((2, 1))).await;
        app.clock.advance(TimeDelta::seconds(21));
        assert_eq!(run(&app, json!({})).await, settled(1));
        assert_points(&app, FOR_TWO_ONE).await;
        assert_eq!(run(&app, json!({})).await, json!({ "matches": [] }), "nothing is due any more");

        event(&app, "finished", Some((1, 1))).await;
        app.clock.advance(TimeDelta::seconds(21));
        assert_eq!(run(&app, json!({})).await, settled(2));
        assert_points(&app, FOR_ONE_ONE).await;
    }

    #[tokio::test]
    async fn a_void_match_takes_its_points_back_and_a_replayed_one_gives_new_ones() {
        let app = app().await;
        event(&app, "finished", Some((2, 1))).await;
        assert_eq!(run(&app, json!({ "event_id": EVENT })).await, settled(1));
        for (status, revision) in [("awarded", 2), ("finished", 3), ("abandoned", 4), ("scheduled", 5)] {
            let score = (status == "finished").then_some((1, 1));
            event(&app, status, score).await;
            assert_eq!(run(&app, json!({ "event_id": EVENT })).await, settled(revision), "{status}");
            assert_points(&app, |user| score.and_then(|_| FOR_ONE_ONE(user))).await;
        }
        // It is open again: users may change their minds, and the next result counts.
        assert!(matches!(predict(&app, 1, (Pick::Away, None)).await, Predicted::Updated(_)));
        event(&app, "finished", Some((0, 1))).await;
        run(&app, json!({ "event_id": EVENT })).await;
        assert_eq!(points(&app).await[0], Some(2));
    }

    #[tokio::test]
    async fn postponing_changes_no_points() {
        let app = app().await;
        event(&app, "postponed", None).await;
        app.clock.advance(TimeDelta::minutes(1));
        assert_eq!(run(&app, json!({})).await, json!({ "matches": [] }));
        let nothing = json!({ "matches": [
            { "event_id": EVENT, "revision": 0, "scored": 0, "finished": true }
        ] });
        assert_eq!(run(&app, json!({ "event_id": EVENT })).await, nothing);
        assert_points(&app, |_| None).await;
    }

    /// A late write may be under way for a moment after the result: a scheduled run waits for it.
    #[tokio::test]
    async fn a_scheduled_run_leaves_a_fresh_result_alone() {
        let app = app().await;
        event(&app, "finished", Some((2, 1))).await;
        assert_eq!(run(&app, json!({})).await, json!({ "matches": [] }));
        app.clock.advance(TimeDelta::seconds(20));
        assert_eq!(run(&app, json!({})).await, settled(1));
    }

    #[tokio::test]
    async fn whoever_has_points_cannot_change_the_prediction() {
        let app = app().await;
        event(&app, "finished", Some((2, 1))).await;
        run(&app, json!({ "event_id": EVENT })).await;
        assert_eq!(predict(&app, 8, (Pick::Home, Some((2, 1)))).await, Predicted::Settled);
        assert_points(&app, FOR_TWO_ONE).await;
    }

    /// One that slipped in behind the settlement is found by going through the rows once more.
    #[tokio::test]
    async fn going_again_finds_rows_that_came_too_late() {
        let app = app().await;
        event(&app, "finished", Some((2, 1))).await;
        run(&app, json!({ "event_id": EVENT })).await;
        let late = USERS + 1;
        assert!(matches!(predict(&app, late, (Pick::Home, None)).await, Predicted::Created(_)));
        run(&app, json!({ "event_id": EVENT })).await;
        let row = async || {
            let row = app.app.store.prediction(EVENT, SHARDS, UserId(late), Reads::Consistent).await;
            row.unwrap().unwrap().points
        };
        assert_eq!(row().await, None);
        let answer = run(&app, json!({ "event_id": EVENT, "again": true })).await;
        assert_eq!(answer["matches"][0]["scored"], USERS + 1);
        assert_eq!(row().await, Some(2));
        assert_points(&app, FOR_TWO_ONE).await;
    }

    /// Dies before each of its writes in turn; whatever it has done by then is not done twice.
    #[tokio::test]
    async fn dying_between_any_two_writes_changes_nothing_in_the_end() {
        for correction in [false, true] {
            let mut steps = 0;
            loop {
                let app = app().await;
                event(&app, "finished", Some((2, 1))).await;
                if correction {
                    run(&app, json!({ "event_id": EVENT })).await;
                    event(&app, "finished", Some((1, 1))).await;
                }
                app.clock.advance(TimeDelta::seconds(21));
                let writes = AtomicU32::new(0);
                app.faults.set(move |attempt| {
                    let writes_rows = matches!(
                        attempt.operation,
                        "PutItem" | "UpdateItem" | "DeleteItem" | "BatchExecuteStatement"
                    );
                    if writes_rows && writes.fetch_add(1, Ordering::Relaxed) >= steps {
                        Fault::Refuse
                    } else {
                        Fault::None
                    }
                });
                // A run that dies is one that loses every write from here on.
                let finished = try_run(&app.app, json!({ "event_id": EVENT })).await.is_ok();
                app.faults.clear();
                // `tally` may well see what there is half-way.
                records(&app).await;
                let revision = 1 + u32::from(correction);
                let answer = run(&app, json!({})).await;
                if !finished {
                    assert_eq!(answer, settled(revision), "after {steps} writes");
                }
                assert_points(&app, if correction { FOR_ONE_ONE } else { FOR_TWO_ONE }).await;
                assert_eq!(run(&app, json!({})).await, json!({ "matches": [] }), "after {steps} writes");
                if finished {
                    break;
                }
                steps += 1;
            }
            assert!(steps > 16, "{steps} writes");
        }
    }

    /// The time is up after every page; each run goes on where the last one was.
    #[tokio::test]
    async fn a_run_stops_in_time_and_the_next_goes_on() {
        let app = app().await;
        event(&app, "finished", Some((2, 1))).await;
        app.clock.advance(TimeDelta::seconds(21));
        let mut runs = 0;
        loop {
            // Every read takes ten seconds; forty are left.
            let clock = Arc::clone(&app.clock);
            app.faults.set(move |attempt| {
                if attempt.operation == "Query" {
                    clock.advance(TimeDelta::seconds(10));
                }
                Fault::None
            });
            let deadline = app.app.clock.now() + TimeDelta::seconds(60);
            let answer = super::handle(app.app.clone(), json!({}), deadline).await.unwrap();
            app.faults.clear();
            runs += 1;
            assert!(runs < 20, "they get nowhere: {answer}");
            if answer["matches"][0]["finished"] == true {
                assert_eq!(answer, settled(1));
                break;
            }
        }
        assert!(runs > 2, "{runs} runs");
        assert_points(&app, FOR_TWO_ONE).await;
        assert_eq!(run(&app, json!({})).await, json!({ "matches": [] }));
    }

    #[tokio::test]
    async fn writes_that_arrive_twice_or_are_throttled_change_nothing() {
        for fault in [Fault::LoseReply, Fault::Throttle] {
            let app = app().await;
            event(&app, "finished", Some((2, 1))).await;
            app.faults.first_attempts(fault);
            assert_eq!(run(&app, json!({ "event_id": EVENT })).await, settled(1));
            app.faults.clear();
            assert_points(&app, FOR_TWO_ONE).await;
        }
    }

    /// One batch is refused for once, while everything else goes well: its page is not done.
    #[tokio::test]
    async fn a_batch_that_failed_is_not_passed_over() {
        let app = app().await;
        event(&app, "finished", Some((2, 1))).await;
        let mut refused = false;
        app.faults.set(move |attempt| {
            let first = attempt.operation == "BatchExecuteStatement" && !refused;
            refused |= first;
            if first { Fault::Refuse } else { Fault::None }
        });
        assert!(try_run(&app.app, json!({ "event_id": EVENT })).await.is_err());
        app.faults.clear();
        assert_eq!(run(&app, json!({ "event_id": EVENT })).await, settled(1));
        assert_points(&app, FOR_TWO_ONE).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn runs_at_once_and_a_correction_among_them_end_in_the_last_result() {
        let app = Arc::new(app().await);
        event(&app, "finished", Some((2, 1))).await;
        at_once(12, |n| {
            let app = Arc::clone(&app);
            async move {
                if n == 5 {
                    event(&app, "finished", Some((1, 1))).await;
                }
                run(&app, json!({ "event_id": EVENT })).await;
            }
        })
        .await;
        // Those that saw the first result may have been the last to begin, but not to be right.
        app.clock.advance(TimeDelta::seconds(21));
        run(&app, json!({})).await;
        assert_points(&app, FOR_ONE_ONE).await;
    }

    /// A run that read its rows before a correction, and writes after it.
    #[tokio::test]
    async fn an_overtaken_run_writes_nothing_over_newer_points() {
        let app = app().await;
        event(&app, "finished", Some((2, 1))).await;
        let store = &app.app.store;
        let row = store.prediction(EVENT, SHARDS, UserId(1), Reads::Consistent).await.unwrap().unwrap();
        let stale = Award { row, points: Some(4) };
        event(&app, "finished", Some((1, 1))).await;
        run(&app, json!({ "event_id": EVENT })).await;
        let changed = store.award(SHARDS, 1, &[stale]).await.unwrap();
        assert_eq!((changed[0].points, changed[0].revision), (Some(0), 2));
        assert_points(&app, FOR_ONE_ONE).await;
    }

    /// A row that its user changed between the look at it and the write is calculated from what it is now.
    #[tokio::test]
    async fn a_row_that_changed_meanwhile_is_not_written() {
        let app = app().await;
        event(&app, "finished", Some((2, 1))).await;
        let store = &app.app.store;
        let row = store.prediction(EVENT, SHARDS, UserId(8), Reads::Consistent).await.unwrap().unwrap();
        let stale = Award { row, points: Some(0) };
        predict(&app, 8, (Pick::Home, Some((2, 1)))).await;
        let changed = store.award(SHARDS, 1, &[stale]).await.unwrap();
        assert_eq!((changed[0].points, changed[0].revision), (None, 0));
        run(&app, json!({ "event_id": EVENT })).await;
        assert_eq!(points(&app).await[7], Some(4));
    }

    #[tokio::test]
    async fn one_match_that_fails_does_not_keep_the_others_waiting() {
        let app = app().await;
        event(&app, "finished", Some((2, 1))).await;
        // A note without its match: the import that wrote it died.
        let due = touchline::storage::settlements::Due {
            event_id: 7,
            revision: 1,
            since: app.app.clock.now() - TimeDelta::hours(1),
        };
        app.app.store.put_due(&due).await.unwrap();
        app.clock.advance(TimeDelta::seconds(21));
        assert_eq!(run(&app, json!({})).await, settled(1));
        assert_eq!(app.app.store.due().await.unwrap(), [due]);
    }

    #[tokio::test]
    async fn orders_that_make_no_sense_are_refused() {
        let app = TestApp::serving(&[]).start().await;
        for order in [json!({ "event_id": "9" }), json!({ "event_id": -1 }), json!([]), json!("x")] {
            let error = try_run(&app.app, order).await.unwrap_err().to_string();
            assert!(error.contains("{\"event_id\": n}"), "{error}");
        }
        let error = try_run(&app.app, json!({ "event_id": 404 })).await.unwrap_err();
        assert_eq!(error.to_string(), "there is no match 404");
    }
}
