use touchline::api::matches::{EventView, ListEvents};
use touchline::api::{PageMeta, Paged};
use touchline::domain::catalog::{EventFilter, Paging};
use touchline::{App, Call, Error, Reply};

pub async fn handle(app: App, call: Call<ListEvents>) -> Result<Reply<Paged<EventView>>, Error> {
    let input = call.input;
    let catalog = app.catalog().await?;
    let filter = EventFilter {
        tournament_id: input.tournament_id.map(|id| id.0),
        team_id: input.team_id.map(|id| id.0),
        date: input.date,
        status: input.status,
    };
    let paging = Paging { page: input.page.0, per_page: input.per_page.0 };
    let page = catalog.list_events(&filter, paging);
    let ids: Vec<u32> = page.rows.iter().map(|event| event.id).collect();
    let counts = app.store.prediction_counts(&ids).await?;
    let count = |id| counts.get(&id).copied().unwrap_or(0);
    let data = page.rows.iter().filter_map(|event| EventView::of(event, &catalog, count(event.id))).collect();
    Ok(Paged { data, meta: PageMeta::of(&page) }.into())
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use serde_json::{Value, json};
    use touchline_testing::{Fault, Response, TestApp, User};

    /// The sample league, imported, and a user.
    async fn app() -> (TestApp, User) {
        let app = TestApp::serving(&[crate::router]).start().await;
        import(&app, sample()).await;
        let alice = app.user("alice").await;
        (app, alice)
    }

    fn sample() -> Value {
        serde_json::from_str(include_str!("../../../events/feed/touchline.json")).unwrap()
    }

    async fn import(app: &TestApp, document: Value) {
        app.invoke(feed::handle, document).await;
        app.clock.advance(TimeDelta::seconds(1));
    }

    fn ids(response: Response) -> Vec<u64> {
        let body = response.expect(200);
        let ids: Vec<u64> =
            body["data"].as_array().unwrap().iter().map(|event| event["id"].as_u64().unwrap()).collect();
        assert_eq!(body["meta"]["total"], ids.len());
        ids
    }

    #[tokio::test]
    async fn live_matches_come_first_then_scheduled_then_finished() {
        let (_app, alice) = app().await;
        let response = alice.lists_events().await;
        assert_eq!(ids(response.clone()), [2, 1, 4, 3]);
        let body = response.expect(200);
        assert_eq!(body["meta"], json!({ "current_page": 1, "last_page": 1, "per_page": 20, "total": 4 }));
        assert_eq!(
            body["data"][1],
            json!({
                "id": 1,
                "tournament_id": 1,
                "tournament": { "id": 1, "name": "Harbour League", "logo": "https://example.org/harbour.png" },
                "home_team": { "id": 1, "name": "Northgate Rovers", "logo": "https://example.org/1.png" },
                "away_team": { "id": 2, "name": "São Miguel Atlético" },
                "start_time": "2026-11-15T15:00:00Z",
                "status": "scheduled",
                "venue": "The Quay",
                "home_score": null,
                "away_score": null,
                "chat_room_id": "!match1:touchline.local",
                "predictions_count": 0,
            })
        );
    }

    #[tokio::test]
    async fn an_unknown_venue_is_empty() {
        let (_app, alice) = app().await;
        let live = alice.lists_events().status("live").await.expect_data(200);
        assert_eq!(live[0]["venue"], "");
        assert_eq!(alice.views_event(2).await.expect_data(200)["venue"], "");
    }

    #[tokio::test]
    async fn a_match_without_a_venue_shows_the_home_teams_ground() {
        let (app, alice) = app().await;
        let mut league = sample();
        league["as_of"] = json!("2026-11-15T12:00:00Z");
        league["teams"][0]["venue"] = json!("Northgate Park");
        import(&app, league).await;
        let venue = async |event| alice.views_event(event).await.expect_data(200)["venue"].clone();
        assert_eq!(venue(4).await, "Northgate Park");
        assert_eq!(venue(1).await, "The Quay", "the match's own venue takes precedence");
        assert_eq!(venue(3).await, "Cliff Road", "the ground of the away team does not count");
    }

    #[tokio::test]
    async fn filters_work_alone_and_together() {
        let (_app, alice) = app().await;
        let list = || alice.lists_events();
        assert_eq!(ids(list().status("live").await), [2]);
        assert_eq!(ids(list().status("scheduled").await), [1, 4], "a postponed match is scheduled");
        assert_eq!(ids(list().team(3).await), [2, 4, 3]);
        assert_eq!(ids(list().date("2026-11-15").await), [2, 1]);
        let all = list().tournament(1).team(1).status("finished").date("2026-11-08");
        assert_eq!(ids(all.await), [3]);
        assert_eq!(ids(list().tournament(2).await), [0; 0]);
        assert_eq!(ids(list().team(4_000_000_000).await), [0; 0]);
    }

    #[tokio::test]
    async fn a_page_past_the_end_is_empty_with_the_same_totals() {
        let (_app, alice) = app().await;
        let body = alice.lists_events().page(2).per_page(3).await.expect(200);
        assert_eq!(body["meta"], json!({ "current_page": 2, "last_page": 2, "per_page": 3, "total": 4 }));
        assert_eq!(body["data"][0]["id"], 3);
        let past_the_end = alice.lists_events().page(99).per_page(100).await.expect(200);
        assert_eq!(past_the_end["data"], json!([]));
        assert_eq!(
            past_the_end["meta"],
            json!({ "current_page": 99, "last_page": 1, "per_page": 100, "total": 4 })
        );
    }

    #[tokio::test]
    async fn invalid_filters_are_422() {
        let (_app, alice) = app().await;
        for (field, value) in [
            ("page", "0"),
            ("page", "-1"),
            ("page", "one"),
            ("per_page", "0"),
            ("per_page", "101"),
            ("tournament_id", "x"),
            ("team_id", "-1"),
            ("date", "2026-13-01"),
            ("status", "postponed"),
        ] {
            alice.lists_events().query(field, value).await.expect_invalid(&[field]);
        }
    }

    #[tokio::test]
    async fn a_change_shows_within_a_second_and_reloads_one_chunk() {
        let (app, alice) = app().await;
        alice.lists_events().await.expect(200);
        let mut goal = json!({ "format": "touchline", "events": [sample()["events"][1]] });
        goal["events"][0]["home_score"] = json!(2);
        import(&app, goal).await;
        let response = alice.lists_events().await;
        let cost = response.header("x-touchline-cost").unwrap().to_owned();
        assert_eq!(response.expect_data(200)[0]["home_score"], 2);
        // The token, the head, the index, one of three chunks, and four counts: half a unit each.
        assert!(cost.ends_with("rcu=4 wcu=0"), "{cost}");
    }

    #[tokio::test]
    async fn without_a_catalog_the_list_is_an_error_and_not_empty() {
        let app = TestApp::serving(&[crate::router]).start().await;
        let response = app.user("alice").await.lists_events().await;
        response.expect_error(503, "no_catalogue");
        assert_eq!(response.header("retry-after"), Some("30"));
    }

    #[tokio::test]
    async fn a_warm_function_serves_its_cached_catalog_while_the_store_fails() {
        let (app, alice) = app().await;
        alice.lists_events().await.expect(200);
        app.clock.advance(TimeDelta::seconds(2));
        let mut reads = 0;
        app.faults.set(move |attempt| {
            // The first read is for the token, the second for the head.
            reads += u32::from(attempt.operation == "GetItem" && attempt.number == 1);
            if attempt.operation == "GetItem" && reads > 1 { Fault::Throttle } else { Fault::None }
        });
        alice.lists_events().await.expect(200);
    }
}
