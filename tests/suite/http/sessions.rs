use aws_sdk_dynamodb::types::AttributeValue;
use touchline::api;
use touchline_testing::User;

use crate::store::{Item, StoreUnderTest, number};
use crate::target::HttpApi;

/// Two days in milliseconds.
const TWO_DAYS: i64 = 172_800_000;

/// A request renews its session if the last renewal was a day ago or more. Any function can get that request,
/// so each function needs the permission to write sessions.
#[tokio::test]
async fn every_function_renews_an_old_session() {
    let (alice, store) = (HttpApi::under_test().user("alice").await, HttpApi::store());
    let mut functions: Vec<&str> =
        api::ALL.iter().filter(|route| route.needs_token).map(|route| route.function).collect();
    functions.dedup();
    for function in functions {
        let (table, session) = session(&store, &alice).await;
        let before = number(&session, "renewed_at");
        let aged = AttributeValue::N((before - TWO_DAYS).to_string());
        store.set(&table, &session, "renewed_at", aged).await;

        let is_readable =
            |route: &&api::Route| route.function == function && route.needs_token && route.method == "GET";
        let route = api::ALL.iter().find(is_readable).expect("the function has a GET endpoint");
        let response = alice.get(route.path.replace("{event}", "1").replace("{chatRoom}", "x")).await;
        assert!(response.status.is_success() || response.status == 404, "{function}: {}", response.body);

        let (_, session) = self::session(&store, &alice).await;
        let renewed = number(&session, "renewed_at");
        assert!(renewed >= before, "{function} did not renew the session: {renewed} is before {before}");
    }
}

/// Returns the user's only session and the name of its table.
async fn session(store: &StoreUnderTest, user: &User<HttpApi>) -> (String, Item) {
    let mut sessions = store.find("users", &format!("user#{}", user.id), "session#").await;
    assert_eq!(sessions.len(), 1, "{} has one session: {sessions:?}", user.username);
    sessions.remove(0)
}
