use serde_json::{Value, json};
use touchline_testing::{Api as _, User};

use super::predictions::new_match;
use crate::store::StoreUnderTest;
use crate::target::{HttpApi, eventually, unique_name};

/// What a user has entered.
struct Entered {
    name: String,
    email: String,
    text: String,
}

/// Uses what the service offers.
async fn uses_everything(app: &HttpApi, user: &User<HttpApi>, other: &User<HttpApi>) -> Entered {
    let entered =
        Entered { name: unique_name(), email: format!("{}@example.org", unique_name()), text: unique_name() };
    let details = user.updates_profile().name(&entered.name).email(&entered.email);
    details.date_of_birth("1987-03-29").await.expect(200);
    let event = u32::try_from(new_match(app).await["id"].as_u64().unwrap()).unwrap();
    user.predicts(event).home().await.expect(201);
    user.claims_daily_coins().await.expect(200);
    let room = user.creates_room(&unique_name()).about_event(event).await.room_id();
    user.creates_invite_link(&room).await.expect(201);
    user.blocks(other.id).await.expect(200);
    user.reports("spam").user(other.id).field("text", entered.text.as_str()).await.expect(201);
    entered
}

/// Returns which of these texts are in an item of any table.
async fn stored(store: &StoreUnderTest, texts: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for role in ["users", "rooms", "predictions", "wallets", "sms_logs", "directory", "catalog"] {
        for item in store.all(role).await {
            let item = format!("{item:?}");
            found.extend(
                texts.iter().filter(|text| item.contains(**text)).map(|text| format!("{role} {text}")),
            );
        }
    }
    found
}

#[tokio::test]
async fn a_deleted_account_is_gone_from_every_table_within_a_minute() {
    let (app, store) = (HttpApi::under_test(), HttpApi::store());
    let (alice, bob) = (app.user("alice").await, app.user("bob").await);
    let Entered { name, email, text } = uses_everything(&app, &alice, &bob).await;
    let texts = [alice.phone.as_str(), &name, &email, &text, &alice.username];
    let before = stored(&store, &texts).await;
    for text in texts {
        assert!(before.iter().any(|found| found.ends_with(text)), "{text} is stored: {before:?}");
    }
    alice.requests_deletion().await.expect(200);
    let code = app.last_code(&alice.phone).await;
    alice.confirms_deletion(&code).await.expect(200);
    alice.views_profile().await.expect_error(401, "token_invalid");
    // The work itself, under the key `cleanup`, has the phone and the username until the second run.
    let left = async || {
        let mut left = stored(&store, &texts).await;
        let work = store.find("users", "cleanup", &format!("erase#{}", alice.id)).await;
        if !work.is_empty() {
            left.retain(|found| {
                ![&alice.phone, &alice.username].into_iter().any(|text| *found == format!("users {text}"))
            });
        }
        left
    };
    let left = eventually(left, Vec::is_empty).await;
    assert_eq!(left, Vec::<String>::new());
    let check = app.anonymous().checks_username(&alice.username).await.expect(200);
    assert_eq!(check["available"], false, "nobody can take the username");
}

#[tokio::test]
async fn an_export_has_what_the_user_entered() {
    let app = HttpApi::under_test();
    let (alice, bob) = (app.user("alice").await, app.user("bob").await);
    let Entered { name, email, text } = uses_everything(&app, &alice, &bob).await;
    let complete = |export: &Value| export["rooms"].as_array().unwrap().len() == 1;
    let export = eventually(async || alice.exports_account().await.expect_data(200), complete).await;
    let profile = &export["profile"];
    assert_eq!(
        [
            &profile["phone"],
            &profile["username"],
            &profile["name"],
            &profile["email"],
            &profile["date_of_birth"]
        ],
        [&json!(alice.phone), &json!(alice.username), &json!(name), &json!(email), &json!("1987-03-29")]
    );
    assert_eq!(export["reports"][0]["text"], *text);
    assert_eq!(export["blocks"][0]["user_id"], bob.id);
    assert_eq!(export["invite_links"].as_array().unwrap().len(), 1);
    assert_eq!(export["predictions"][0]["prediction"], "home");
    assert_eq!(export["coins"]["entries"].as_array().unwrap().len(), 1);
    assert!(!export.to_string().contains(&bob.phone));
}

#[tokio::test]
async fn an_account_can_be_deleted_without_the_app() {
    let app = HttpApi::under_test();
    let alice = app.user("alice").await;
    let page = app.anonymous().get("/account/delete").await.expect(200);
    assert!(page.as_str().unwrap().contains("Delete your Touchline account"));
    let code = app.anonymous().receives_code(&alice.phone).await;
    app.anonymous().deletes_account_of(&alice.phone, &code).await.expect(200);
    alice.views_profile().await.expect_error(401, "token_invalid");
}

#[tokio::test]
async fn usernames_of_earlier_versions_can_be_moved_while_the_service_is_in_use() {
    let result = HttpApi::under_test().invoke("erasure", &json!({ "hash_names": {} })).await;
    assert_eq!(result, json!({ "moved": 0, "conflicts": [], "next": null }));
}
