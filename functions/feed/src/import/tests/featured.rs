use serde_json::{Value, json};
use touchline::domain::catalog::Match;
use touchline_testing::TestApp;

use super::{catalog, football_data, openfootball, run, sample};
use crate::import::{Base, Import, Report, Rows};

async fn app(featured: &str) -> TestApp {
    TestApp::serving(&[]).variable("FEATURED_TOURNAMENTS", featured).start().await
}

/// Imports a document and returns the number of shards of each match, and of its room.
async fn shards(app: &TestApp, document: &Value) -> Vec<(u8, u8)> {
    run(app, document).await;
    let catalog = catalog(app).await;
    let mut shards = Vec::new();
    for event in catalog.events() {
        let room = touchline::domain::RoomId::parse(&event.room).unwrap();
        shards.push((event.shards, app.store.room(&room).await.unwrap().unwrap().shards));
    }
    shards
}

#[tokio::test(start_paused = true)]
async fn matches_of_a_listed_tournament_are_featured_in_every_format() {
    for (document, name) in [(football_data(), " harbour CUP "), (openfootball(), "harbour-league-2026-27")] {
        let without = shards(&app("").await, &document).await;
        assert!(!without.is_empty() && without.iter().all(|shards| *shards == (4, 4)), "{without:?}");
        let listed = app(&format!("Some Cup,{name}")).await;
        let with = shards(&listed, &document).await;
        assert!(with.len() == without.len() && with.iter().all(|shards| *shards == (64, 64)), "{with:?}");
    }
}

/// A match's room has at most 64 shards, even if its predictions have more: a homeserver accepts far fewer joins a second
/// than 64 shards can store.
#[tokio::test(start_paused = true)]
async fn a_parameter_sets_the_number_of_shards_of_a_featured_match() {
    let app = TestApp::serving(&[]).variable("FEATURED_TOURNAMENTS", "Harbour Cup");
    let app = app.variable("FEATURED_SHARDS", "128").start().await;
    let found = shards(&app, &football_data()).await;
    assert!(!found.is_empty() && found.iter().all(|shards| *shards == (128, 64)), "{found:?}");
}

/// The tournaments of the sample say themselves whether they are featured.
#[tokio::test(start_paused = true)]
async fn a_list_does_not_change_what_a_document_of_our_own_format_says() {
    let mut document = sample();
    document["tournaments"][0]["featured"] = json!(true);
    let with_other = shards(&app("Some Cup").await, &document).await;
    assert!(with_other.contains(&(64, 64)), "{with_other:?}");
}

/// The tournament was stored before the operator listed it, and the document has only a match.
#[tokio::test(start_paused = true)]
async fn only_new_matches_of_a_tournament_that_is_listed_later_get_more_shards() {
    let app = app("Harbour League").await;
    let mut before = sample();
    before["tournaments"] = json!([{ "id": 1, "name": "Another name" }]);
    for event in before["events"].as_array_mut().unwrap() {
        event["tournament_id"] = json!(1);
    }
    assert!(shards(&app, &before).await.iter().all(|shards| *shards == (4, 4)));
    let mut now = before.clone();
    now["as_of"] = json!("2026-11-15T12:01:00Z");
    now["tournaments"][0]["name"] = json!("Harbour League");
    assert!(shards(&app, &now).await.iter().all(|shards| *shards == (4, 4)), "existing matches keep them");
    let one_match = json!({ "format": "touchline", "events": [{
        "id": 100, "tournament_id": 1, "home_team_id": 1, "away_team_id": 2,
        "start_time": "2027-11-20T15:00:00Z", "status": "scheduled",
    }] });
    run(&app, &one_match).await;
    assert_eq!(app.store.catalog_rows::<Match>(&[100]).await.unwrap()[&100].shards, 64);
}

#[tokio::test(start_paused = true)]
async fn names_that_no_tournament_has_are_found_until_it_is_imported() {
    let app = app("Harbour Cup,Harbor Cup").await;
    let unknown = async || {
        let base = Base::load(&app).await.unwrap();
        let import = Import {
            app: &app,
            now: app.clock.now(),
            as_of: app.clock.now(),
            is_dated: false,
            catalog: base.known(),
            rows: Rows::default(),
            rejected: std::collections::HashSet::new(),
            report: Report::default(),
        };
        import.unknown_featured_tournaments().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(unknown().await, ["Harbour Cup", "Harbor Cup"]);
    run(&app, &football_data()).await;
    assert_eq!(unknown().await, ["Harbor Cup"]);
}
