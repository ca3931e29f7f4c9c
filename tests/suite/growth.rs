//! Checks that no item collection outgrows its table.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;
use touchline_local::HTTP_FUNCTIONS;
use touchline_testing::TestApp;

/// Returns the number of items by table and partition key, in the tables that have a local index.
async fn collections(app: &TestApp) -> BTreeMap<(String, String), usize> {
    let client = app.client();
    let mut collections = BTreeMap::new();
    for table in client.list_tables().send().await.unwrap().table_names() {
        let described = client.describe_table().table_name(table).send().await.unwrap().table.unwrap();
        if described.local_secondary_indexes().is_empty() {
            continue;
        }
        let items = client.scan().table_name(table).into_paginator().items().send();
        for item in items.collect::<Result<Vec<_>, _>>().await.unwrap() {
            let AttributeValue::S(pk) = &item["pk"] else { panic!("{item:?}") };
            *collections.entry((table.clone(), pk.clone())).or_default() += 1;
        }
    }
    collections
}

/// In a table with a local index, DynamoDB keeps all items of a partition key on one partition, which takes 10 GB and
/// 1,000 writes a second. So each partition key of such a table must belong to one user or one room, and must not get
/// items when there are more of them.
#[tokio::test]
async fn partition_keys_of_tables_with_a_local_index_do_not_grow_with_users_and_rooms() {
    let app = TestApp::serving(&HTTP_FUNCTIONS.map(|(_, router)| router)).start().await;
    let league = include_str!("../../events/feed/touchline.json");
    app.invoke(feed::handle, serde_json::from_str(league).unwrap()).await;
    let mut sizes = Vec::new();
    for round in ["one", "two"] {
        for n in 0..3 {
            let fan = app.user(&format!("fan.{round}.{n}")).await;
            fan.creates_room(&format!("Corner {round} {n}")).about_event(1).await.expect(201);
            fan.creates_room(&format!("Den {round} {n}")).private().await.expect(201);
            fan.claims_daily_coins().await.expect(200);
        }
        for _ in 0..3 {
            app.invoke(tally::handle, app.changes(&app.config.tables.rooms).await).await;
        }
        sizes.push(collections(&app).await);
    }
    let [before, after] = &sizes[..] else { panic!("two rounds") };
    for table in [&app.config.tables.rooms, &app.config.tables.wallets] {
        assert!(before.keys().any(|(of, _)| of == table), "{table} has a local index and items");
    }
    for (key, size) in before {
        assert_eq!(after.get(key), Some(size), "{key:?} grows with the number of users or rooms");
    }
}
