use serde_json::{Value, json};
use touchline::domain::catalog::Status;
use touchline::storage::catalog::load_latest;

use super::{app, catalog, changed, counts, football_data, openfootball, run, sample};
use crate::FeedError;

#[tokio::test(start_paused = true)]
async fn importing_the_same_document_again_changes_nothing() {
    for document in [sample(), football_data(), openfootball()] {
        let app = app().await;
        let first = counts(&run(&app, &document).await);
        assert!(first[0] > 5 && first[1] == 0 && first[2] == 0, "{first:?}");
        let version = load_latest(&app.store, None).await.unwrap().unwrap().head.version;
        let second = counts(&run(&app, &document).await);
        assert_eq!(second, [0, 0, first[0], first[3]]);
        assert_eq!(load_latest(&app.store, None).await.unwrap().unwrap().head.version, version);
    }
}

#[tokio::test(start_paused = true)]
async fn imported_matches_have_all_their_fields() {
    let app = app().await;
    run(&app, &sample()).await;
    let catalog = catalog(&app).await;
    let event = catalog.event(3).unwrap();
    assert_eq!((event.status, event.revision, event.shards), (Status::Finished, 1, 64));
    assert_eq!(&*event.room, "!match3:touchline.local");
    assert_eq!(event.venue.as_deref(), Some("Cliff Road"));
    assert_eq!(catalog.team(2).unwrap().slug, "sao-miguel-atletico");
    assert_eq!(catalog.event(4).unwrap().status, Status::Postponed);
}

#[tokio::test(start_paused = true)]
async fn an_older_document_does_not_undo_a_newer_one() {
    let app = app().await;
    run(&app, &sample()).await;
    let newer = changed("2026-11-15T12:01:00Z", 1, "home_score", json!(3));
    assert_eq!(counts(&run(&app, &newer).await)[1], 1);
    let after = run(&app, &sample()).await;
    assert_eq!(counts(&after)[1], 0, "{after}");
    assert_eq!(catalog(&app).await.event(2).unwrap().score.unwrap().home, 3);

    // The document of 12:03 repeats the score. The document of 12:02 arrives later and must not change it.
    run(&app, &changed("2026-11-15T12:03:00Z", 1, "home_score", json!(3))).await;
    run(&app, &changed("2026-11-15T12:02:00Z", 1, "home_score", json!(2))).await;
    assert_eq!(catalog(&app).await.event(2).unwrap().score.unwrap().home, 3);
}

/// The import compares the date of a document with the stored date of each row, not with the date of the
/// previous document. The two documents can contain different rows.
#[tokio::test(start_paused = true)]
async fn a_document_older_than_the_previous_one_can_update_other_rows() {
    let app = app().await;
    run(&app, &sample()).await;
    let venue_change = |at: &str, event: usize| {
        let mut document = sample();
        document["as_of"] = json!(at);
        document["events"] = json!([sample()["events"][event]]);
        document["events"][0]["venue"] = json!("Moved");
        for list in ["sports", "teams", "tournaments"] {
            document[list] = json!([]);
        }
        document
    };
    run(&app, &venue_change("2026-11-15T12:00:10Z", 0)).await;
    assert_eq!(counts(&run(&app, &venue_change("2026-11-15T12:00:05Z", 2)).await)[1], 1);
    assert_eq!(catalog(&app).await.event(3).unwrap().venue.as_deref(), Some("Moved"));
}

#[tokio::test(start_paused = true)]
async fn a_match_last_updated_before_the_stored_one_is_ignored() {
    let app = app().await;
    let document = football_data();
    run(&app, &document).await;
    let with = |updated: &str, date: &str| {
        let mut document = document.clone();
        document["document"]["matches"][0]["lastUpdated"] = json!(updated);
        document["document"]["matches"][0]["utcDate"] = json!(date);
        document
    };
    let hour = async || catalog(&app).await.event(1).unwrap().start.format("%H:%M").to_string();
    run(&app, &with("2026-11-14T10:00:00Z", "2026-11-15T20:00:00Z")).await;
    assert_eq!(hour().await, "20:00");
    run(&app, &with("2026-11-14T09:00:00Z", "2026-11-15T18:00:00Z")).await;
    assert_eq!(hour().await, "20:00");
}

#[tokio::test(start_paused = true)]
async fn a_document_dated_in_the_future_is_rejected() {
    let app = app().await;
    let document = changed("2062-11-15T12:00:00Z", 0, "venue", json!("x"));
    let rejection = app.try_invoke(crate::handle, document).await.unwrap_err();
    assert!(matches!(rejection, FeedError::BadAsOf));
}

