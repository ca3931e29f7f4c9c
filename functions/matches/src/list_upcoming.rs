use touchline::api::matches::{ListUpcoming, PublicMatchView};
use touchline::api::{NumberedPage, PageMeta};
use touchline::domain::catalog::Paging;
use touchline::{App, Call, Error, Reply};

pub async fn handle(
    app: App,
    call: Call<ListUpcoming>,
) -> Result<Reply<NumberedPage<PublicMatchView>>, Error> {
    // The months around now have the next seven days and what is live. So a new environment loads little, although anyone
    // can send this request.
    let catalog = app.catalog_with(&[]).await?;
    let paging = Paging { page: call.input.page.0, per_page: call.input.per_page.0 };
    let page = catalog.list_upcoming(app.clock.now(), paging);
    let data = page.rows.iter().filter_map(|event| PublicMatchView::of(event, &catalog)).collect();
    Ok(NumberedPage { data, meta: PageMeta::of(&page) }.into())
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use serde_json::{Value, json};
    use touchline_testing::{Response, TestApp};

    async fn app() -> TestApp {
        let app = TestApp::serving(&[crate::router]).start().await;
        let mut league: Value =
            serde_json::from_str(include_str!("../../../events/feed/touchline.json")).unwrap();
        // One match kicks off in exactly seven days, another one a second before.
        let events = league["events"].as_array_mut().unwrap();
        for (id, start) in [(5, "2026-11-22T12:00:00Z"), (6, "2026-11-22T11:59:59Z")] {
            let mut event = events[0].clone();
            event["id"] = json!(id);
            event["start_time"] = json!(start);
            events.push(event);
        }
        app.invoke(feed::handle, league).await;
        app
    }

    fn ids(response: &Response) -> Vec<u64> {
        let data = response.body["data"].as_array().unwrap();
        data.iter().map(|event| event["id"].as_u64().unwrap()).collect()
    }

    #[tokio::test]
    async fn anyone_sees_the_live_matches_and_those_of_the_next_seven_days() {
        let app = app().await;
        let response = app.anonymous().get("/api/events").await;
        assert_eq!(ids(&response), [2, 1, 6]);
        assert_eq!(
            response.body["meta"],
            json!({ "current_page": 1, "last_page": 1, "per_page": 20, "total": 3 })
        );
        let second = app.anonymous().get("/api/events").query("page", 2).query("per_page", 2).await;
        assert_eq!(ids(&second), [6]);
        app.anonymous().get("/api/events").query("per_page", 101).await.expect_invalid(&["per_page"]);
        // After its kick-off, a match is not in the list until the feed reports that it is live.
        app.clock.advance(TimeDelta::seconds(3 * 3_600 + 1));
        assert_eq!(ids(&app.anonymous().get("/api/events").await), [2, 6, 5]);
    }

    #[tokio::test]
    async fn a_match_is_as_in_the_list_of_users_without_its_room_and_its_count() {
        let app = app().await;
        let alice = app.user("alice").await;
        let shown = app.anonymous().get("/api/events").await.expect(200);
        let mut expected = alice.lists_events().per_page(3).await.expect_data(200);
        for event in expected.as_array_mut().unwrap() {
            let event = event.as_object_mut().unwrap();
            assert!(event.remove("chat_room_id").is_some() && event.remove("predictions_count").is_some());
        }
        assert_eq!(shown["data"], expected);
    }

    #[tokio::test]
    async fn any_cache_may_keep_the_list_for_thirty_seconds_and_it_costs_the_check_of_the_catalog() {
        let app = app().await;
        // From here on, no match comes into the list or leaves it.
        app.clock.advance(TimeDelta::seconds(1));
        let list = || app.anonymous().get("/api/events");
        let first = list().await;
        assert_eq!(first.header("cache-control"), Some("public, max-age=30"));
        app.clock.advance(TimeDelta::seconds(1));
        assert_eq!(list().await.header("x-touchline-cost"), Some("calls=1 rounds=1 rcu=0.5 wcu=0"));
        let again = list().header("if-none-match", first.header("etag").unwrap()).await;
        assert_eq!(again.header("cache-control"), Some("public, max-age=30"));
        again.expect(304);
    }

    #[tokio::test]
    async fn without_a_catalog_the_list_is_503_and_no_cache_keeps_that() {
        let app = TestApp::serving(&[crate::router]).start().await;
        let response = app.anonymous().get("/api/events").await;
        assert_eq!(response.header("cache-control"), Some("no-store"));
        response.expect_error(503, "no_catalogue");
    }
}
