use serde_json::json;
use touchline::domain::catalog::{Key, Team};
use touchline::storage::catalog::{Replacement, Written};

use super::{app, catalog, football_data, openfootball, run, sample};

#[tokio::test(start_paused = true)]
async fn sources_share_a_sport_with_the_same_slug() {
    let app = app().await;
    for document in [sample(), football_data(), openfootball()] {
        run(&app, &document).await;
    }
    assert_eq!(catalog(&app).await.sports().count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_source_cannot_take_an_id_from_another_source() {
    let app = app().await;
    run(&app, &sample()).await;
    let foreign = openfootball();
    run(&app, &foreign).await;
    let catalog = catalog(&app).await;
    assert_eq!(catalog.events().count(), 7);
    let slugs: std::collections::HashSet<_> = catalog.teams().map(|team| team.slug.clone()).collect();
    assert_eq!(slugs.len(), catalog.teams().count(), "slugs are unique");
    // Match 5 was imported from openfootball.
    let mut claim = sample();
    claim["events"][0]["id"] = json!(5);
    let report = run(&app, &claim).await;
    assert!(report["reasons"].to_string().contains("another source"), "{report}");
}

/// Two concurrent imports chose the same id. The second write must fail.
#[tokio::test(start_paused = true)]
async fn a_concurrent_import_of_another_source_cannot_overwrite_a_row() {
    let app = app().await;
    run(&app, &sample()).await;
    let mut other = app.store.catalog_rows::<Team>(&[1]).await.unwrap().remove(&1).unwrap();
    other.key = Key(7);
    let other = Replacement { row: other, read: None };
    let written = app.store.put_rows(&[other]).await.unwrap();
    assert!(matches!(written.as_slice(), [Written::Changed(found)] if found.name == "Northgate Rovers"));
}

/// The id of the rejected team belongs to a team of another source. No match of the document may show the
/// other source's team.
#[tokio::test(start_paused = true)]
async fn matches_of_a_rejected_team_are_rejected() {
    let app = app().await;
    let foreign = openfootball();
    run(&app, &foreign).await;
    // The document uses the ids of openfootball's teams, and new ids for everything else.
    let mut document = sample();
    document["sports"][0]["id"] = json!(900);
    for team in document["teams"].as_array_mut().unwrap() {
        team["sport_id"] = json!(900);
    }
    document["tournaments"][0]["id"] = json!(900);
    for event in document["events"].as_array_mut().unwrap() {
        event["tournament_id"] = json!(900);
        event["id"] = json!(event["id"].as_u64().unwrap() + 900);
    }
    let report = run(&app, &document).await;
    assert_eq!(catalog(&app).await.events().count(), 3, "{report}");
    let reasons = report["reasons"].to_string();
    assert!(reasons.contains("another source") && reasons.contains("team 1 is unknown"), "{reasons}");
}
