use touchline::api::matches::{EventWithExtras, ListEvents};
use touchline::api::{NumberedPage, PageMeta};
use touchline::domain::catalog::{EventFilter, Paging};
use touchline::{App, Call, Error, Reply};

use crate::extras;

pub async fn handle(app: App, call: Call<ListEvents>) -> Result<Reply<NumberedPage<EventWithExtras>>, Error> {
    let input = call.input;
    // A stale catalog could show the picks for a match that was postponed.
    let catalog = if input.include.picks { app.checked_catalog().await? } else { app.catalog().await? };
    let filter = EventFilter {
        tournament_id: input.tournament_id.map(|id| id.0),
        sport_id: input.sport_id.map(|id| id.0),
        team_id: input.team_id.map(|id| id.0),
        date: input.date,
        from: input.from.map(|from| from.0),
        to: input.to.map(|to| to.0),
        status: input.status,
    };
    let paging = Paging { page: input.page.0, per_page: input.per_page.0 };
    let page = catalog.list_events(&filter, paging);
    let data = extras::of(&app, call.caller.user, input.include, &catalog, &page.rows).await?;
    Ok(NumberedPage { data, meta: PageMeta::of(&page) }.into())
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use serde_json::{Value, json};
    use touchline_testing::{Fault, TestApp, User};

    /// Starts an app with the sample league and the user alice.
    async fn alice() -> (TestApp, User) {
        let app = TestApp::serving(&[crate::router]).start().await;
        import(&app, sample()).await;
        let alice = app.user("alice").await;
        (app, alice)
    }

    fn sample() -> Value {
        serde_json::from_str(include_str!("../../../events/feed/touchline.json")).unwrap()
    }

    /// Imports a feed document and advances the clock, so that the next request reloads the catalog.
    async fn import(app: &TestApp, document: Value) {
        app.invoke(feed::handle, document).await;
        app.clock.advance(TimeDelta::seconds(1));
    }

    fn ids(body: &Value) -> Vec<u64> {
        body["data"].as_array().unwrap().iter().map(|event| event["id"].as_u64().unwrap()).collect()
    }

    #[tokio::test]
    async fn live_events_come_first_then_upcoming_then_finished() {
        let (_app, alice) = alice().await;
        let body = alice.lists_events().await.expect(200);
        assert_eq!(body["meta"], json!({ "current_page": 1, "last_page": 1, "per_page": 20, "total": 4 }));
        assert_eq!(ids(&body), [2, 1, 4, 3]);
        assert_eq!(
            body["data"][1],
            json!({
                "id": 1,
                "sport": { "id": 1, "name": "Football", "slug": "football" },
                "tournament_id": 1,
                "tournament": { "id": 1, "name": "Harbour League", "logo": "https://example.org/harbour.png" },
                "home_team": { "id": 1, "name": "Northgate Rovers", "logo": "https://example.org/1.png" },
                "away_team": { "id": 2, "name": "São Miguel Atlético" },
                "start_time": "2026-11-15T15:00:00Z",
                "status": "scheduled",
                "status_detail": null,
                "venue": "The Quay",
                "home_score": null,
                "away_score": null,
                "chat_room_id": "!match1:touchline.local",
                "predictions_count": 0,
            })
        );
    }

    #[tokio::test]
    async fn an_unknown_venue_is_an_empty_string() {
        let (_app, alice) = alice().await;
        let live = alice.lists_events().status("live").await.expect_data(200);
        assert_eq!(live[0]["venue"], "");
        assert_eq!(alice.views_event(2).await.expect_data(200)["venue"], "");
    }

    #[tokio::test]
    async fn a_match_without_a_venue_shows_the_ground_of_the_home_team() {
        let (app, alice) = alice().await;
        let mut league = sample();
        league["as_of"] = json!("2026-11-15T12:00:00Z");
        league["teams"][0]["venue"] = json!("Northgate Park");
        import(&app, league).await;
        let venue = async |event| alice.views_event(event).await.expect_data(200)["venue"].clone();
        assert_eq!(venue(4).await, "Northgate Park");
        assert_eq!(venue(1).await, "The Quay", "the match's own venue takes precedence");
        assert_eq!(venue(3).await, "Cliff Road", "match 3 has its own venue too");
    }

    #[tokio::test]
    async fn filters_work_alone_and_together() {
        let (_app, alice) = alice().await;
        let list = || alice.lists_events();
        let all = list().tournament(1).team(1).status("finished").date("2026-11-08");
        let expected: [(_, &[u64]); 14] = [
            // Match 1 begins at 15:00, match 4 later.
            (list().from("2026-11-15T15:00:00Z"), &[1, 4]),
            (list().from("2026-11-15T16:00:00+01:00"), &[1, 4]),
            (list().from("2026-11-15T15:00:00.5Z"), &[4]),
            (list().from("2026-11-15T15:00:00Z").to("2026-11-15T15:00:01Z"), &[1]),
            (list().from("2026-11-15T15:00:00Z").to("2026-11-15T15:00:00Z"), &[]),
            (list().status("live"), &[2]),
            // The sample has a postponed match, which is listed as scheduled.
            (list().status("scheduled"), &[1, 4]),
            (list().team(3), &[2, 4, 3]),
            (list().date("2026-11-15"), &[2, 1]),
            (all, &[3]),
            (list().tournament(2), &[]),
            (list().query("sport_id", 1), &[2, 1, 4, 3]),
            (list().query("sport_id", 2), &[]),
            (list().team(4_000_000_000), &[]),
        ];
        for (request, events) in expected {
            let body = request.clone().await.expect(200);
            assert_eq!(ids(&body), events, "{request:?}");
            assert_eq!(body["meta"]["total"], events.len(), "{request:?}");
        }
    }

    #[tokio::test]
    async fn pages_past_the_last_are_empty() {
        let (_app, alice) = alice().await;
        let body = alice.lists_events().page(2).per_page(3).await.expect(200);
        assert_eq!(body["meta"], json!({ "current_page": 2, "last_page": 2, "per_page": 3, "total": 4 }));
        assert_eq!(ids(&body), [3]);
        let body = alice.lists_events().page(99).per_page(100).await.expect(200);
        assert_eq!(body["data"], json!([]));
        assert_eq!(body["meta"], json!({ "current_page": 99, "last_page": 1, "per_page": 100, "total": 4 }));
    }

    #[tokio::test]
    async fn invalid_filters_are_422_and_the_response_names_them() {
        let (_app, alice) = alice().await;
        for (field, value) in [
            ("page", "0"),
            ("page", "-1"),
            ("page", "one"),
            ("per_page", "0"),
            ("per_page", "101"),
            ("tournament_id", "x"),
            ("team_id", "-1"),
            ("sport_id", "football"),
            ("date", "2026-13-01"),
            ("from", "2026-11-15"),
            ("to", "now"),
            ("status", "postponed"),
        ] {
            let response = alice.lists_events().query(field, value).await;
            response.expect_invalid(&[field]);
            assert_eq!(response.body["errors"][field], json!([response.message()]));
        }
    }

    #[tokio::test]
    async fn a_changed_match_shows_within_a_second_and_reloads_one_chunk_of_the_catalog() {
        let (app, alice) = alice().await;
        alice.lists_events().await.expect(200);
        let mut goal = json!({ "format": "touchline", "events": [sample()["events"][1]] });
        goal["events"][0]["home_score"] = json!(2);
        import(&app, goal).await;
        let response = alice.lists_events().await;
        // Eight reads of half a unit each: one of the session, three of the catalog (head, index, one chunk)
        // and four of prediction counts (one for each match).
        let cost = response.header("x-touchline-cost").unwrap();
        assert!(cost.ends_with("rcu=4 wcu=0"), "{cost}");
        assert_eq!(response.expect_data(200)[0]["home_score"], 2);
    }

    #[tokio::test]
    async fn a_match_says_why_it_is_not_simply_scheduled_live_or_finished() {
        let (app, alice) = alice().await;
        for (event, word, status, detail) in [
            (0, "scheduled", "scheduled", Value::Null),
            (0, "postponed", "scheduled", json!("postponed")),
            (0, "cancelled", "finished", json!("cancelled")),
            (1, "live", "live", Value::Null),
            (1, "suspended", "live", json!("suspended")),
            // A match that has begun, and will go on later.
            (1, "postponed", "scheduled", json!("suspended")),
            (1, "abandoned", "finished", json!("abandoned")),
            (1, "awarded", "finished", json!("awarded")),
            (2, "finished", "finished", Value::Null),
        ] {
            let mut changed = sample()["events"][event].clone();
            changed["status"] = json!(word);
            import(&app, json!({ "format": "touchline", "events": [changed] })).await;
            let id = u32::try_from(changed["id"].as_u64().unwrap()).unwrap();
            let shown = alice.views_event(id).await.expect_data(200);
            assert_eq!((&shown["status"], &shown["status_detail"]), (&json!(status), &detail), "{word}");
        }
    }

    #[tokio::test]
    async fn without_a_catalog_the_list_is_503() {
        let app = TestApp::serving(&[crate::router]).start().await;
        let alice = app.user("alice").await;
        let response = alice.lists_events().await;
        response.expect_error(503, "no_catalogue");
        assert_eq!(response.header("retry-after"), Some("30"));
    }

    #[tokio::test]
    async fn the_cached_catalog_is_used_while_the_head_of_the_catalog_cannot_be_read() {
        let (app, alice) = alice().await;
        let before = alice.lists_events().await.expect(200);
        app.clock.advance(TimeDelta::seconds(2));
        let mut reads = 0;
        app.faults.set(move |attempt| {
            // The first read gets the session and succeeds. The second read, of the catalog's head, fails.
            reads += u32::from(attempt.operation == "GetItem" && attempt.number == 1);
            if attempt.operation == "GetItem" && reads > 1 { Fault::Throttle } else { Fault::None }
        });
        assert_eq!(alice.lists_events().await.expect(200), before);
    }
}
