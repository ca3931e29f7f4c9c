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
    use touchline_testing::{Fault, TestApp};

    const PATH: &str = "/api/auth/events";

    /// The sample league, imported, and somebody logged in.
    async fn app() -> (TestApp, String) {
        let app = TestApp::serving(&[login::router, crate::router]).start().await;
        import(&app, sample()).await;
        let token = app.token("+447700900123").await;
        (app, token)
    }

    fn sample() -> Value {
        serde_json::from_str(include_str!("../../../events/feed/touchline.json")).unwrap()
    }

    async fn import(app: &TestApp, document: Value) {
        feed::handle(app.app.clone(), document).await.unwrap();
        app.clock.advance(TimeDelta::seconds(1));
    }

    #[tokio::test]
    async fn live_then_upcoming_then_finished() {
        let (app, token) = app().await;
        let body = app.get_as(&token, PATH).await.expect(200);
        assert_eq!(body["meta"], json!({ "current_page": 1, "last_page": 1, "per_page": 20, "total": 4 }));
        let order: Vec<_> =
            body["data"].as_array().unwrap().iter().map(|event| event["id"].as_u64().unwrap()).collect();
        assert_eq!(order, [2, 1, 4, 3]);
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
    async fn filters_alone_and_together() {
        let (app, token) = app().await;
        let ids = async |query: &str| -> Vec<u64> {
            let body = app.get_as(&token, &format!("{PATH}?{query}")).await.expect(200);
            let ids: Vec<_> =
                body["data"].as_array().unwrap().iter().map(|event| event["id"].as_u64().unwrap()).collect();
            assert_eq!(body["meta"]["total"], ids.len());
            ids
        };
        assert_eq!(ids("status=live").await, [2]);
        assert_eq!(ids("status=scheduled").await, [1, 4], "postponed is scheduled");
        assert_eq!(ids("team_id=3").await, [2, 4, 3]);
        assert_eq!(ids("date=2026-11-15").await, [2, 1]);
        assert_eq!(ids("tournament_id=1&team_id=1&status=finished&date=2026-11-08").await, [3]);
        assert_eq!(ids("tournament_id=2").await, [0; 0]);
        assert_eq!(ids("team_id=4000000000").await, [0; 0]);
    }

    #[tokio::test]
    async fn pages() {
        let (app, token) = app().await;
        let page = async |query: &str| app.get_as(&token, &format!("{PATH}?{query}")).await;
        let body = page("page=2&per_page=3").await.expect(200);
        assert_eq!(body["meta"], json!({ "current_page": 2, "last_page": 2, "per_page": 3, "total": 4 }));
        assert_eq!(body["data"][0]["id"], 3);
        let beyond = page("page=99&per_page=100").await.expect(200);
        assert_eq!(beyond["data"], json!([]));
        assert_eq!(
            beyond["meta"],
            json!({ "current_page": 99, "last_page": 1, "per_page": 100, "total": 4 })
        );
        for (query, field) in [
            ("page=0", "page"),
            ("page=-1", "page"),
            ("page=one", "page"),
            ("per_page=0", "per_page"),
            ("per_page=101", "per_page"),
            ("tournament_id=x", "tournament_id"),
            ("team_id=-1", "team_id"),
            ("date=2026-13-01", "date"),
            ("status=postponed", "status"),
        ] {
            let answer = page(query).await;
            answer.expect_error(422, "validation_error");
            assert!(answer.body["errors"][field][0].is_string(), "{}", answer.body);
        }
    }

    #[tokio::test]
    async fn a_change_shows_within_a_second_and_reloads_one_chunk() {
        let (app, token) = app().await;
        let _ = app.get_as(&token, PATH).await.expect(200);
        let mut goal = json!({ "format": "touchline", "events": [sample()["events"][1]] });
        goal["events"][0]["home_score"] = json!(2);
        import(&app, goal).await;
        let answer = app.get_as(&token, PATH).await;
        let cost = answer.headers["x-touchline-cost"].to_str().unwrap().to_owned();
        assert_eq!(answer.expect(200)["data"][0]["home_score"], 2);
        // The token, the head, the index, one chunk (of three) and four counts: half a unit each.
        assert!(cost.ends_with("rcu=4 wcu=0"), "{cost}");
    }

    #[tokio::test]
    async fn no_catalogue_is_an_error_and_never_an_empty_list() {
        let app = TestApp::serving(&[login::router, crate::router]).start().await;
        let token = app.token("+447700900123").await;
        let answer = app.get_as(&token, PATH).await;
        answer.expect_error(503, "no_catalogue");
        assert_eq!(answer.headers["retry-after"], "30");
    }

    /// A warm function answers from its copy while the head cannot be read.
    #[tokio::test]
    async fn trouble_with_the_head_does_not_take_the_list_away() {
        let (app, token) = app().await;
        let _ = app.get_as(&token, PATH).await.expect(200);
        app.clock.advance(TimeDelta::seconds(2));
        let mut reads = 0;
        app.faults.set(move |attempt| {
            // The first read is the token's.
            reads += u32::from(attempt.operation == "GetItem" && attempt.number == 1);
            if attempt.operation == "GetItem" && reads > 1 { Fault::Throttle } else { Fault::None }
        });
        let _ = app.get_as(&token, PATH).await.expect(200);
    }
}
