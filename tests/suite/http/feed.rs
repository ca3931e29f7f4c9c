use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use clap::Parser as _;
use serde_json::Value;
use touchline_local::{LocalStack, Options};

use crate::store::{Item, StoreUnderTest};

/// On a stack of its own: tests that share a stack could not list events while the catalog is damaged.
#[tokio::test]
async fn an_import_rebuilds_a_damaged_catalog_and_rejects_ids_of_another_feed() {
    let mut arguments =
        vec!["touchline", "--quiet", "--memory", "--no-demo", "--port", "0", "--dynamodb-port", "0"];
    let calls = std::env::var("TOUCHLINE_TEST_CALLS");
    if let Ok(file) = &calls {
        arguments.extend(["--note-calls", file]);
    }
    let stack = LocalStack::start(&Options::parse_from(arguments)).await.expect("the local stack starts");
    let url = format!("http://{}/2015-03-31/functions/feed/invocations", stack.api);
    let import = async |document: &'static str| -> Value {
        let response = reqwest::Client::new().post(&url).body(document).send();
        response.await.unwrap().json().await.unwrap()
    };
    let foreign = import(include_str!("../../../events/feed/openfootball.json")).await;
    assert_eq!(foreign["created"], 9, "{foreign}");

    let client = StoreUnderTest::connect(&stack.dynamodb).client;
    let rows = client.scan().table_name("touchline-catalog").send().await.unwrap();
    let is_chunk = |row: &&Item| {
        row["pk"].as_s().unwrap().starts_with("snapshot#") && row["sk"].as_s().unwrap() != "index"
    };
    let chunks: Vec<_> = rows.items().iter().filter(is_chunk).collect();
    assert!(!chunks.is_empty());
    for chunk in chunks {
        let damaged = chunk.iter().map(|(name, value)| {
            let value = if value.is_b() { AttributeValue::B(Blob::new(*b"damaged")) } else { value.clone() };
            (name.clone(), value)
        });
        let put = client.put_item().table_name("touchline-catalog").set_item(Some(damaged.collect()));
        put.send().await.unwrap();
    }
    let ours = import(include_str!("../../../events/feed/touchline.json")).await;
    assert!(ours["rejected"].as_u64() > Some(0), "ids of the other feed are rejected: {ours}");
    stack.stop().await;
}
