use chrono::TimeDelta;
use serde_json::{Value, json};
use touchline::domain::prediction::{Confidence, Forecast, Stamp};
use touchline::domain::{Pick, UserId};
use touchline::storage::predictions::NewPrediction;
use touchline_testing::TestApp;

#[tokio::test]
async fn an_export_has_everything_that_the_user_entered_and_nothing_of_others() {
    let app = TestApp::serving(&[
        crate::router,
        login::router,
        chat::router,
        coins::router,
        teams::router,
        predictions::router,
    ])
    .start()
    .await;
    let league = serde_json::from_str(include_str!("../../../../events/feed/touchline.json")).unwrap();
    app.invoke(feed::handle, league).await;
    let alice = app.sign_in("+447700900123").await;
    let bob = app.sign_in("+447700900124").await;
    for (user, name) in [(&alice, "ada"), (&bob, "brunel")] {
        let email = format!("{name}@example.org");
        user.updates_profile().name(&name.to_uppercase()).email(&email).await.expect(200);
        user.updates_profile().username(name).date_of_birth("1990-05-17").await.expect(200);
        user.predicts(1).home().score(2, 1).confidence(70).await.expect(201);
        user.claims_daily_coins().await.expect(200);
    }
    alice.saves_primary_team(1).await.expect(200);
    alice.saves_other_teams(&[2]).await.expect(200);
    alice.deducts(5).reference("order-1").await.expect(200);
    let room = alice.creates_room("North Stand").about_event(1).await.room_id();
    let code = alice.creates_invite_link(&room).await.link_code();
    let den = bob.creates_room("Den").private().await.room_id();
    bob.invites_to(&den).user(alice.id).await.expect(200);
    bob.creates_invite_link(&den).await.expect(201);
    alice.blocks(bob.id).await.expect(200);
    alice.reports("abuse").user(bob.id).field("text", "He shouts").await.expect(201);
    alice.initiates_verification("+447700900777").await.expect(200);

    let export = alice.exports_account().await.expect_data(200);
    let profile = &export["profile"];
    assert_eq!(profile["former_usernames"].as_array().unwrap().len(), 1);
    let expected = json!({
        "id": alice.id, "phone": "+447700900123", "previous_phone": null, "username": "ada",
        "former_usernames": profile["former_usernames"], "created_at": profile["created_at"], "name": "ADA",
        "email": "ada@example.org", "date_of_birth": "1990-05-17", "primary_team_id": 1, "other_team_ids": [2],
        "known_networks": 0,
    });
    assert_eq!(*profile, expected);
    assert_eq!(export["chat_user_id"], "@ada:touchline.local");
    assert_eq!(export["pending_verification"], "+447700900777");
    let fields = |list: &str, names: &[&str]| -> Vec<Value> {
        let rows = export[list].as_array().unwrap().iter();
        rows.map(|row| names.iter().map(|name| row[name].clone()).collect()).collect()
    };
    assert_eq!(fields("sessions", &["id", "current"]), [json!([alice.credentials["device_id"], true])]);
    assert_eq!(fields("text_messages", &["status"]), [json!(["sent"])]);
    assert_eq!(fields("blocks", &["user_id"]), [json!([bob.id])]);
    assert_eq!(fields("reports", &["user_id", "reason", "text"]), [json!([bob.id, "abuse", "He shouts"])]);
    let mut rooms = fields("rooms", &["room_id", "membership"]);
    rooms.sort_by_key(ToString::to_string);
    // The block has declined the invitation.
    let mut expected = vec![json!([room, "join"]), json!([den, "leave"])];
    expected.sort_by_key(ToString::to_string);
    assert_eq!(rooms, expected);
    assert_eq!(fields("invite_links", &["room_id", "code"]), [json!([room, code])]);
    let names = ["event_id", "prediction", "score_prediction", "confidence"];
    assert_eq!(fields("predictions", &names), [json!([1, "home", { "home": 2, "away": 1 }, 70])]);
    let coins = alice.views_coins().await.expect_data(200);
    assert_eq!(export["coins"]["balance"], coins["balance"]);
    assert_eq!(export["coins"]["entries"], coins["entries"]);
    assert_eq!(export["statistics"], json!({ "settled": 0, "correct": 0, "points": 0 }));
    assert_eq!(export["is_complete"], true);
    let text = export.to_string();
    for foreign in ["+447700900124", "brunel", "BRUNEL"] {
        assert!(!text.contains(foreign), "{foreign} in {text}");
    }
}

/// The item of such a link stays until it expires.
#[tokio::test]
async fn invite_links_that_the_creator_of_the_room_revoked_are_not_exported() {
    let app = TestApp::serving(&[crate::router, chat::router]).start().await;
    let [alice, bob] = [app.user("alice").await, app.user("bob").await];
    let mut codes = Vec::new();
    for name in ["Plaza", "Terrace"] {
        let room = alice.creates_room(name).await.room_id();
        bob.joins(&room).await.expect(200);
        codes.push((bob.creates_invite_link(&room).await.link_code(), room));
    }
    let exported = async || {
        let links = bob.exports_account().await.expect_data(200)["invite_links"].take();
        let codes = links.as_array().unwrap().iter().map(|link| link["code"].as_str().unwrap().to_owned());
        codes.collect::<Vec<String>>()
    };
    assert_eq!(exported().await.len(), 2);
    alice.revokes_invite_link(&codes[0].1).await.expect(200);
    assert_eq!(exported().await, [codes[1].0.clone()]);
    let again = bob.creates_invite_link(&codes[0].1).await.link_code();
    assert_eq!(exported().await.len(), 2, "the new link {again} is valid");
}

#[tokio::test]
async fn a_user_can_export_ten_times_a_day() {
    let app = TestApp::serving(&[crate::router]).start().await;
    let alice = app.user("alice").await;
    for _ in 0..10 {
        alice.exports_account().await.expect(200);
    }
    alice.exports_account().await.expect_error(429, "rate_limited");
    app.clock.advance(TimeDelta::days(1));
    alice.exports_account().await.expect(200);
}

#[tokio::test]
async fn an_export_has_all_pages_of_predictions_and_coins() {
    let app = TestApp::serving(&[crate::router, coins::router]).start().await;
    let alice = app.user("alice").await;
    for day in 0..120_u32 {
        alice.claims_daily_coins().await.expect(200);
        let new = NewPrediction {
            event_id: day + 1,
            shards: 4,
            user_id: UserId(alice.id),
            forecast: Forecast::new(Pick::Home, None).unwrap(),
            confidence: Confidence::default(),
            stamp: Stamp::new(app.clock.now(), day),
        };
        app.store.predict(&new).await.unwrap();
        app.clock.advance(TimeDelta::days(1));
    }
    let export = alice.exports_account().await.expect_data(200);
    assert_eq!(export["predictions"].as_array().unwrap().len(), 120);
    assert_eq!(export["coins"]["entries"].as_array().unwrap().len(), 120);
}
