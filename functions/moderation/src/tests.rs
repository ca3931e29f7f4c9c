use chrono::TimeDelta;
use serde_json::{Value, json};
use touchline_testing::{Fault, TestApp, User, concurrently};

use super::*;

async fn app() -> (TestApp, [User; 3]) {
    let app = TestApp::serving(&[login::router, profile::router, chat::router]).start().await;
    let users = [app.user("alice").await, app.user("bob").await, app.user("carol").await];
    (app, users)
}

/// Returns the payload of an action.
fn order(action: &str, fields: &Value) -> Value {
    let mut order = json!({ "operator": "ana@example.org", "reason": "Spam in many rooms." });
    order.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    json!({ action: order })
}

async fn moderate(app: &TestApp, action: &str, fields: Value) -> Value {
    app.invoke(handle, order(action, &fields)).await
}

async fn fails(app: &TestApp, payload: Value) -> String {
    app.try_invoke(handle, payload).await.unwrap_err().to_string()
}

async fn open_reports(app: &TestApp) -> Vec<Value> {
    let list = app.invoke(handle, json!({ "list_reports": { "status": "open" } })).await;
    list["reports"].as_array().unwrap().clone()
}

/// Returns the actions and subjects of the audit, newest first.
async fn audit(app: &TestApp) -> Vec<String> {
    let list = app.invoke(handle, json!({ "audit": {} })).await;
    let entry = |entry: &Value| {
        format!("{} {}", entry["action"].as_str().unwrap(), entry["subject"].as_str().unwrap())
    };
    list["entries"].as_array().unwrap().iter().map(entry).collect()
}

#[tokio::test]
async fn invalid_payloads_fail_with_the_reason_and_leave_no_audit_entry() {
    let (app, _) = app().await;
    let suspend = |fields: Value| order("suspend", &fields);
    for (payload, reason) in [
        (json!({}), "payload"),
        (json!({ "suspend": { "user_id": 1 } }), "operator"),
        (suspend(json!({ "user_id": 1, "operator": " " })), "operator"),
        (suspend(json!({ "user_id": 1, "reason": "" })), "reason"),
        (suspend(json!({ "user_id": 1, "id": "" })), "id"),
        (suspend(json!({ "user_id": 99 })), "no user 99"),
        (order("remove_room", &json!({ "room_id": "!x:y" })), "no room !x:y"),
        (order("close_report", &json!({ "report_id": "1-x" })), "no report 1-x"),
        (json!({ "list_reports": { "cursor": "x" } }), "cursor"),
        (json!({ "list_reports": { "limit": 101 } }), "limit"),
    ] {
        let error = fails(&app, payload.clone()).await;
        assert!(error.contains(reason), "{payload}: {error}");
    }
    assert_eq!(audit(&app).await, [""; 0]);
}

#[tokio::test]
async fn reports_are_listed_oldest_first_and_closed() {
    let (app, [alice, bob, carol]) = app().await;
    alice.reports("spam").user(bob.id).field("text", "Links").await.expect(201);
    // The list goes on in the next month.
    app.clock.advance(TimeDelta::days(20));
    let carol = app.sign_in(&carol.phone).await;
    carol.reports("abuse").user(bob.id).await.expect(201);
    let reports = open_reports(&app).await;
    assert_eq!(
        reports[0],
        json!({
            "id": reports[0]["id"], "status": "open", "reporter_id": alice.id, "user_id": bob.id, "room_id": null,
            "message_id": null, "reason": "spam", "text": "Links", "opened_at": "2026-11-15T12:00:00Z",
            "updated_at": "2026-11-15T12:00:00Z", "closed_at": null,
        })
    );
    assert_eq!((reports.len(), &reports[1]["reporter_id"]), (2, &json!(carol.id)));

    let first = app.invoke(handle, json!({ "list_reports": { "limit": 1 } })).await;
    assert_eq!(first["reports"][0], reports[0]);
    let second = json!({ "list_reports": { "limit": 1, "cursor": first["cursor"] } });
    assert_eq!(app.invoke(handle, second).await["reports"][0], reports[1]);

    for _ in 0..2 {
        let closed = moderate(&app, "close_report", json!({ "report_id": reports[0]["id"] })).await;
        assert_eq!(closed["report"]["closed_at"], "2026-12-05T12:00:00Z");
    }
    assert_eq!(open_reports(&app).await, [reports[1].clone()]);
    let closed = app.invoke(handle, json!({ "list_reports": { "status": "closed" } })).await;
    assert_eq!(closed["reports"][0]["id"], reports[0]["id"]);

    // The reporter reports the same user again.
    app.clock.advance(TimeDelta::days(1));
    let alice = app.sign_in(&alice.phone).await;
    alice.reports("spam").user(bob.id).await.expect(201);
    assert_eq!(open_reports(&app).await.len(), 2);
    let closed = app.invoke(handle, json!({ "list_reports": { "status": "closed" } })).await;
    assert_eq!(closed["reports"], json!([]));
}

