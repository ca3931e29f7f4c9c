//! The deletion of accounts, from the request to the last deleted item.

use chrono::TimeDelta;
use serde_json::{Value, json};
use touchline::domain::UserId;
use touchline::domain::cleanup::REQUESTS_END;
use touchline_testing::{Fault, HomeserverStandIn, Response, TestApp, User};

use super::{deliver, sweep};

const PHONE: &str = "+447700900123";

/// What alice has entered, and must be nowhere after the deletion.
const ENTERED: [&str; 8] = [
    PHONE,
    "ada.lovelace@example.org",
    "Ada Augusta Lovelace",
    "1990-05-17",
    "first_name",
    "firstname",
    "countess",
    "He shouts at everybody",
];

/// Alice and Bob have used everything that the service offers.
struct World {
    app: TestApp,
    homeserver: HomeserverStandIn,
    alice: User,
    bob: User,
    room: String,
    /// The code of alice's invite link.
    code: String,
}

impl World {
    async fn start() -> Self {
        let homeserver = HomeserverStandIn::start().await;
        let app = TestApp::serving(&[
            login::router,
            profile::router,
            chat::router,
            teams::router,
            coins::router,
            predictions::router,
        ])
        .variable("CHAT_HOMESERVER_URL", homeserver.url())
        .variable("CHAT_AS_TOKEN", "as-token-of-the-tests")
        .start()
        .await;
        let league = serde_json::from_str(include_str!("../../../../events/feed/touchline.json")).unwrap();
        app.invoke(feed::handle, league).await;
        let alice = app.sign_in(PHONE).await;
        let bob = app.sign_in("+447700900124").await;
        alice.updates_profile().username("first_name").await.expect(200);
        let details = alice.updates_profile().name("Ada Augusta Lovelace").email("ada.lovelace@example.org");
        details.date_of_birth("1990-05-17").username("countess").await.expect(200);
        alice.saves_primary_team(1).await.expect(200);
        alice.saves_other_teams(&[2]).await.expect(200);
        let room = alice.creates_room("North Stand").about_event(1).await.room_id();
        let code = alice.creates_invite_link(&room).await.link_code();
        bob.accepts_invite_link(&code).await.expect(200);
        let den = bob.creates_room("Den").private().await.room_id();
        bob.invites_to(&den).user(alice.id).await.expect(200);
        for (user, pick) in [(&alice, "home"), (&bob, "away")] {
            user.predicts(1).pick(pick).await.expect(201);
            user.claims_daily_coins().await.expect(200);
        }
        alice.deducts(5).await.expect(200);
        alice.blocks(bob.id).await.expect(200);
        alice.reports("abuse").user(bob.id).field("text", "He shouts at everybody").await.expect(201);
        alice.initiates_verification("+447700900777").await.expect(200);
        let world = Self { app, homeserver, alice, bob, room, code };
        world.count().await;
        world
    }

    /// Delivers all changes to `tally`.
    async fn count(&self) {
        let tables = &self.app.config.tables;
        for table in [&tables.predictions, &tables.rooms, &tables.rooms, &tables.predictions] {
            let changes = self.app.changes(table).await;
            self.app.invoke(tally::handle, changes).await;
        }
    }

    async fn deletes_account(&self) -> Response {
        self.alice.requests_deletion().await.expect(200);
        let code = self.app.sns.last_code(PHONE);
        self.alice.confirms_deletion(&code).await
    }

    /// Advances the clock until no earlier request can be running, and runs the schedule.
    async fn finish(&self) -> Value {
        self.app.clock.advance(REQUESTS_END);
        sweep(&self.app).await
    }

    /// Returns what alice entered and what is still stored.
    async fn left(&self) -> Vec<String> {
        let dump = self.app.dump().await;
        let texts = ENTERED.into_iter().chain([self.code.as_str(), "link#"]);
        texts.filter(|text| dump.contains(text)).map(str::to_owned).collect()
    }

    /// Returns the counts and the sums that a deletion must not change.
    async fn totals(&self) -> Value {
        let store = &self.app.store;
        let (wallet, entries) = store.statement(UserId(self.alice.id)).await.unwrap().unwrap();
        let list = self.bob.lists_event_predictions(1).await.expect(200);
        json!([list["meta"], wallet.balance, entries.len(), list["data"].as_array().unwrap().len()])
    }
}

