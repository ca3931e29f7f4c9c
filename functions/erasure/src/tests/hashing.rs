//! The move of usernames to keys with a hash.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::json;
use touchline::domain::{UserId, Username};
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