#[tokio::test]
async fn a_suspended_user_is_logged_out_and_cannot_log_in_until_restored() {
    let (app, [_, bob, carol]) = app().await;
    let phone = app.sign_in(&bob.phone).await;
    let result = moderate(&app, "suspend", json!({ "user_id": bob.id })).await;
    assert_eq!(
        (&result["suspended_at"], &result["sessions_ended"], &result["complete"], &result["was_suspended"]),
        (&json!("2026-11-15T12:00:00Z"), &json!(2), &json!(true), &json!(false))
    );
    for session in [&bob, &phone] {
        session.views_profile().await.expect_error(401, "token_invalid");
        session.requests_chat_credentials().await.expect_error(401, "token_invalid");
    }
    for _ in 0..2 {
        let code = app.anonymous().receives_code(&bob.phone).await;
        let rejected = app.anonymous().verifies_code(&bob.phone, &code).await;
        rejected.expect_error(403, "suspended");
        assert!(rejected.message().contains("Contact the support"), "{}", rejected.message());
        // The code is spent. A wrong code does not tell that the user is suspended.
        app.anonymous().logs_in(&bob.phone, &code).await.expect_error(401, "invalid_code");
    }
    let code = app.anonymous().receives_code(&bob.phone).await;
    app.anonymous().logs_in(&bob.phone, &code).await.expect_error(403, "suspended");
    carol.views_profile().await.expect(200);

    let again = moderate(&app, "suspend", json!({ "user_id": bob.id })).await;
    assert_eq!((&again["was_suspended"], &again["sessions_ended"]), (&json!(true), &json!(0)));
    app.clock.advance(TimeDelta::minutes(11));
    assert_eq!(moderate(&app, "restore", json!({ "user_id": bob.id })).await["was_suspended"], true);
    assert_eq!(moderate(&app, "restore", json!({ "user_id": bob.id })).await["was_suspended"], false);
    assert_eq!(app.sign_in(&bob.phone).await.id, bob.id);
    assert_eq!(audit(&app).await, ["restore user 2", "restore user 2", "suspend user 2", "suspend user 2"]);
}

/// A session that is stored after the first pass stands for a login that was under way.
#[tokio::test]
async fn a_login_that_races_with_the_suspension_leaves_no_session() {
    let (app, [_, bob, _]) = app().await;
    let (store, clock) = (app.store.clone(), app.clock.clone());
    let token = touchline::domain::Token::new(touchline::domain::UserId(bob.id), [9; 32]);
    let late = app.with_token(token.as_str());
    let is_stored = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (flag, session_token) = (std::sync::Arc::clone(&is_stored), token.clone());
    // The first query reads the sessions of the first pass. Afterwards the login stores its session.
    let (sender, receiver) = std::sync::mpsc::channel();
    app.faults.set(move |attempt| {
        if attempt.operation == "Query" && !flag.swap(true, std::sync::atomic::Ordering::SeqCst) {
            let _ = sender.send(());
        }
        Fault::None
    });
    let suspension = moderate(&app, "suspend", json!({ "user_id": bob.id }));
    let login = async {
        while receiver.try_recv().is_err() {
            tokio::task::yield_now().await;
        }
        let session =
            touchline::storage::users::Session::starting("D".into(), TimeDelta::days(30), clock.now());
        store.save_session(&session_token, &session).await.unwrap();
    };
    let (result, ()) = futures_util::join!(suspension, login);
    app.faults.clear();
    assert_eq!(result["sessions_ended"], 2, "{result}");
    late.views_profile().await.expect_error(401, "token_invalid");
}

#[tokio::test]
async fn a_change_of_the_phone_that_is_under_way_does_not_end_the_suspension() {
    const NEW_PHONE: &str = "+447700900555";
    let (app, [_, bob, _]) = app().await;
    bob.initiates_verification(NEW_PHONE).await.expect(200);
    let code = app.sns.last_code(NEW_PHONE);
    let user = app.store.user(touchline::domain::UserId(bob.id), touchline::storage::Reads::Consistent);
    let user = user.await.unwrap().unwrap();
    moderate(&app, "suspend", json!({ "user_id": bob.id })).await;
    bob.verifies_phone(NEW_PHONE, &code).await.expect_error(401, "token_invalid");
    // The request had passed the check of the session.
    let phone = touchline::domain::Phone::parse(NEW_PHONE).unwrap();
    let typed = touchline::domain::OneTimeCode::parse(&code).unwrap();
    let stored = touchline::flows::codes::check_verification(&app, &phone, user.id, &typed).await.unwrap();
    let change = touchline::storage::users::ChangePhone {
        user: &user,
        phone: &phone,
        code: &stored,
        network: None,
        nonce: "n",
        session: touchline::domain::session::SessionId("DEVICE".into()),
    };
    app.store.change_phone(&change, app.clock.now()).await.unwrap_err();
    let code = app.anonymous().receives_code(&bob.phone).await;
    app.anonymous().verifies_code(&bob.phone, &code).await.expect_error(403, "suspended");
    assert_ne!(app.sign_in(NEW_PHONE).await.id, bob.id, "a new user");
}