#[tokio::test]
async fn nothing_that_a_deleted_user_entered_is_left_and_counts_and_sums_stay() {
    let world = World::start().await;
    // The look-alike key is stored as a hash. The code and the key of an invite link are added.
    assert_eq!(world.left().await.len(), ENTERED.len() - 1 + 2);
    let before = world.totals().await;
    world.deletes_account().await.expect(200);
    world.alice.views_profile().await.expect_error(401, "token_invalid");
    deliver(&world.app).await;
    // Only the item of the unfinished work still contains these texts. The second run deletes it.
    assert_eq!(world.left().await, [PHONE, "first_name", "countess"]);
    assert_eq!(world.finish().await["waiting"], 0);
    assert_eq!(world.left().await, Vec::<String>::new());
    world.count().await;
    assert_eq!(world.totals().await, before);
    let listed = world.bob.lists_event_predictions(1).await.expect(200);
    let users: Vec<&Value> = listed["data"].as_array().unwrap().iter().map(|row| &row["user"]).collect();
    assert!(
        users.contains(&&json!({ "id": world.alice.id, "username": "deleted", "name": null })),
        "{users:?}"
    );
    for user in [world.alice.id.to_string(), "countess".into(), "first_name".into()] {
        world.bob.views_user(&user).await.expect_error(404, "user_not_found");
    }
    assert_eq!(world.bob.searches_users("co").await.expect_data(200), json!([]));
    let stats = world.bob.views_member_stats(&world.room).await.expect_data(200);
    assert_eq!(stats["total_members"], 1, "{stats}");
    let requests = world.homeserver.take_requests();
    for name in ["first_name", "countess"] {
        let deactivated = format!("POST account/deactivate @{name}:touchline.local");
        assert!(requests.contains(&deactivated), "{requests:?}");
    }
}

#[tokio::test]
async fn a_deleted_username_stays_reserved_and_the_phone_gets_a_new_account() {
    let world = World::start().await;
    world.deletes_account().await.expect(200);
    deliver(&world.app).await;
    world.finish().await;
    world.app.clock.advance(TimeDelta::hours(1));
    let again = world.app.sign_in(PHONE).await;
    assert!(again.id > world.bob.id, "a new account");
    for name in ["countess", "c0untess", "first_name", "firstname"] {
        let body = again.checks_username(name).await.expect(200);
        assert_eq!(body["available"], false, "{name}");
    }
    let profile = again.views_profile().await.expect_data(200);
    assert_eq!((&profile["name"], &profile["email"]), (&Value::Null, &Value::Null));
    // Another run of the same work does not touch the new account.
    deliver(&world.app).await;
    assert_eq!(again.views_profile().await.expect_data(200), profile);
}

#[tokio::test]
async fn a_homeserver_that_is_down_delays_only_the_deletion_in_chat() {
    let world = World::start().await;
    world.homeserver.set_down(true);
    world.deletes_account().await.expect(200);
    deliver(&world.app).await;
    // The deletion in chat, and the logouts of the devices of two former usernames.
    assert_eq!(world.finish().await["waiting"], 3);
    // The names of the chat accounts stay until the homeserver responds.
    assert_eq!(world.left().await, ["first_name", "countess"]);
    world.homeserver.set_down(false);
    assert_eq!(sweep(&world.app).await, json!({ "finished": 3, "waiting": 0 }));
    assert_eq!(world.left().await, Vec::<String>::new());
}

/// The process ends before or after each call of the store.
#[tokio::test]
async fn a_deletion_that_stops_at_any_store_call_is_finished_by_the_next_run() {
    let mut calls_before_crash = 0;
    loop {
        let world = World::start().await;
        world.deletes_account().await.expect(200);
        let changes = world.app.changes(&world.app.config.tables.users).await;
        let calls = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counter = std::sync::Arc::clone(&calls);
        world.app.faults.set(move |_| {
            let call = counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            match call.cmp(&calls_before_crash) {
                std::cmp::Ordering::Less => Fault::None,
                std::cmp::Ordering::Equal => Fault::LoseResponse,
                std::cmp::Ordering::Greater => Fault::LoseRequest,
            }
        });
        let _ = world.app.try_invoke(crate::handle, changes).await;
        world.app.faults.clear();
        world.finish().await;
        // A second run, if the first one had to begin with the homeserver.
        world.finish().await;
        assert_eq!(world.left().await, Vec::<String>::new(), "after {calls_before_crash} calls");
        if calls.load(std::sync::atomic::Ordering::Relaxed) <= calls_before_crash {
            assert!(calls_before_crash > 20, "{calls_before_crash}");
            return;
        }
        calls_before_crash += 1;
    }
}

#[tokio::test]
async fn no_invite_link_of_a_deleted_user_works() {
    let world = World::start().await;
    let carol = world.app.sign_in("+447700900125").await;
    world.deletes_account().await.expect(200);
    // Even before `erasure` runs.
    carol.accepts_invite_link(&world.code).await.expect_error(404, "invite_link_not_found");
    deliver(&world.app).await;
    world.finish().await;
    carol.accepts_invite_link(&world.code).await.expect_error(404, "invite_link_not_found");
}

/// A request that was under way during the deletion stores something afterwards.
#[tokio::test]
async fn what_a_late_request_stores_is_deleted_by_the_second_run() {
    let world = World::start().await;
    world.deletes_account().await.expect(200);
    deliver(&world.app).await;
    let late = touchline::domain::Token::new(UserId(world.alice.id), [9; 32]);
    let now = world.app.clock.now();
    let session = touchline::storage::users::Session::starting("LATE".into(), TimeDelta::days(1), now);
    world.app.store.save_session(&late, &session).await.unwrap();
    world.finish().await;
    world.app.with_token(late.as_str()).lists_sessions().await.expect_error(401, "token_invalid");
    assert!(!world.app.dump().await.contains("LATE"));
}
