use serde_json::Value;
use touchline::api;
use touchline_local::HTTP_FUNCTIONS;
use touchline_testing::TestApp;

use crate::target::HttpApi;

fn ids(body: &Value) -> Vec<&Value> {
    body["data"].as_array().unwrap().iter().map(|row| &row["id"]).collect()
}

#[tokio::test]
async fn a_client_that_has_the_response_gets_304_without_a_body() {
    let alice = HttpApi::under_test().user("alice").await;
    let finished =
        alice.lists_events().status("finished").per_page(1).await.expect_data(200)[0]["id"].clone();
    // A finished match: other tests change what the lists of the shared API have.
    let path = format!("/api/auth/events/{finished}");
    let first = alice.get(path.clone()).await;
    assert_eq!(first.header("cache-control"), Some("private, no-cache"));
    let tag = first.header("etag").unwrap().to_owned();
    for condition in [tag.clone(), format!("W/{tag}"), format!("\"other\", {tag}"), "*".into()] {
        let second = alice.get(path.clone()).header("if-none-match", &condition).await;
        assert_eq!(second.header("etag"), Some(tag.as_str()));
        assert_eq!(second.expect(304), "", "{condition}");
    }
    let second = alice.get(path.clone()).header("if-none-match", "\"other\"").await;
    assert_eq!(second.expect(200), first.body);
    let anonymous = HttpApi::under_test().anonymous();
    anonymous.get(path).header("if-none-match", "*").await.expect_error(401, "token_missing");
}

/// Also errors: a cache that keeps a 404 would hide what is created later.
#[tokio::test]
async fn no_cache_keeps_what_is_about_a_user() {
    let alice = HttpApi::under_test().user("alice").await;
    for path in ["me", "coins", "predictions", "chat-rooms", "sessions", "leaderboards", "events/999999999"] {
        let response = alice.get(format!("/api/auth/{path}")).await;
        assert_eq!(response.header("cache-control"), Some("no-store"), "{path}: {}", response.status);
    }
    let anonymous = HttpApi::under_test().anonymous();
    for path in ["/api/auth/me", "/api/auth/events"] {
        let response = anonymous.get(path).await;
        assert_eq!(response.header("cache-control"), Some("no-store"));
        response.expect_error(401, "token_missing");
    }
}

#[tokio::test]
async fn long_responses_are_compressed_if_the_client_accepts_it() {
    let alice = HttpApi::under_test().user("alice").await;
    let list = |encoding| alice.lists_events().per_page(100).header("accept-encoding", encoding);
    let (plain, compressed) = (list("gzip;q=0").await, list("br, gzip;q=0.5").await);
    assert_eq!(
        (plain.header("content-encoding"), compressed.header("content-encoding")),
        (None, Some("gzip"))
    );
    for response in [&plain, &compressed] {
        assert!(response.header("vary").unwrap().to_lowercase().contains("accept-encoding"));
        assert_eq!(response.header("content-type"), Some("application/json"));
    }
    assert_ne!(plain.header("etag"), compressed.header("etag"));
    assert!(ids(&plain.body).len() > 3);
    assert_eq!(ids(&plain.body), ids(&compressed.body));
    let short = alice.views_profile().header("accept-encoding", "gzip").await;
    assert_eq!((short.header("content-encoding"), short.header("vary")), (None, None));
    let document = HttpApi::under_test().anonymous().get("/api/openapi.json").await;
    assert_eq!(document.header("content-encoding"), Some("gzip"));
    assert_eq!(document.expect(200)["openapi"], "3.1.0");
}

/// Runs without HTTP, because other tests change what the shared API lists.
#[tokio::test]
async fn every_endpoint_with_an_etag_notices_changes() {
    let app = TestApp::serving(&HTTP_FUNCTIONS.map(|(_, router)| router)).start().await;
    let mut league: Value =
        serde_json::from_str(include_str!("../../../events/feed/touchline.json")).unwrap();
    app.invoke(feed::handle, league.clone()).await;
    let alice = app.user("alice").await;
    let mut paths: Vec<String> = api::ALL
        .iter()
        .filter(|route| route.has_etag)
        .map(|route| route.path.replace("{event}", "1"))
        .collect();
    // The API description changes only with a deployment.
    let description = paths.pop_if(|path| path == "/api/openapi.json").unwrap();
    let tag = alice.get(description.clone()).await.header("etag").unwrap().to_owned();
    alice.get(description).header("if-none-match", &tag).await.expect(304);
    assert_eq!(
        paths,
        ["events", "auth/events", "auth/events/1", "auth/tournaments", "auth/teams", "auth/sports"]
            .map(|path| format!("/api/{path}"))
    );
    let mut tags = Vec::new();
    for path in &paths {
        let tag = alice.get(path.clone()).await.header("etag").unwrap().to_owned();
        let second = alice.get(path.clone()).header("if-none-match", &tag).await;
        // A gateway may add a type.
        assert_eq!(second.header("content-type"), None);
        assert_eq!(second.expect(304), "");
        tags.push(tag);
    }
    league["as_of"] = "2026-11-15T12:00:00Z".into();
    league["sports"][0]["name"] = "Soccer".into();
    league["tournaments"][0]["name"] = "Harbour Cup".into();
    league["teams"][0]["name"] = "Northgate United".into();
    app.invoke(feed::handle, league).await;
    app.clock.advance(chrono::TimeDelta::seconds(1));
    for (path, tag) in paths.iter().zip(&tags) {
        let second = alice.get(path.clone()).header("if-none-match", tag).await;
        assert_ne!(second.header("etag"), Some(tag.as_str()), "{path}");
        second.expect(200);
    }
}
