use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};
use touchline::domain::UserId;
use touchline::storage::keys::{self, Key};

use super::predictions::{finish, new_match};
use crate::store::{Item, StoreUnderTest};
use crate::target::{HttpApi, eventually};

/// Changes a counter, as if stream records had been lost. Waits until the counter exists.
async fn break_counter(store: &StoreUnderTest, role: &str, pk: &str, sk_prefix: &str, attribute: &str) {
    let broken = |found: &(String, Item)| found.1.contains_key(attribute);
    let found = async || store.find(role, pk, sk_prefix).await;
    let found = eventually(found, |found| found.iter().any(broken)).await;
    for (table, item) in found.iter().filter(|found| broken(found)) {
        store.set(table, item, attribute, AttributeValue::N("40".into())).await;
    }
}

/// Changes the statistics of a user, as if stream records had been lost. They need not exist: ministack's streams lack the
/// changes that `points` makes.
async fn break_statistics(store: &StoreUnderTest, user: u32) {
    let text = |text: String| AttributeValue::S(text);
    for table in store.tables("predictions").await {
        let update = store.client.update_item().table_name(table);
        let Key { pk, sk } = keys::user_stats(UserId(user));
        let update = update.key("pk", text(pk)).key("sk", text(sk));
        let update =
            update.update_expression("SET #points = :wrong").expression_attribute_names("#points", "points");
        update.expression_attribute_values(":wrong", AttributeValue::N("40".into())).send().await.unwrap();
    }
}

/// Invokes a recount until nothing is busy: `tally` may be behind the streams.
pub async fn recount(app: &HttpApi, order: &Value) -> Value {
    eventually(
        async || app.invoke("recount", &json!({ "recount": order })).await,
        |report| report["busy"] == json!([]),
    )
    .await
}

#[tokio::test]
async fn operators_repair_counters_that_differ_from_their_rows() {
    let (app, store) = (HttpApi::under_test(), HttpApi::store());
    let alice = app.user("alice").await;
    let event = new_match(&app).await;
    let id = u32::try_from(event["id"].as_u64().unwrap()).unwrap();
    alice.predicts(id).home().score(2, 1).await.expect(201);
    let room = alice.views_event(id).await.expect_data(200)["chat_room_id"].as_str().unwrap().to_owned();
    alice.joins(&room).await.expect(200);
    finish(&app, &event, 2, 1).await;
    app.invoke("points", &json!({ "event_id": id })).await;

    break_counter(&store, "predictions", &format!("event#{id}"), "tally#", "predictions").await;
    break_statistics(&store, alice.id).await;
    break_counter(&store, "rooms", &format!("room#{room}"), "tally#", "members").await;
    for (order, counters) in [
        (json!({ "match": id }), format!("match {id}, shard")),
        (json!({ "user": alice.id }), format!("user {}", alice.id)),
        (json!({ "room": room }), format!("room {room}, shard")),
    ] {
        let report = recount(&app, &order).await;
        let repaired = report["repaired"].as_array().unwrap();
        let is_named = |repair: &Value| repair["counters"].as_str().unwrap().starts_with(&counters);
        assert!(repaired.iter().any(is_named), "{order}: {report}");
    }
    let list = async || alice.lists_event_predictions(id).await.expect(200);
    eventually(list, |list| list["meta"]["total_predictions"] == 1).await;
    let stats = async || alice.views_member_stats(&room).await.expect_data(200);
    eventually(stats, |stats| stats["total_members"] == 1).await;

    // Other tests use the product at the same time, so their counters may be busy, but they are not wrong.
    let report = app.invoke("recount", &json!({ "recount": { "everything": {} } })).await;
    assert!(report["checked"].as_u64().unwrap() > 0, "{report}");
}
