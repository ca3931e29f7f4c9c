//! The steps after an update: the move of usernames to keys with a hash, and the items with which a search finds users.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::json;
use touchline::domain::{UserId, Username};
use touchline::storage::keys::{self, Key};
use touchline_testing::TestApp;

use super::app;

/// Stores the item of a username as version 0.1.0 did.
async fn store_unhashed(app: &TestApp, name: &str, user: u32) {
    let item = HashMap::from([
        ("pk".to_owned(), AttributeValue::S(format!("name#{name}"))),
        ("sk".to_owned(), AttributeValue::S("owner".into())),
        ("user_id".to_owned(), AttributeValue::N(user.to_string())),
    ]);
    let users = &app.config.tables.users;
    app.client().put_item().table_name(users).set_item(Some(item)).send().await.unwrap();
}

#[tokio::test]
async fn usernames_of_earlier_versions_are_moved_and_belong_to_their_users() {
    let (app, _homeserver) = app().await;
    let (alice, bob) = (app.user("alice").await, app.user("bob").await);
    store_unhashed(&app, "ada", alice.id).await;
    store_unhashed(&app, "alice", alice.id).await;
    store_unhashed(&app, "bob", alice.id).await;
    // A user who has deleted the account.
    store_unhashed(&app, "carol", 77).await;
    let result = app.invoke(crate::handle, json!({ "hash_names": {} })).await;
    // Bob has taken the username before the move.
    assert_eq!(result, json!({ "moved": 3, "conflicts": [alice.id], "next": null }));
    for (name, user) in
        [("ada", Some(alice.id)), ("alice", Some(alice.id)), ("bob", Some(bob.id)), ("carol", None)]
    {
        let name = Username::parse(name).unwrap();
        assert_eq!(app.store.user_named(&name).await.unwrap(), user.map(UserId), "{name:?}");
        assert!(app.store.is_username_taken(&name).await.unwrap(), "{name:?}");
    }
    let profile = app.store.user(UserId(alice.id), touchline::storage::Reads::Consistent).await.unwrap();
    let former: Vec<String> =
        profile.unwrap().former_usernames.iter().map(|name| name.as_str().to_owned()).collect();
    assert_eq!(former, ["ada", "bob"]);
    let result = app.invoke(crate::handle, json!({ "hash_names": {} })).await;
    assert_eq!(result, json!({ "moved": 0, "conflicts": [alice.id], "next": null }));
}

#[tokio::test]
async fn users_of_earlier_versions_can_be_found_after_the_indexing() {
    let (app, _homeserver) = app().await;
    let (alice, bob) = (app.user("alice").await, app.user("bob").await);
    let users = &app.config.tables.users;
    for name in ["alice", "bob"] {
        let Key { pk, sk } = keys::searched_username(&Username::parse(name).unwrap());
        let delete = app.client().delete_item().table_name(users);
        delete.key("pk", AttributeValue::S(pk)).key("sk", AttributeValue::S(sk)).send().await.unwrap();
    }
    let found = async || alice.searches_users("al").await.expect_data(200).as_array().unwrap().len();
    assert_eq!(found().await, 0);
    for _ in 0..2 {
        let result = app.invoke(crate::handle, json!({ "index_usernames": {} })).await;
        assert_eq!(result, json!({ "indexed": 2, "next": null }));
        assert_eq!(found().await, 1);
    }
    assert_eq!(alice.searches_users("bob").await.expect_data(200)[0]["id"], bob.id);
    let from = json!({ "index_usernames": { "from": ["user#2", "profile"] } });
    assert!(app.invoke(crate::handle, from).await["indexed"].as_u64().unwrap() < 2);
}
