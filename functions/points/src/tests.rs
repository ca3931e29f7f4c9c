use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use chrono::TimeDelta;
use serde_json::{Value, json};
use touchline::App;
use touchline::domain::UserId;
use touchline::domain::catalog::{Match, Score};
use touchline::domain::points::RULES;
use touchline::domain::prediction::{Confidence, Forecast, Pick, SettledIn, Stamp};
use touchline::domain::tally::UserStats;
use touchline::storage::Reads;
use touchline::storage::predictions::{NewPrediction, Predicted};
use touchline::storage::settlements::{Award, Due, Progress};
use touchline_testing::{Fault, TestApp, concurrently};

use crate::PointsError;
use crate::pace::{Pace, Rate};
use crate::settle::award;

const EVENT: u32 = 9;
const SHARDS: u8 = 4;

type Guess = (Pick, Option<(u16, u16)>);

/// Each guess, with its points if the match ends 2-1 and its points if the match ends 1-1. Each user makes one
/// guess: users 1 to 8 make these guesses in order, users 9 to 16 make the same guesses, and so on.
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

/// Several users make each guess, so that a shard has several pages.
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
    change_match(&app, "scheduled", None).await;
    for user in 1..=USERS {
        assert!(matches!(predict(&app, user, guess(user).0).await, Predicted::Created(_)));
    }
    app
}

async fn import(app: &TestApp, document: Value) {
    let report = app.invoke(feed::handle, document).await;
    assert_eq!(report["rejected"], 0, "{report}");
    app.clock.advance(TimeDelta::seconds(1));
}

async fn change_match(app: &TestApp, status: &str, score: Option<(u16, u16)>) {
    change_match_and_start(app, status, score, "2026-11-15T15:00:00Z").await;
}

