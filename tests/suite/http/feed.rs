use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use clap::Parser as _;
use serde_json::{Value, json};
use touchline_local::{LocalStack, Options};

use crate::store::{Item, StoreUnderTest};
use crate::target::HttpApi;

const CATALOG: &str = "touchline-catalog";

/// Starts a separate stack for one test, without the demo league.
async fn empty_stack() -> (LocalStack, HttpApi) {
    let mut arguments =
        vec!["touchline", "--quiet", "--memory", "--no-demo", "--port", "0", "--dynamodb-port", "0"];
    let calls = std::env::var("TOUCHLINE_TEST_CALLS");
    if let Ok(file) = &calls {
        arguments.extend(["--note-calls", file]);
    }
    let stack = LocalStack::start(&Options::parse_from(arguments)).await.expect("the local stack starts");
    let app = HttpApi::at(&format!("http://{}", stack.api));
    (stack, app)
}

#[tokio::test]
async fn rooms_are_found_by_the_names_of_their_teams_also_after_a_team_is_renamed() {
    let (stack, app) = empty_stack().await;
    let mut league: Value =
        serde_json::from_str(include_str!("../../../events/feed/touchline.json")).unwrap();
    app.invoke("feed", &league).await;
    let alice = app.user("alice").await;
    let search = async |text: &str| alice.lists_rooms().search(text).await.expect_data(200);
    assert_eq!(search("rovers – são").await[0]["name"], "Northgate Rovers – São Miguel Atlético");

    league["as_of"] = json!("2026-11-14T12:00:01Z");
    league["teams"][0]["name"] = json!("Northgate United");
    app.invoke("feed", &league).await;
    assert_eq!(search("united – são").await[0]["name"], "Northgate United – São Miguel Atlético");
    assert_eq!(search("rovers").await, json!([]));
    stack.stop().await;
}

/// Runs on a stack of its own, because other tests on the same stack could not list matches while the catalog
/// is damaged.
#[tokio::test]
async fn an_import_rebuilds_a_damaged_catalog_and_rejects_ids_of_another_feed() {
    let (stack, app) = empty_stack().await;
    let import = async |document: &str| app.invoke("feed", &serde_json::from_str(document).unwrap()).await;
    let foreign = import(include_str!("../../../events/feed/openfootball.json")).await;
    assert_eq!(foreign["created"], 9, "{foreign}");

    let client = StoreUnderTest::connect(&stack.dynamodb).client;
    let damage = AttributeValue::B(Blob::new(*b"damaged"));
    let chunks = chunks(&client).await;
    assert!(!chunks.is_empty());
    for mut chunk in chunks {
        for value in chunk.values_mut().filter(|value| value.is_b()) {
            *value = damage.clone();
        }
        client.put_item().table_name(CATALOG).set_item(Some(chunk)).send().await.unwrap();
    }

    let ours = import(include_str!("../../../events/feed/touchline.json")).await;
    assert!(ours["rejected"].as_u64() > Some(0), "ids of the other feed are rejected: {ours}");
    let is_damaged = |chunk: &Item| chunk.values().any(|value| *value == damage);
    let rebuilt = self::chunks(&client).await.into_iter().filter(|chunk| !is_damaged(chunk)).count();
    assert!(rebuilt > 0, "the import wrote a new snapshot");
    stack.stop().await;
}

/// Returns the chunks of all snapshots of the catalog.
async fn chunks(client: &Client) -> Vec<Item> {
    let rows = client.scan().table_name(CATALOG).send().await.unwrap().items.unwrap_or_default();
    let is_chunk = |row: &Item| {
        row["pk"].as_s().unwrap().starts_with("snapshot#") && row["sk"].as_s().unwrap() != "index"
    };
    rows.into_iter().filter(is_chunk).collect()
}
