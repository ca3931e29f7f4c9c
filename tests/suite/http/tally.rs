use serde_json::{Value, json};
use touchline::ports::random::{Random, SystemRandom};
use touchline::storage::keys;

use crate::target::{HttpApi, eventually, unique_name};

/// `tally` reports no failure, so the stream continues. Operators find the record in the `predictions` table.
#[tokio::test]
async fn an_unreadable_stream_record_is_stored_for_operators() {
    let (app, store) = (HttpApi::under_test(), HttpApi::store());
    let random: &dyn Random = &SystemRandom;
    let sequence = format!("4{:09}", random.below(1_000_000_000));
    let record = json!({ "dynamodb": {
        "Keys": { "pk": { "S": "event#1#0" }, "sk": { "S": "user#1" } },
        "NewImage": { "pick": { "S": "nobody" } }, "SequenceNumber": sequence,
    } });
    let result = app.invoke("tally", &json!({ "Records": [record] })).await;
    assert_eq!(result["batchItemFailures"], json!([]));
    let kept = store.find("predictions", "set-aside", &sequence).await;
    assert_eq!(kept.len(), 1, "the record is stored once: {kept:?}");
    let change: Value = serde_json::from_str(kept[0].1["change"].as_s().unwrap()).unwrap();
    assert_eq!(change, record);
}

#[tokio::test]
async fn an_operator_can_rebuild_the_room_directory() {
    let (app, store) = (HttpApi::under_test(), HttpApi::store());
    let alice = app.user("alice").await;
    let name = unique_name();
    alice.creates_room(&name).await.expect(201);
    let found = async || alice.lists_rooms().search(&name).await.expect_data(200).as_array().unwrap().len();
    eventually(&found, |rooms| *rooms == 1).await;

    for partition in keys::suffix_partitions(&name, None) {
        for (table, entry) in store.find("directory", &partition, &name).await {
            store.delete(&table, &entry).await;
        }
    }
    eventually(&found, |rooms| *rooms == 0).await;
    let mut resume = Value::Null;
    loop {
        let report = app.invoke("tally", &json!({ "rebuild_directory": { "resume": resume } })).await;
        resume = report["resume"].clone();
        if resume.is_null() {
            break;
        }
    }
    eventually(&found, |rooms| *rooms == 1).await;
}