#[tokio::test]
async fn an_id_carries_an_action_out_once() {
    let (app, [_, bob, _]) = app().await;
    bob.updates_profile().name("Rude").await.expect(200);
    let fields = json!({ "user_id": bob.id, "id": "case-7" });
    let first = moderate(&app, "reset_name", fields.clone()).await;
    let username = async || bob.views_profile().await.expect_data(200)["username"].clone();
    let new = username().await;
    let again = moderate(&app, "reset_name", fields).await;
    assert_eq!((&first["replayed"], &again["replayed"]), (&json!(false), &json!(true)));
    assert_eq!(first["username_changed"], again["username_changed"]);
    assert_eq!(username().await, new);
    assert_eq!(audit(&app).await, ["reset_name user 2"]);
    let other = order("restore", &json!({ "user_id": bob.id, "id": "case-7" }));
    assert!(fails(&app, other).await.contains("case-7"));
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_invocations_with_the_same_id_have_one_audit_entry() {
    let (app, [_, bob, _]) = app().await;
    concurrently(8, |_| {
        let (app, fields) = (app.clone(), json!({ "user_id": bob.id, "id": "case-8" }));
        async move { moderate(&app, "suspend", fields).await }
    })
    .await;
    assert_eq!(audit(&app).await, ["suspend user 2"]);
}

#[tokio::test]
async fn a_reset_removes_the_name_and_replaces_a_username_that_is_not_locked() {
    let (app, [alice, bob, _]) = app().await;
    bob.updates_profile().name("Rude Name").await.expect(200);
    let result = moderate(&app, "reset_name", json!({ "user_id": bob.id })).await;
    assert_eq!((&result["name_removed"], &result["username_changed"]), (&json!(true), &json!(true)));
    let profile = bob.views_profile().await.expect_data(200);
    assert_eq!(profile["name"], Value::Null);
    assert_ne!(profile["username"], "bob");

    alice.creates_room("Den").await.expect(201);
    let result = moderate(&app, "reset_name", json!({ "user_id": alice.id })).await;
    assert_eq!((&result["name_removed"], &result["username_changed"]), (&json!(false), &json!(false)));
    assert!(result["note"].as_str().unwrap().contains("locked"), "{result}");
    assert_eq!(alice.views_profile().await.expect_data(200)["username"], "alice");
    bob.updates_profile().name("Fine").await.expect(200);
}

#[tokio::test]
async fn an_operator_deletes_the_account_of_a_suspended_user() {
    let (app, [_, bob, _]) = app().await;
    moderate(&app, "suspend", json!({ "user_id": bob.id })).await;
    let fields = json!({ "user_id": bob.id, "id": "case-9" });
    moderate(&app, "delete_account", fields.clone()).await;
    bob.views_profile().await.expect_error(401, "token_invalid");
    assert_eq!(app.store.cleanups().await.unwrap().len(), 2);
    let again = order("delete_account", &fields);
    assert!(fails(&app, again).await.contains("user"), "the user no longer exists");
    assert_eq!(audit(&app).await, ["delete_account user 2", "suspend user 2"]);
}

/// Lets `tally` process all changes, and then the changes that it made itself.
async fn process_changes(app: &TestApp) {
    let tables = &app.config.tables;
    for table in [&tables.users, &tables.predictions, &tables.rooms, &tables.rooms, &tables.rooms] {
        app.invoke(tally::handle, app.changes(table).await).await;
    }
}

async fn members(app: &TestApp, room: &str) -> i64 {
    process_changes(app).await;
    let id = touchline::domain::RoomId::parse(room).unwrap();
    app.store.room_counts(&id).await.unwrap().totals.members
}

#[tokio::test]
async fn a_removed_room_is_in_no_list_and_has_no_members() {
    let (app, [alice, bob, carol]) = app().await;
    for (name, is_private) in [("Plaza", false), ("Den", true)] {
        let create = alice.creates_room(name);
        let create = if is_private { create.private() } else { create };
        let room = create.clone().idempotency_key(name).await.room_id();
        alice.invites_to(&room).user(bob.id).await.expect(200);
        bob.joins(&room).await.expect(200);
        alice.invites_to(&room).user(carol.id).await.expect(200);
        assert_eq!(members(&app, &room).await, 2);
        let listed = async |user: &User| {
            let list = user.lists_rooms().search(name).await.expect_data(200).as_array().unwrap().len();
            let joined = user.lists_rooms().joined().await.expect_data(200).as_array().unwrap().len();
            (list, joined)
        };
        assert_eq!((listed(&alice).await, listed(&carol).await), ((1, 1), (1, 0)));

        for expected in [3, 0] {
            let removed = moderate(&app, "remove_room", json!({ "room_id": room })).await;
            assert_eq!((&removed["members_removed"], &removed["complete"]), (&json!(expected), &json!(true)));
        }
        for user in [&alice, &bob, &carol] {
            assert_eq!(listed(user).await, (0, 0), "{name}");
            user.joins(&room).await.expect_error(404, "room_not_found");
            user.leaves(&room).await.expect_error(404, "room_not_found");
            user.invites_to(&room).user(alice.id).await.expect_error(404, "room_not_found");
            user.views_member_stats(&room).await.expect_error(404, "room_not_found");
            user.lists_rooms().await.expect(200);
        }
        assert_eq!(members(&app, &room).await, 0);
        process_changes(&app).await;
        assert_eq!(listed(&alice).await, (0, 0), "{name}");
        assert!(!app.dump().await.contains("\"pk\": S(\"directory#"), "the directory has no entry");
        // A retry of the creation gets the same room.
        create.idempotency_key(name).await.expect(200);
    }
}

#[tokio::test]
async fn rooms_of_matches_cannot_be_removed() {
    let (app, _) = app().await;
    let league = include_str!("../../../events/feed/touchline.json");
    app.invoke(feed::handle, serde_json::from_str(league).unwrap()).await;
    let error = fails(&app, order("remove_room", &json!({ "room_id": "!match1:touchline.local" }))).await;
    assert!(error.contains("belongs to a match"), "{error}");
    assert_eq!(audit(&app).await, [""; 0]);
}

#[tokio::test]
async fn a_removal_is_resumed_after_a_crash_at_any_step() {
    for failing in 1.. {
        let (app, [alice, bob, carol]) = app().await;
        let room = alice.creates_room("Plaza").await.room_id();
        bob.joins(&room).await.expect(200);
        carol.joins(&room).await.expect(200);
        let mut calls = 0;
        app.faults.set(move |_| {
            calls += 1;
            if calls >= failing { Fault::FailBefore } else { Fault::None }
        });
        let fields = json!({ "room_id": room, "id": "case-9" });
        let first = app.try_invoke(handle, order("remove_room", &fields)).await;
        app.faults.clear();
        let second = moderate(&app, "remove_room", fields).await;
        assert_eq!(second["complete"], true, "{failing}: {second}");
        assert_eq!(members(&app, &room).await, 0, "{failing}");
        bob.joins(&room).await.expect_error(404, "room_not_found");
        assert_eq!(audit(&app).await, [format!("remove_room room {room}")]);
        if first.is_ok() {
            assert!(failing > 10, "the removal makes more than {failing} calls");
            return;
        }
    }
}

#[tokio::test]
async fn a_removal_stops_before_its_deadline_and_is_resumed() {
    let (app, [alice, bob, _]) = app().await;
    let room = alice.creates_room("Plaza").await.room_id();
    bob.joins(&room).await.expect(200);
    let fields = json!({ "room_id": room, "id": "case-10" });
    let deadline = app.clock.now() + TimeDelta::seconds(30);
    let early = handle(App::clone(&app), order("remove_room", &fields), deadline).await.unwrap();
    assert_eq!((&early["complete"], &early["members_removed"]), (&json!(false), &json!(0)));
    bob.joins(&room).await.expect_error(404, "room_not_found");
    let resumed = moderate(&app, "remove_room", fields).await;
    assert_eq!((&resumed["complete"], &resumed["members_removed"]), (&json!(true), &json!(2)));
}

#[tokio::test]
async fn actions_say_when_the_homeserver_is_down_and_can_be_repeated() {
    let app = TestApp::serving(&[login::router, chat::router]).with_chat_down().start().await;
    app.user("alice").await;
    let bob = app.user("bob").await;
    let fields = json!({ "user_id": bob.id, "id": "case-11" });
    for _ in 0..2 {
        let result = moderate(&app, "suspend", fields.clone()).await;
        assert_eq!((&result["complete"], &result["replayed"]), (&json!(false), &json!(false)));
        assert!(result["chat"].as_str().unwrap().contains("Invoke this again"), "{result}");
    }
    bob.lists_blocks().await.expect_error(401, "token_invalid");
    let rooms = app.store_rooms(bob.id, 1, false, touchline::domain::room::Membership::Join).await;
    let removed = moderate(&app, "remove_room", json!({ "room_id": rooms[0].room_id })).await;
    assert_eq!((&removed["complete"], &removed["members_removed"]), (&json!(false), &json!(0)));
}
