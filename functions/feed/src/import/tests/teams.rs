use serde_json::{Value, json};
use touchline_testing::TestApp;

use super::{app, catalog, counts, football_data, run, sample};

fn football_data_teams() -> Value {
    serde_json::from_str(include_str!("../../../../../events/feed/football-data-teams.json")).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_short_name_stays_until_a_document_has_another_one() {
    let app = app().await;
    let short_name = async || {
        let catalog = catalog(&app).await;
        catalog.teams().find(|team| team.name == "Northgate Rovers").unwrap().short_name.clone()
    };
    let mut matches = football_data();
    for name in ["Northgate", "Rovers"] {
        let teams = json!([{ "id": 501, "name": "Northgate Rovers", "shortName": name }]);
        matches["document"]["teams"] = teams;
        run(&app, &matches).await;
        run(&app, &football_data()).await;
        assert_eq!(short_name().await.as_deref(), Some(name));
    }
}

/// Returns the country, the founding year and the home ground of a team.
async fn details(app: &TestApp, name: &str) -> (Option<String>, Option<i32>, Option<String>) {
    let catalog = catalog(app).await;
    let team = catalog.teams().find(|team| team.name == name).unwrap();
    (team.country.clone(), team.founded, team.venue.clone())
}

#[tokio::test(start_paused = true)]
async fn teams_without_a_country_get_the_country_of_their_league() {
    let app = app().await;
    run(&app, &football_data()).await;
    assert_eq!(details(&app, "Lakeside").await, (Some("Albion".into()), None, None));
    run(&app, &football_data_teams()).await;
    assert_eq!(
        details(&app, "Lakeside").await,
        (Some("Cambria".into()), None, None),
        "the team's own country replaces the country of the league"
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_of_matches_does_not_erase_the_details_of_teams() {
    let app = app().await;
    assert_eq!(counts(&run(&app, &football_data_teams()).await), [4, 0, 0, 0]);
    run(&app, &football_data()).await;
    let northgate = (Some("Albion".into()), Some(1889), Some("Northgate Park".into()));
    assert_eq!(details(&app, "Northgate Rovers").await, northgate);
    assert_eq!(details(&app, "Lakeside").await, (Some("Cambria".into()), None, None));
    let catalog = catalog(&app).await;
    let at_home = catalog.events().find(|event| event.venue.is_none()).unwrap();
    assert_eq!(catalog.venue(at_home), Some("Northgate Park"));
    assert_eq!(
        counts(&run(&app, &football_data_teams()).await),
        [0, 0, 4, 0],
        "a second import of the details changes nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn a_document_in_our_own_format_can_erase_the_details_of_teams() {
    let app = app().await;
    let mut document = sample();
    document["teams"][0]["venue"] = json!("The Quay");
    run(&app, &document).await;
    assert_eq!(details(&app, "Northgate Rovers").await.2.as_deref(), Some("The Quay"));
    document["as_of"] = json!("2026-11-15T12:00:00Z");
    document["teams"][0] = json!({ "id": 1, "name": "Northgate Rovers", "sport_id": 1 });
    run(&app, &document).await;
    assert_eq!(details(&app, "Northgate Rovers").await, (None, None, None));
}