#[tokio::test(start_paused = true)]
async fn malformed_documents_are_rejected() {
    let app = app().await;
    let rejection = async |document: Value| app.try_invoke(crate::handle, document).await.unwrap_err();
    assert!(matches!(rejection(json!({ "format": "xml" })).await, FeedError::UnknownFormat(_)));
    assert!(matches!(rejection(json!({ "teams": [] })).await, FeedError::UnknownFormat(_)));
    assert!(matches!(rejection(json!([])).await, FeedError::UnknownFormat(_)));
    assert!(matches!(
        rejection(json!({ "format": "touchline", "teams": {} })).await,
        FeedError::WrongShape(..)
    ));
    assert!(matches!(rejection(json!({ "format": "touchline", "as_of": "soon" })).await, FeedError::BadAsOf));
    let zone = json!({ "format": "openfootball", "timezone": "Mars/Base", "document": { "name": "x", "matches": [] } });
    assert!(matches!(rejection(zone).await, FeedError::UnknownTimeZone(_)));
    assert!(matches!(
        rejection(json!({ "format": "football-data.org/v4" })).await,
        FeedError::WrongShape(..)
    ));
    assert!(load_latest(&app.store, None).await.unwrap().is_none(), "nothing is published");
}

#[tokio::test(start_paused = true)]
async fn bad_rows_are_reported_and_the_other_rows_are_applied() {
    let app = app().await;
    let mut document = sample();
    let bad = [
        json!({ "id": 10, "tournament_id": 1, "home_team_id": 1, "away_team_id": 1, "start_time": "2026-11-15T15:00:00Z", "status": "scheduled" }),
        json!({ "id": 11, "tournament_id": 1, "home_team_id": 1, "away_team_id": 2, "start_time": "2026-11-15T15:00:00Z", "status": "finished", "home_score": -1, "away_score": 0 }),
        json!({ "id": 12, "tournament_id": 1, "home_team_id": 1, "away_team_id": 2, "start_time": "2026-11-15T15:00:00Z", "status": "finished" }),
        json!({ "id": 13, "tournament_id": 1, "home_team_id": 1, "away_team_id": 2, "start_time": "2026-11-15T15:00:00Z", "status": "delayed" }),
        json!({ "id": 14, "tournament_id": 1, "home_team_id": 1, "away_team_id": 2, "start_time": "2026-02-30T15:00:00Z", "status": "scheduled" }),
        json!({ "id": 15, "tournament_id": 9, "home_team_id": 1, "away_team_id": 2, "start_time": "2026-11-15T15:00:00Z", "status": "scheduled" }),
        json!({ "id": 16, "tournament_id": 1, "home_team_id": 1, "away_team_id": 99, "start_time": "2026-11-15T15:00:00Z", "status": "scheduled" }),
        json!({ "id": 1, "tournament_id": 1, "home_team_id": 1, "away_team_id": 3, "start_time": "2026-11-15T15:00:00Z", "status": "scheduled" }),
        json!({ "id": "x" }),
        json!(null),
    ];
    document["events"].as_array_mut().unwrap().extend(bad.iter().cloned());
    let report = run(&app, &document).await;
    assert_eq!(counts(&report), [9, 0, 0, 10], "{report}");
    let reasons = report["reasons"].to_string();
    for word in [
        "itself",
        "-1",
        "needs a score",
        "delayed",
        "2026-02-30",
        "tournament 9",
        "team 99",
        "twice",
        "id must be",
    ] {
        assert!(reasons.contains(word), "{word} in {reasons}");
    }
    assert_eq!(catalog(&app).await.events().count(), 4);
}

/// The document has more rows than fit into one batch or one transaction.
#[tokio::test(start_paused = true)]
async fn a_whole_season_is_imported_in_one_run() {
    let app = app().await;
    let team = |n: usize| format!("Club {n} {}", "of a long name ".repeat(n % 5));
    let matches: Vec<Value> = (0..20)
        .flat_map(|home| (0..20).filter(move |away| *away != home).map(move |away| (home, away)))
        .enumerate()
        .map(|(at, (home, away))| {
            json!({ "round": format!("Matchday {}", at / 10), "date": format!("2026-{:02}-{:02}", 1 + at / 40, 1 + at % 28),
                "time": "15:00", "team1": team(home), "team2": team(away), "score": { "ft": [at % 5, at % 3] } })
        })
        .collect();
    let document = json!({ "format": "openfootball", "timezone": "Europe/London", "as_of": "2026-11-15T12:00:00Z",
        "document": { "name": "Season", "matches": matches } });
    assert_eq!(counts(&run(&app, &document).await), [402, 0, 0, 0]);
    assert_eq!(counts(&run(&app, &document).await), [0, 0, 402, 0]);
    let catalog = catalog(&app).await;
    let ids: std::collections::BTreeSet<u32> = catalog.events().map(|event| event.id).collect();
    assert_eq!(ids, (1..=380).collect(), "ids are sequential, without gaps");
}

#[tokio::test(start_paused = true)]
async fn only_a_changed_result_increases_the_revision() {
    let app = app().await;
    run(&app, &sample()).await;
    let revision = async || catalog(&app).await.event(3).unwrap().revision;
    assert_eq!(revision().await, 1);
    run(&app, &changed("2026-11-15T12:00:30Z", 2, "venue", json!("Elsewhere"))).await;
    assert_eq!(revision().await, 1);
    run(&app, &changed("2026-11-15T12:01:00Z", 2, "home_score", json!(1))).await;
    assert_eq!(revision().await, 2);
    run(&app, &changed("2026-11-15T12:02:00Z", 2, "status", json!("abandoned"))).await;
    assert_eq!(revision().await, 3);
}
