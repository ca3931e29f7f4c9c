use serde_json::{Value, json};
use touchline::ports::random::{Random, SystemRandom};

use crate::target::HttpApi;

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
    let kept = store.find("predictions", "unreadable", &sequence).await;
    assert_eq!(kept.len(), 1, "the record is stored once: {kept:?}");
    let change: Value = serde_json::from_str(kept[0].1["change"].as_s().unwrap()).unwrap();
    assert_eq!(change, record);
}