async fn change_match_and_start(app: &TestApp, status: &str, score: Option<(u16, u16)>, start: &str) {
    let event = json!({
        "id": EVENT, "tournament_id": 1, "home_team_id": 1, "away_team_id": 2,
        "start_time": start, "status": status,
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
        stamp: Stamp::new(app.clock.now(), user),
    };
    app.store.predict(&new).await.unwrap()
}

fn settled_in(app: &TestApp) -> SettledIn {
    SettledIn { tournament: 1, kick_off: app.clock.now(), at: app.clock.now() }
}

/// Runs `points` for all matches that wait for points.
async fn run(app: &TestApp) -> Value {
    app.invoke(crate::handle, json!({})).await
}

/// Runs `points` only for the match `EVENT`.
async fn run_for_match(app: &TestApp) -> Value {
    try_run_for_match(app).await.unwrap()
}

async fn try_run_for_match(app: &TestApp) -> Result<Value, PointsError> {
    app.try_invoke(crate::handle, json!({ "event_id": EVENT })).await
}

/// Returns the expected response of a run that settles the match.
fn settled(revision: u32) -> Value {
    json!({ "matches": [{ "event_id": EVENT, "revision": revision, "scored": USERS, "finished": true }] })
}

async fn points(app: &TestApp) -> Vec<Option<u32>> {
    let mut points = Vec::new();
    for user in 1..=USERS {
        let row = app.store.prediction(EVENT, SHARDS, UserId(user), Reads::Consistent).await;
        points.push(row.unwrap().unwrap().points);
    }
    points
}

/// Returns every user's statistics, after `tally` has processed all changes.
async fn statistics(app: &TestApp) -> Vec<UserStats> {
    let changes = app.changes(&app.config.tables.predictions).await;
    let report = app.invoke(tally::handle, changes).await;
    assert_eq!(report["batchItemFailures"], json!([]));
    let mut statistics = Vec::new();
    for user in 1..=USERS {
        statistics.push(app.store.user_stats(UserId(user)).await.unwrap());
    }
    statistics
}

/// Checks the points of every prediction and the statistics of every user.
async fn assert_points(app: &TestApp, of: impl Fn(u32) -> Option<u32>) {
    let expected: Vec<_> = (1..=USERS).map(&of).collect();
    assert_eq!(points(app).await, expected);
    let stats = |points: Option<u32>| match points {
        None => UserStats::default(),
        Some(points) => UserStats {
            settled: 1,
            correct: i64::from(points > 0),
            points: i64::from(points),
            exact: i64::from(points == 4),
        },
    };
    let expected: Vec<_> = expected.into_iter().map(stats).collect();
    assert_eq!(statistics(app).await, expected);
}

/// The expected points of each user.
type Points = fn(u32) -> Option<u32>;

const FOR_TWO_ONE: Points = |user| Some(guess(user).1);
const FOR_ONE_ONE: Points = |user| Some(guess(user).2);

#[tokio::test(start_paused = true)]
async fn a_result_awards_points_and_a_corrected_result_replaces_them() {
    let app = app().await;
    assert_points(&app, |_| None).await;
    change_match(&app, "finished", Some((2, 1))).await;
    app.clock.advance(TimeDelta::seconds(21));
    assert_eq!(run(&app).await, settled(1));
    assert_points(&app, FOR_TWO_ONE).await;
    assert_eq!(run(&app).await, json!({ "matches": [] }), "no match waits for points any more");

    change_match(&app, "finished", Some((1, 1))).await;
    app.clock.advance(TimeDelta::seconds(21));
    assert_eq!(run(&app).await, settled(2));
    assert_points(&app, FOR_ONE_ONE).await;
}

#[tokio::test(start_paused = true)]
async fn voiding_a_match_removes_its_points_and_a_new_result_awards_new_points() {
    let app = app().await;
    change_match(&app, "finished", Some((2, 1))).await;
    assert_eq!(run_for_match(&app).await, settled(1));
    for (status, revision) in [("awarded", 2), ("finished", 3), ("abandoned", 4), ("scheduled", 5)] {
        let score = (status == "finished").then_some((1, 1));
        change_match(&app, status, score).await;
        assert_eq!(run_for_match(&app).await, settled(revision), "{status}");
        assert_points(&app, |user| score.and_then(|_| FOR_ONE_ONE(user))).await;
    }
    // The result is withdrawn. A prediction that was delayed is stored, and the next result counts.
    assert!(matches!(predict(&app, 1, (Pick::Away, None)).await, Predicted::Updated(_)));
    change_match(&app, "finished", Some((0, 1))).await;
    run_for_match(&app).await;
    assert_eq!(points(&app).await[0], Some(2));
}

#[tokio::test(start_paused = true)]
async fn predictions_that_were_changed_after_a_corrected_kick_off_earn_no_points() {
    let app = app().await;
    app.clock.advance(TimeDelta::hours(2) + TimeDelta::minutes(30));
    assert!(matches!(predict(&app, 1, guess(1).0).await, Predicted::Updated(_)));
    for (revision, start, points_of_first) in [
        (1, "2026-11-15T15:00:00Z", FOR_TWO_ONE(1)),
        (2, "2026-11-15T14:00:00Z", None),
        (3, "2026-11-15T15:00:00Z", FOR_TWO_ONE(1)),
    ] {
        change_match_and_start(&app, "finished", Some((2, 1)), start).await;
        assert_eq!(run_for_match(&app).await, settled(revision), "{start}");
        assert_points(&app, |user| if user == 1 { points_of_first } else { FOR_TWO_ONE(user) }).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_postponed_match_awards_no_points() {
    let app = app().await;
    change_match(&app, "postponed", None).await;
    app.clock.advance(TimeDelta::minutes(1));
    assert_eq!(run(&app).await, json!({ "matches": [] }));
    let nothing = json!({ "matches": [
        { "event_id": EVENT, "revision": 0, "scored": 0, "finished": true }
    ] });
    assert_eq!(run_for_match(&app).await, nothing);
    assert_points(&app, |_| None).await;
}

/// A request that saw the match as open can still write its prediction shortly after the result arrives. The wait
/// gives such requests time to finish.
#[tokio::test(start_paused = true)]
async fn a_scheduled_run_settles_a_result_only_after_a_wait() {
    let app = app().await;
    change_match(&app, "finished", Some((2, 1))).await;
    assert_eq!(run(&app).await, json!({ "matches": [] }));
    app.clock.advance(TimeDelta::seconds(20));
    assert_eq!(run(&app).await, settled(1));
}

#[tokio::test(start_paused = true)]
async fn a_settled_prediction_cannot_change() {
    let app = app().await;
    change_match(&app, "finished", Some((2, 1))).await;
    run_for_match(&app).await;
    assert_eq!(predict(&app, 8, (Pick::Home, Some((2, 1)))).await, Predicted::Settled);
    assert_points(&app, FOR_TWO_ONE).await;
}

#[tokio::test(start_paused = true)]
async fn a_restarted_settlement_awards_points_to_predictions_made_after_the_first_settlement() {
    let app = app().await;
    change_match(&app, "finished", Some((2, 1))).await;
    run_for_match(&app).await;
    let late = USERS + 1;
    assert!(matches!(predict(&app, late, (Pick::Home, None)).await, Predicted::Created(_)));
    run_for_match(&app).await;
    let late_points = async || {
        let row = app.store.prediction(EVENT, SHARDS, UserId(late), Reads::Consistent).await;
        row.unwrap().unwrap().points
    };
    assert_eq!(late_points().await, None);
    let report = app.invoke(crate::handle, json!({ "event_id": EVENT, "again": true })).await;
    assert_eq!(report["matches"][0]["scored"], USERS + 1);
    assert_eq!(late_points().await, Some(2));
    assert_points(&app, FOR_TWO_ONE).await;
}

/// For every n, all writes of the run fail from the n-th write on.
#[tokio::test(start_paused = true)]
async fn a_run_that_crashes_between_any_two_writes_is_resumed() {
    for correction in [false, true] {
        let mut steps = 0;
        loop {
            let app = app().await;
            change_match(&app, "finished", Some((2, 1))).await;
            if correction {
                run_for_match(&app).await;
                change_match(&app, "finished", Some((1, 1))).await;
            }
            app.clock.advance(TimeDelta::seconds(21));
            let writes = AtomicU32::new(0);
            app.faults.set(move |attempt| {
                let writes_rows = matches!(
                    attempt.operation,
                    "PutItem" | "UpdateItem" | "DeleteItem" | "BatchExecuteStatement"
                );
                if writes_rows && writes.fetch_add(1, Ordering::Relaxed) >= steps {
                    Fault::FailBefore
                } else {
                    Fault::None
                }
            });
            let finished = try_run_for_match(&app).await.is_ok();
            app.faults.clear();
            // `tally` may run between the crash and the next run.
            statistics(&app).await;
            let revision = 1 + u32::from(correction);
            let report = run(&app).await;
            if !finished {
                assert_eq!(report, settled(revision), "after {steps} writes");
            }
            assert_points(&app, if correction { FOR_ONE_ONE } else { FOR_TWO_ONE }).await;
            assert_eq!(run(&app).await, json!({ "matches": [] }), "after {steps} writes");
            if finished {
                break;
            }
            steps += 1;
        }
        assert!(steps > 16, "{steps} writes");
    }
}

/// Each run has time for only a few pages, and resumes where the previous run stopped.
#[tokio::test(start_paused = true)]
async fn a_run_stops_before_its_deadline_and_the_next_run_resumes() {
    let app = app().await;
    change_match(&app, "finished", Some((2, 1))).await;
    app.clock.advance(TimeDelta::seconds(21));
    let mut runs = 0;
    loop {
        // Every query takes 10 seconds. The run has 60 seconds and starts no new work in the last 20.
        let clock = Arc::clone(&app.clock);
        app.faults.set(move |attempt| {
            if attempt.operation == "Query" {
                clock.advance(TimeDelta::seconds(10));
            }
            Fault::None
        });
        let deadline = app.clock.now() + TimeDelta::seconds(60);
        let report = crate::handle(App::clone(&app), json!({}), deadline).await.unwrap();
        app.faults.clear();
        runs += 1;
        assert!(runs < 20, "no progress: {report}");
        if report["matches"][0]["finished"] == true {
            assert_eq!(report, settled(1));
            break;
        }
    }
    assert!(runs > 2, "{runs} runs");
    assert_points(&app, FOR_TWO_ONE).await;
    assert_eq!(run(&app).await, json!({ "matches": [] }));
}

#[tokio::test(start_paused = true)]
async fn retried_writes_award_points_once() {
    for fault in [Fault::LoseResponse, Fault::Throttle] {
        let app = app().await;
        change_match(&app, "finished", Some((2, 1))).await;
        app.faults.first_attempts(fault);
        assert_eq!(run_for_match(&app).await, settled(1));
        app.faults.clear();
        assert_points(&app, FOR_TWO_ONE).await;
    }
}

/// The first batch of the run fails. The page of this batch must not count as done. The other shards do not wait for the
/// next run: at a final, a minute passes until then.
#[tokio::test(start_paused = true)]
async fn a_failed_batch_is_written_by_the_next_run() {
    let app = app().await;
    change_match(&app, "finished", Some((2, 1))).await;
    let mut has_failed = false;
    app.faults.set(move |attempt| {
        let first = attempt.operation == "BatchExecuteStatement" && !has_failed;
        has_failed |= first;
        if first { Fault::FailBefore } else { Fault::None }
    });
    assert!(try_run_for_match(&app).await.is_err());
    app.faults.clear();
    let settlement = app.store.settlement(EVENT).await.unwrap().unwrap();
    let done = settlement.progress.values().filter(|progress| matches!(progress, Progress::Done { .. }));
    assert_eq!(done.count(), usize::from(SHARDS) - 1);
    assert_eq!(run_for_match(&app).await, settled(1));
    assert_points(&app, FOR_TWO_ONE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_runs_during_a_correction_end_with_the_corrected_points() {
    let app = app().await;
    change_match(&app, "finished", Some((2, 1))).await;
    concurrently(12, |n| {
        let app = app.clone();
        async move {
            if n == 5 {
                change_match(&app, "finished", Some((1, 1))).await;
            }
            run_for_match(&app).await;
        }
    })
    .await;
    // If the concurrent runs did not finish the correction, the next run finishes it.
    app.clock.advance(TimeDelta::seconds(21));
    run(&app).await;
    assert_points(&app, FOR_ONE_ONE).await;
}

/// A run reads a prediction. Then the result is corrected, and a second run awards the new points. Then the first
/// run tries to write the points for the old result.
#[tokio::test(start_paused = true)]
async fn a_superseded_run_does_not_overwrite_newer_points() {
    let app = app().await;
    change_match(&app, "finished", Some((2, 1))).await;
    let store = &app.store;
    let row = store.prediction(EVENT, SHARDS, UserId(1), Reads::Consistent).await.unwrap().unwrap();
    let stale = Award { row, points: Some(4) };
    change_match(&app, "finished", Some((1, 1))).await;
    run_for_match(&app).await;
    let changed = store.award(SHARDS, 1, &settled_in(&app), &[stale]).await.unwrap();
    assert_eq!((changed[0].points, changed[0].revision), (Some(0), 2));
    assert_points(&app, FOR_ONE_ONE).await;
}

#[tokio::test(start_paused = true)]
async fn the_progress_of_a_superseded_run_is_not_stored() {
    let app = app().await;
    let begin =
        async || app.store.begin_settlement(EVENT, 2, RULES.version, false, app.clock.now()).await.unwrap();
    begin().await;
    assert!(!app.store.save_progress(EVENT, 1, 0, Progress::Done { settled: 9 }).await.unwrap());
    assert_eq!(begin().await.progress.get(&0), None);
    assert!(app.store.save_progress(EVENT, 2, 0, Progress::Done { settled: 9 }).await.unwrap());
    assert!(begin().await.progress.contains_key(&0));
}

/// The user changes the prediction after a run read it. The next run awards points for the changed prediction.
#[tokio::test(start_paused = true)]
async fn an_award_for_an_outdated_prediction_is_not_written() {
    let app = app().await;
    change_match(&app, "finished", Some((2, 1))).await;
    let store = &app.store;
    let row = store.prediction(EVENT, SHARDS, UserId(8), Reads::Consistent).await.unwrap().unwrap();
    let stale = Award { row, points: Some(0) };
    predict(&app, 8, (Pick::Home, Some((2, 1)))).await;
    let changed = store.award(SHARDS, 1, &settled_in(&app), &[stale]).await.unwrap();
    assert_eq!((changed[0].points, changed[0].revision), (None, 0));
    run_for_match(&app).await;
    assert_eq!(points(&app).await[7], Some(4));
}

#[tokio::test(start_paused = true)]
async fn a_prediction_that_changes_while_its_points_are_written_gets_the_points_of_the_change() {
    let app = app().await;
    change_match(&app, "finished", Some((2, 1))).await;
    let read = app.store.prediction(EVENT, SHARDS, UserId(8), Reads::Consistent).await.unwrap().unwrap();
    predict(&app, 8, (Pick::Home, Some((2, 1)))).await;
    let event = app.store.catalog_rows::<Match>(&[EVENT]).await.unwrap().remove(&EVENT).unwrap();
    let mut pace = Pace::of_shard(0, SHARDS, Rate::of(0, 24_000));
    award(&app, &event, &settled_in(&app), vec![read], &mut pace).await.unwrap();
    assert_eq!(points(&app).await[7], Some(4));
}

#[tokio::test(start_paused = true)]
async fn a_queued_match_that_is_not_stored_does_not_block_other_settlements() {
    let app = app().await;
    change_match(&app, "finished", Some((2, 1))).await;
    // Match 7 is queued, but the store has no match 7.
    let since = app.clock.now() - TimeDelta::hours(1);
    let due = Due { event_id: 7, revision: 1, since, is_published: true };
    app.store.put_due(&due).await.unwrap();
    app.clock.advance(TimeDelta::seconds(21));
    assert_eq!(run(&app).await, settled(1));
    assert_eq!(app.store.due().await.unwrap(), [due]);
}

#[tokio::test(start_paused = true)]
async fn a_correction_stays_queued_when_the_settlement_of_the_old_result_ends() {
    let app = app().await;
    change_match(&app, "finished", Some((2, 1))).await;
    let [first] = app.store.due().await.unwrap().try_into().unwrap();
    change_match(&app, "finished", Some((1, 1))).await;
    app.store.remove_due(EVENT, first.revision).await.unwrap();
    app.clock.advance(TimeDelta::seconds(21));
    assert_eq!(run(&app).await, settled(2));
    assert_points(&app, FOR_ONE_ONE).await;
}

#[tokio::test(start_paused = true)]
async fn a_result_is_not_settled_before_its_catalog_is_published() {
    let app = app().await;
    change_match(&app, "finished", Some((2, 1))).await;
    let [due] = app.store.due().await.unwrap().try_into().unwrap();
    app.store.remove_due(EVENT, due.revision).await.unwrap();
    app.store.put_due(&Due { is_published: false, ..due }).await.unwrap();
    app.clock.advance(TimeDelta::minutes(29));
    assert_eq!(run(&app).await, json!({ "matches": [] }));
    // No import publishes the result. It is settled after half an hour.
    app.clock.advance(TimeDelta::minutes(1));
    assert_eq!(run(&app).await, settled(1));
}

#[tokio::test(start_paused = true)]
async fn a_result_that_is_queued_but_never_stored_is_withdrawn() {
    let app = app().await;
    change_match(&app, "finished", Some((2, 1))).await;
    let since = app.clock.now();
    let due = Due { event_id: EVENT, revision: 2, since, is_published: false };
    app.store.put_due(&due).await.unwrap();
    app.clock.advance(TimeDelta::minutes(29));
    run(&app).await;
    assert_eq!(app.store.due().await.unwrap(), [due]);
    app.clock.advance(TimeDelta::minutes(2));
    run(&app).await;
    assert_eq!(app.store.due().await.unwrap(), []);
    assert_eq!(points(&app).await[0], Some(4));
}

#[tokio::test(start_paused = true)]
async fn invalid_payloads_and_unknown_matches_are_errors() {
    let app = TestApp::serving(&[]).start().await;
    for payload in [json!({ "event_id": "9" }), json!({ "event_id": -1 }), json!([]), json!("x")] {
        let error = app.try_invoke(crate::handle, payload).await.unwrap_err().to_string();
        assert!(error.contains("{\"event_id\": n}"), "{error}");
    }
    let error = app.try_invoke(crate::handle, json!({ "event_id": 404 })).await.unwrap_err();
    assert_eq!(error.to_string(), "there is no match 404");
}
