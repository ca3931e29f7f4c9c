//! Measures what each endpoint costs in DynamoDB calls and capacity units. The test fails when a figure
//! exceeds its ceiling or differs from `docs/costs.md`.

use std::fmt::Write as _;

use chrono::TimeDelta;
use serde_json::{Value, json};
use touchline::api::{self, Anyone, Caller as _, Homeserver};
use touchline::domain::UserId;
use touchline::domain::prediction::{Confidence, Forecast, Pick, Stamp};
use touchline::domain::room::{Membership, RoomId};
use touchline::domain::standings::table::Table;
use touchline::domain::standings::{self, Board, UserTally};
use touchline::domain::tally::UserStats;
use touchline::storage::directory::RoomChange;
use touchline::storage::exactly_once::Addition;
use touchline::storage::predictions::NewPrediction;
use touchline::storage::sequence::Sequence;
use touchline::storage::tallies::{Aggregate, VersionedStats};
use touchline_local::HTTP_FUNCTIONS;
use touchline_testing::{Response, TestApp, User, next_position};

use crate::contract::root;

#[derive(Debug, Clone, Copy, PartialEq)]
struct Cost {
    calls: u32,
    /// Calls that overlap in time are one round.
    rounds: u32,
    /// Read capacity units.
    reads: f64,
    /// Write capacity units.
    writes: f64,
}

/// The cost of reading the session. It is subtracted from the cost of each endpoint that needs a token.
const AUTH: Cost = Cost { calls: 1, rounds: 1, reads: 0.5, writes: 0.0 };

fn cost(response: &Response) -> Cost {
    let header = response.header("x-touchline-cost").unwrap();
    let value = |name: &str| -> f64 {
        let part = header.split(' ').find_map(|part| part.strip_prefix(name)?.strip_prefix('=')).unwrap();
        part.parse().unwrap()
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small counts")]
    let count = |name: &str| value(name) as u32;
    Cost { calls: count("calls"), rounds: count("rounds"), reads: value("rcu"), writes: value("wcu") }
}

struct Row {
    endpoint: &'static str,
    case: &'static str,
    cost: Cost,
    status: u16,
    body: Value,
    ceiling: Ceiling,
}

/// The most that a request may cost: read units, write units, rounds.
type Ceiling = (f64, f64, u32);

#[derive(Default)]
struct Measurements(Vec<Row>);

impl Measurements {
    fn add(
        &mut self,
        endpoint: &'static str,
        case: &'static str,
        status: u16,
        ceiling: Ceiling,
        response: Response,
    ) {
        let mut cost = cost(&response);
        let body = response.expect(status);
        let route = api::ALL.iter().find(|route| format!("{} {}", route.method, route.path) == endpoint);
        if route.unwrap_or_else(|| panic!("there is no endpoint {endpoint}")).needs_token {
            cost.calls -= AUTH.calls;
            cost.rounds -= AUTH.rounds;
            cost.reads -= AUTH.reads;
        }
        self.0.push(Row { endpoint, case, cost, status, body, ceiling });
    }
}

/// Returns the endpoint, status and body of each measured request. They are the same on every run.
pub async fn responses() -> impl Iterator<Item = (&'static str, u16, Value)> {
    measure().await.0.into_iter().map(|Row { endpoint, status, body, .. }| (endpoint, status, body))
}

const PHONE: &str = "+447700900123";
const NEW_PHONE: &str = "+447700900555";

/// How long a function uses its cached catalog before it checks for a newer one. The clock advances by this
/// time before each case named "warm", so the cost of these cases includes the check.
const CATALOG_CHECK: TimeDelta = TimeDelta::seconds(1);

async fn measure() -> Measurements {
    let app = TestApp::serving(&HTTP_FUNCTIONS.map(|(_, router)| router)).start().await;
    let mut all = Measurements::default();
    let alice = login(&app, &mut all).await;
    profile(&app, &alice, &mut all).await;
    let league = include_str!("../../events/feed/touchline.json");
    app.invoke(feed::handle, serde_json::from_str(league).unwrap()).await;
    matches_and_teams(&app, &alice, &mut all).await;
    predictions(&app, &alice, &mut all).await;
    leaderboards(&app, &alice, &mut all).await;
    chat(&app, &alice, &mut all).await;
    coins(&app, &alice, &mut all).await;

    let anonymous = app.anonymous();
    let response = anonymous.lists_sms_logs().date("2026-11-15").phone(PHONE).await;
    all.add("GET /api/logs/sms", "one phone, one day", 200, (0.5, 0.0, 1), response);
    let response = anonymous.lists_sms_logs().await;
    all.add("GET /api/logs/sms", "all that is kept", 200, (18.0, 0.0, 9), response);
    let response = anonymous.get("/api/openapi.json").await;
    all.add("GET /api/openapi.json", "", 200, (0.0, 0.0, 0), response);
    let response = anonymous.get("/api/health").await;
    all.add("GET /api/health", "", 200, (0.5, 0.0, 1), response);
    let response = anonymous.get("/account/delete").await;
    all.add("GET /account/delete", "", 200, (0.0, 0.0, 0), response);
    sessions(&app, &alice, &mut all).await;
    account(&app, &mut all).await;
    all
}

/// Measures the export and the deletion of accounts.
async fn account(app: &TestApp, all: &mut Measurements) {
    let phone = "+447700900775";
    let leaver = app.sign_in(phone).await;
    let response = leaver.exports_account().await;
    all.add("GET /api/auth/account/export", "a new user", 200, (20.0, 1.0, 22), response);
    let response = leaver.requests_deletion().await;
    all.add("POST /api/auth/account/delete", "", 200, (2.0, 5.0, 7), response);
    let response = leaver.confirms_deletion(&app.sns.last_code(phone)).await;
    all.add("POST /api/auth/account/delete/confirm", "one session", 200, (2.0, 16.0, 7), response);
    app.sign_in(phone).await;
    let code = app.anonymous().receives_code(phone).await;
    let response = app.anonymous().deletes_account_of(phone, &code).await;
    all.add("POST /api/account/delete", "one session", 200, (3.0, 15.0, 9), response);
}

/// Measures the endpoints of sessions, and ends those of alice.
async fn sessions(app: &TestApp, alice: &User, all: &mut Measurements) {
    let mover = app.user("mover").id(5_000).await;
    mover.initiates_verification("+447700900888").await.expect(200);
    mover.verifies_phone("+447700900888", &app.sns.last_code("+447700900888")).await.expect(200);
    let anonymous = app.anonymous();
    // Some users above have fixed ids. The next user must not get one of them.
    while app.store.draw_user_id().await.unwrap().0 < mover.id {}
    let code = anonymous.receives_code("+447700900776").await;
    let response = anonymous.verifies_code("+447700900776", &code).username("ada.lovelace").await;
    let case = "first login, with a username that also reserves another spelling";
    all.add("POST /api/code/verify", case, 200, (2.0, 16.0, 5), response);
    let code = anonymous.receives_code(&mover.phone).await;
    let response = anonymous.undoes_phone_change(&mover.phone, &code).await;
    let owner = User::from_login(app, &response.clone().expect_data(200));
    all.add("POST /api/phone/undo", "", 200, (3.0, 16.0, 5), response);
    let other = app.sign_in(&mover.phone).await;
    all.add("GET /api/auth/sessions", "few sessions", 200, (1.0, 0.0, 1), owner.lists_sessions().await);
    let id = other.credentials["device_id"].as_str().unwrap_or_default().to_owned();
    let response = owner.revokes_session(&id).await;
    all.add("POST /api/auth/sessions/{session}/revoke", "", 200, (1.0, 1.0, 2), response);
    all.add("POST /api/auth/logout", "", 200, (0.0, 1.0, 1), owner.logs_out().await);
    let response = alice.logs_out().body(json!({ "everywhere": true })).await;
    all.add("POST /api/auth/logout", "everywhere, three sessions", 200, (1.0, 3.0, 2), response);
}

/// Measures the login endpoints, and returns the user who logged in.
async fn login(app: &TestApp, all: &mut Measurements) -> User {
    let anonymous = app.anonymous();
    let request = "POST /api/code/request";
    let response = anonymous.requests_code(PHONE).await;
    all.add(request, "from loopback", 200, (1.0, 4.0, 5), response);
    let response = anonymous.requests_code("+447700900777").from_address("203.0.113.9").await;
    all.add(request, "from an address, which is counted too", 200, (1.5, 6.0, 7), response);

    let verify = "POST /api/code/verify";
    let code = app.sns.last_code(PHONE);
    let wrong = if code == "000000" { "000001" } else { "000000" };
    let response = anonymous.verifies_code(PHONE, wrong).await;
    all.add(verify, "wrong code", 401, (0.0, 1.0, 1), response);
    let response = anonymous.verifies_code(PHONE, &code).await;
    all.add(verify, "first login", 200, (2.0, 14.0, 5), response);
    let code = anonymous.receives_code(PHONE).await;
    let response = anonymous.verifies_code(PHONE, &code).await;
    all.add(verify, "returning user", 200, (2.0, 4.0, 4), response);
    let code = anonymous.receives_code(PHONE).await;
    let response = anonymous.logs_in(PHONE, &code).await;
    let alice = User::from_login(app, &response.body["data"]);
    all.add("POST /api/auth/login", "returning user", 200, (2.0, 4.0, 4), response);

    let check = "POST /api/auth/username/check";
    let response = anonymous.checks_username("alice").await;
    all.add(check, "free", 200, (0.5, 0.0, 1), response);
    let response = anonymous.checks_username(&alice.username).await;
    all.add(check, "taken, with suggestions", 200, (7.0, 0.0, 2), response);
    let response = anonymous.generates_usernames("alice").await;
    all.add("POST /api/auth/username/generate", "", 200, (5.0, 0.0, 1), response);
    alice
}

async fn profile(app: &TestApp, alice: &User, all: &mut Measurements) {
    let response = alice.views_profile().await;
    all.add("GET /api/auth/me", "without teams", 200, (2.5, 0.0, 1), response);
    let update = "POST /api/auth/update-user-info";
    let response = alice.updates_profile().name("Ada").await;
    all.add(update, "details", 200, (0.0, 1.0, 1), response);
    let response = alice.updates_profile().username("ada").await;
    all.add(update, "another username", 200, (2.0, 14.0, 3), response);

    let response = alice.initiates_verification(NEW_PHONE).await;
    all.add("POST /api/auth/verify-phone/initiate", "", 200, (1.0, 5.0, 6), response);
    let response = alice.requests_new_code(NEW_PHONE).await;
    all.add("POST /api/auth/resend-code", "", 200, (1.5, 5.0, 7), response);
    let response = alice.verifies_phone(NEW_PHONE, &app.sns.last_code(NEW_PHONE)).await;
    all.add("POST /api/auth/verify-phone", "another phone", 200, (1.0, 17.0, 5), response);
}

async fn matches_and_teams(app: &TestApp, alice: &User, all: &mut Measurements) {
    let events = "GET /api/auth/events";
    let response = alice.lists_events().await;
    all.add(events, "cold: the snapshot is loaded", 200, (6.0, 0.0, 4), response);
    app.clock.advance(CATALOG_CHECK);
    let response = alice.lists_events().await;
    all.add(events, "warm: the head, and the counts of 4 matches", 200, (2.5, 0.0, 2), response);
    app.clock.advance(CATALOG_CHECK);
    let response = alice.lists_events().include("my_prediction,picks").await;
    all.add(events, "with own predictions and picks of 4 matches, warm", 200, (4.5, 0.0, 2), response);
    let response = alice.lists_events().page(9).status("live").team(3).await;
    all.add(events, "again within a second, an empty page", 200, (0.0, 0.0, 0), response);
    app.clock.advance(CATALOG_CHECK);
    let response = app.anonymous().get("/api/events").await;
    all.add("GET /api/events", "warm: the head", 200, (0.5, 0.0, 1), response);
    app.clock.advance(CATALOG_CHECK);
    let response = alice.views_event(1).await;
    all.add("GET /api/auth/events/{event}", "warm", 200, (1.0, 0.0, 2), response);

    app.clock.advance(CATALOG_CHECK);
    let response = alice.lists_tournaments().await;
    all.add("GET /api/auth/tournaments", "warm", 200, (0.5, 0.0, 1), response);
    app.clock.advance(CATALOG_CHECK);
    let response = alice.lists_sports().await;
    all.add("GET /api/auth/sports", "warm", 200, (0.5, 0.0, 1), response);

    app.clock.advance(CATALOG_CHECK);
    let response = alice.lists_teams().search("a").await;
    all.add("GET /api/auth/teams", "warm", 200, (0.5, 0.0, 1), response);
    app.clock.advance(CATALOG_CHECK);
    let response = alice.saves_primary_team(1).await;
    all.add("POST /api/auth/teams/primary", "warm", 200, (0.5, 2.0, 3), response);
    app.clock.advance(CATALOG_CHECK);
    let response = alice.saves_other_teams(&[2, 3]).await;
    all.add("POST /api/auth/teams/other", "warm", 200, (0.5, 1.0, 2), response);
    app.clock.advance(CATALOG_CHECK);
    let response = alice.views_profile().await;
    all.add("GET /api/auth/me", "with teams, warm", 200, (3.0, 0.0, 2), response);
}

/// Measures new and changed predictions, and lists of about 200 predictions.
async fn predictions(app: &TestApp, alice: &User, all: &mut Measurements) {
    let predict = "POST /api/auth/predictions";
    for (case, status, writes) in [("new, warm", 201, 2.0), ("changed, warm", 200, 1.0)] {
        app.clock.advance(CATALOG_CHECK);
        let response = alice.predicts(1).home().confidence(80).await;
        all.add(predict, case, status, (1.0, writes, 2), response);
    }
    // The tournament of match 50 is not featured, so the predictions for the match are spread over 4 shards instead
    // of 64.
    let league = json!({
        "format": "touchline",
        "tournaments": [{ "id": 2, "name": "Sunday League" }],
        "events": [{
            "id": 50, "tournament_id": 2, "home_team_id": 1, "away_team_id": 2, "status": "scheduled",
            "start_time": "2026-11-20T15:00:00Z",
        }],
    });
    app.invoke(feed::handle, league).await;
    let room = app.store.room(&RoomId::parse("!match50:touchline.local").unwrap()).await.unwrap().unwrap();
    for id in 2..=200 {
        let user = UserId(app.user(&format!("fan.{id}")).id(id).await.id);
        for (event_id, shards) in [(1, 64), (50, 4)] {
            let new = NewPrediction {
                event_id,
                shards,
                user_id: user,
                forecast: Forecast::new(Pick::Draw, None).unwrap(),
                confidence: Confidence::default(),
                stamp: Stamp::new(app.clock.now(), user.0),
            };
            app.store.predict(&new).await.unwrap();
        }
        let join = (Membership::Join, app.clock.now());
        app.store.apply_homeserver_membership(&room, user, join, next_position()).await.unwrap();
    }
    let tables = &app.config.tables;
    for table in [&tables.predictions, &tables.predictions, &tables.rooms, &tables.rooms, &tables.rooms] {
        app.invoke(tally::handle, app.changes(table).await).await;
    }
    app.clock.advance(CATALOG_CHECK);
    alice.lists_events().await.expect(200);
    let of_event = "GET /api/auth/events/{event}/predictions";
    let of_room = "GET /api/auth/chat-rooms/{chatRoom}/predictions";
    for (endpoint, case, request, ceiling) in [
        (of_event, "a page of 50, warm", alice.lists_event_predictions(50), (30.0, 0.0, 3)),
        (
            of_event,
            "the same, where 200 are spread over 64 shards",
            alice.lists_event_predictions(1),
            (35.0, 0.0, 3),
        ),
        (
            of_room,
            "a page of 50, warm",
            alice.lists_room_predictions("!match50:touchline.local"),
            (60.0, 0.0, 3),
        ),
    ] {
        app.clock.advance(CATALOG_CHECK);
        let response = request.await;
        assert_eq!(response.body["data"].as_array().unwrap().len(), 50);
        all.add(endpoint, case, 200, ceiling, response);
    }
    app.clock.advance(CATALOG_CHECK);
    let response = alice.lists_event_predictions(2).await;
    all.add(of_event, "none, of a featured match, warm", 200, (1.5, 0.0, 3), response);
    app.clock.advance(CATALOG_CHECK);
    let response = alice.lists_own_predictions().await;
    all.add("GET /api/auth/predictions", "one, warm", 200, (2.0, 0.0, 3), response);
    app.clock.advance(CATALOG_CHECK);
    let response = alice.searches_users("fan.1").await;
    assert_eq!(response.body["data"].as_array().unwrap().len(), 20);
    all.add("GET /api/auth/users", "a page of 20", 200, (23.0, 0.0, 3), response);
    let profile = "GET /api/auth/users/{user}";
    let response = alice.views_user(100).await;
    all.add(profile, "by id, two predictions", 200, (4.0, 0.0, 4), response);
    app.clock.advance(CATALOG_CHECK);
    let response = alice.views_user("ada").await;
    all.add(profile, "by username, with a team, warm", 200, (5.0, 0.0, 6), response);
}

/// Measures pages of a leaderboard with 100,000 users, of whom the best 200 exist.
async fn leaderboards(app: &TestApp, alice: &User, all: &mut Measurements) {
    let stats =
        |user: u32| UserStats { settled: 300, points: i64::from(1_000 - user / 100), ..UserStats::default() };
    let counts = UserTally { stats: stats(alice.id), ..UserTally::default() };
    let addition = Addition { sequence: Sequence::parse("1").unwrap(), counts, sighting: None };
    let statistics = Aggregate::User(UserId(alice.id));
    app.store.fold(&statistics, "costs", &[addition], app.clock.now()).await.unwrap();
    let rows = (1..=100_000).filter_map(|user| standings::Row::of(UserId(user), &stats(user), 0)).collect();
    let build = app.store.begin_build(Board::GLOBAL, app.clock.now()).await.unwrap();
    let table = Table::new(rows);
    assert!(app.store.publish_board(Board::GLOBAL, build, &table, app.clock.now()).await.unwrap());
    let board = "GET /api/auth/leaderboards";
    let first = alice.views_leaderboard().await;
    let cursor = first.body["meta"]["next_cursor"].as_str().unwrap().to_owned();
    assert_eq!(first.body["meta"]["me"]["rank"], 1);
    all.add(board, "the first page of 50, of 100,000 users", 200, (29.0, 0.0, 5), first);
    let second = alice.views_leaderboard().query("cursor", cursor).await;
    all.add(board, "the second page", 200, (30.0, 0.0, 7), second);
    let around = alice.views_leaderboard().query("around", "me").await;
    all.add(board, "around me", 200, (12.0, 0.0, 5), around);
}

async fn chat(app: &TestApp, alice: &User, all: &mut Measurements) {
    app.clock.advance(CATALOG_CHECK);
    let create = "POST /api/auth/chat-room";
    let response = alice.creates_room("Corner flag").about_event(1).await;
    let room = response.clone().room_id();
    all.add(create, "the first room of a user, about a match", 201, (2.5, 10.0, 4), response);
    let response = alice.creates_room("Den").private().await;
    let den = response.clone().room_id();
    all.add(create, "another one", 201, (1.0, 9.0, 3), response);

    for _ in 0..2 {
        app.invoke(tally::handle, app.changes(&app.config.tables.rooms).await).await;
    }
    let table = "GET /api/auth/leaderboards";
    let response = alice.views_table(&room).await;
    all.add(table, "the table of a room of one member, out of date", 200, (12.0, 8.0, 13), response);
    let response = alice.views_table(&room).await;
    all.add(table, "the same, up to date", 200, (8.0, 0.0, 7), response);

    let guest = app.user("fan.500").id(500).await;
    let join = "POST /api/auth/chat-rooms/{matrixRoomId}/join";
    let response = guest.joins("!match50:touchline.local").await;
    all.add(join, "the first room of a user: their name is fixed", 200, (2.5, 3.0, 4), response);
    let response = guest.joins(&room).await;
    all.add(join, "any other", 200, (1.5, 2.0, 2), response);
    let response = guest.joins(&room).await;
    all.add(join, "a member already", 409, (1.5, 2.0, 2), response);
    let invite = "POST /api/auth/chat-rooms/{matrixRoomId}/invite";
    let response = alice.invites_to(&den).user(guest.id).await;
    all.add(invite, "by number", 200, (4.0, 3.0, 4), response);
    let newcomer = app.user("fan.501").id(501).await;
    let response = alice.invites_to(&den).username("fan.501").await;
    all.add(invite, "by name, to their first room", 200, (5.5, 3.0, 5), response);
    newcomer.leaves(&den).await.expect(200);
    let response = guest.joins(&den).await;
    all.add(join, "a private room, invited", 200, (2.5, 2.0, 3), response);
    let response = guest.leaves(&den).await;
    let leave = "POST /api/auth/chat-rooms/{matrixRoomId}/leave";
    all.add(leave, "before tally ranked the member", 200, (2.0, 2.0, 3), response);

    invite_links(app, alice, &den, all).await;

    let tables = &app.config.tables;
    for table in [&tables.rooms; 3] {
        app.invoke(tally::handle, app.changes(table).await).await;
    }
    let list = "GET /api/auth/chat-rooms";
    app.clock.advance(CATALOG_CHECK);
    let response = alice.lists_rooms().search("corner").await;
    assert_eq!(response.body["data"].as_array().unwrap().len(), 1);
    all.add(list, "a search with one hit, warm", 200, (4.0, 0.0, 5), response);
    app.clock.advance(CATALOG_CHECK);
    let response = alice.lists_rooms().joined().await;
    all.add(list, "two that one has joined, warm", 200, (4.0, 0.0, 2), response);
    let one = "GET /api/auth/chat-rooms/{chatRoom}";
    app.clock.advance(CATALOG_CHECK);
    let response = alice.views_room(&room).await;
    all.add(one, "about a match, warm", 200, (2.5, 0.0, 2), response);
    let response = alice.views_room(&den).await;
    all.add(one, "a private room without a match", 200, (2.0, 0.0, 2), response);
    app.clock.advance(CATALOG_CHECK);
    let response = alice.views_member_stats("!match50:touchline.local").await;
    let stats = "GET /api/auth/chat-rooms/{chatRoom}/member-stats";
    all.add(stats, "200 members, warm", 200, (8.0, 0.0, 4), response);
    app.clock.advance(CATALOG_CHECK);
    let response = alice.views_member_stats("!match2:touchline.local").await;
    all.add(stats, "no members, of a featured match, warm", 200, (2.0, 0.0, 4), response);
    let response = alice.requests_chat_credentials().await;
    all.add("POST /api/auth/chat/credentials", "", 200, (1.5, 0.0, 2), response);

    blocks(app, alice, &newcomer, all).await;
    homeserver(app, &guest, &room, all).await;
    let keyed = alice.creates_room("Den").private().idempotency_key("den-2");
    for (case, status, ceiling) in
        [("with a key", 201, (1.0, 9.0, 4)), ("the same key again", 200, (1.5, 1.0, 3))]
    {
        all.add(create, case, status, ceiling, keyed.clone().await);
    }
    let stats = UserStats { settled: 1, correct: 1, ..UserStats::default() };
    let memberships = app.store.memberships(UserId(guest.id), usize::MAX).await.unwrap();
    for member in memberships.iter().filter(|member| member.event_id == Some(50)) {
        app.store
            .copy_stats(member.key(), &VersionedStats { stats, unranked: false, version: 1 })
            .await
            .unwrap();
    }
    let response = guest.leaves("!match50:touchline.local").await;
    all.add(leave, "a ranked member", 200, (2.0, 3.0, 3), response);
    long_lists(app, all).await;
}

async fn invite_links(app: &TestApp, alice: &User, den: &str, all: &mut Measurements) {
    let create = "POST /api/auth/chat-rooms/{chatRoom}/invite-link";
    let response = alice.creates_invite_link(den).await;
    let code = response.clone().link_code();
    all.add(create, "a new link", 201, (3.5, 4.0, 6), response);
    all.add(create, "the same link again", 200, (3.0, 0.0, 3), alice.creates_invite_link(den).await);
    let friend = app.user("fan.590").id(590).await;
    let accept = "POST /api/auth/invite-links/{code}/accept";
    let response = friend.accepts_invite_link(&code).await;
    all.add(
        accept,
        "a private room, the first room of a user: their name is fixed",
        200,
        (9.0, 4.0, 9),
        response,
    );
    all.add(accept, "a member already", 200, (8.0, 1.0, 6), friend.accepts_invite_link(&code).await);
    let response = friend.accepts_invite_link("ABCDEFGH2345").await;
    all.add(accept, "a wrong code", 404, (1.5, 1.0, 2), response);
    let response = alice.revokes_invite_link(den).await;
    all.add(
        "DELETE /api/auth/chat-rooms/{chatRoom}/invite-link",
        "all links of a room",
        200,
        (1.0, 1.0, 2),
        response,
    );
    friend.leaves(den).await.expect(200);
}

/// Measures lists of users who have many rooms.
async fn long_lists(app: &TestApp, all: &mut Measurements) {
    let list = "GET /api/auth/chat-rooms";
    let invited = app.user("fan.502").id(502).await;
    app.store_rooms(invited.id, 250, true, Membership::Invite).await;
    let joined = app.user("fan.503").id(503).await;
    // The directory lists enough public rooms for a page.
    for room in app.store_rooms(joined.id, 1_000, false, Membership::Join).await.iter().take(20) {
        app.store.update_directories(&[RoomChange { old: None, new: Some(room) }]).await.unwrap();
    }
    for (case, request, ceiling) in [
        ("a page of 20 of 250 invitations, warm", invited.lists_rooms(), (30.0, 0.0, 3)),
        ("a page of 20 of 1,000 joined rooms, warm", joined.lists_rooms().joined(), (45.0, 0.0, 3)),
        (
            "a page of 20 public rooms, for a user who has joined 1,000, warm",
            joined.lists_rooms(),
            (60.0, 0.0, 9),
        ),
    ] {
        app.clock.advance(CATALOG_CHECK);
        let response = request.per_page(20).await;
        assert_eq!(response.body["data"].as_array().unwrap().len(), 20);
        all.add(list, case, 200, ceiling, response);
    }
}

async fn blocks(app: &TestApp, alice: &User, other: &User, all: &mut Measurements) {
    let block = "POST /api/auth/users/{user}/block";
    all.add(block, "the first one", 200, (4.0, 2.0, 6), alice.blocks(other.id).await);
    all.add(block, "the same again", 200, (3.5, 1.0, 4), alice.blocks(other.id).await);
    let response = alice.lists_blocks().await;
    all.add("GET /api/auth/blocks", "one", 200, (1.5, 0.0, 2), response);
    app.clock.advance(CATALOG_CHECK);
    let response = alice.lists_event_predictions(50).await;
    let of_event = "GET /api/auth/events/{event}/predictions";
    all.add(
        of_event,
        "a page of 50, for a user who has blocked another, warm",
        200,
        (30.0, 0.0, 3),
        response,
    );
    let response = alice.unblocks(other.id).await;
    all.add("POST /api/auth/users/{user}/unblock", "", 200, (3.5, 2.0, 6), response);
    let report = "POST /api/auth/reports";
    let response = alice.reports("spam").user(other.id).await;
    all.add(report, "a new one", 201, (1.5, 5.0, 4), response);
    let response = alice.reports("abuse").user(other.id).await;
    all.add(report, "the same again", 200, (1.5, 2.0, 4), response);
}

async fn homeserver(app: &TestApp, guest: &User, room: &str, all: &mut Measurements) {
    let event = |kind: &str, content: Value| {
        json!({
            "type": kind, "room_id": room, "sender": guest.chat_id(), "state_key": guest.chat_id(),
            "content": content,
            "origin_server_ts": (app.clock.now() + TimeDelta::days(1)).timestamp_millis(),
        })
    };
    let homeserver = app.homeserver();
    let transaction = "PUT /_matrix/app/v1/transactions/{txnId}";
    let leave = event("m.room.member", json!({ "membership": "leave" }));
    let response = homeserver.pushes("1", [leave]).await;
    all.add(transaction, "somebody left", 200, (1.5, 4.0, 4), response);
    let ten: Vec<_> = (0..10).map(|_| event("m.room.message", json!({}))).collect();
    let response = homeserver.pushes("2", &ten).await;
    all.add(transaction, "ten messages of one in a room", 200, (2.0, 2.0, 4), response);
    let response = homeserver.pushes("2", &ten).await;
    all.add(transaction, "the same again", 200, (1.5, 2.0, 3), response);
    let response = homeserver.queries_user(guest.chat_id()).await;
    all.add("GET /_matrix/app/v1/users/{userId}", "", 200, (0.5, 0.0, 1), response);
    let response = homeserver.queries_room("%23x:touchline.local").await;
    all.add("GET /_matrix/app/v1/rooms/{roomAlias}", "", 404, (0.0, 0.0, 0), response);
    let response = homeserver.pings().await;
    all.add("POST /_matrix/app/v1/ping", "", 200, (0.0, 0.0, 0), response);
}

async fn coins(app: &TestApp, alice: &User, all: &mut Measurements) {
    let (daily, deduct) = ("POST /api/auth/daily-coins", "POST /api/auth/coins/deduct");
    let response = alice.claims_daily_coins().await;
    all.add(daily, "a new wallet", 200, (1.0, 6.0, 2), response);
    let response = alice.claims_daily_coins().await;
    all.add(daily, "claimed already", 400, (1.0, 1.0, 1), response);
    app.clock.advance(TimeDelta::hours(12));
    let response = alice.claims_daily_coins().await;
    all.add(daily, "the next day", 200, (1.0, 6.0, 2), response);
    let response = alice.deducts(1).reference("order").await;
    all.add(deduct, "with a reference", 200, (1.0, 6.0, 2), response);
    let response = alice.deducts(1).reference("order").await;
    all.add(deduct, "the same again", 200, (1.0, 6.0, 2), response);
    let response = alice.deducts(999_999).reference("big").await;
    all.add(deduct, "too few coins: wallet and entry at one moment", 400, (5.0, 0.0, 2), response);
    all.add("GET /api/auth/coins", "", 200, (2.0, 0.0, 1), alice.views_coins().await);
}

/// Anyone can send such requests, so they must cost as little as possible.
#[tokio::test]
async fn invalid_requests_without_a_session_make_no_call_to_the_store() {
    let app = TestApp::serving(&HTTP_FUNCTIONS.map(|(_, router)| router))
        .variable("PHONE_PREFIXES", "+44")
        .start()
        .await;
    app.faults.set(|attempt| panic!("the request called {}", attempt.operation));
    let (anonymous, homeserver) = (app.anonymous(), app.homeserver());
    let large = |limit: usize| format!("{{\"phone\":\"{}\"}}", "x".repeat(limit));
    for route in api::ALL {
        let (method, path) = (route.method.clone(), route.path);
        if route.needs_token {
            let unparsable = app.with_token("tl_1_").request(method.clone(), path);
            for request in [anonymous.request(method, path), unparsable] {
                request.body(json!({})).await.expect(401);
            }
            continue;
        }
        let is_homeserver = path.starts_with("/_matrix/");
        if is_homeserver {
            for caller in [&anonymous, &app.with_token("not-the-homeservers")] {
                let response = caller.request(method.clone(), path).body(json!({ "events": [] })).await;
                assert!(matches!(response.status.as_u16(), 401 | 403), "{path}: {}", response.status);
            }
        }
        let (caller, limit) =
            if is_homeserver { (&homeserver, Homeserver::MAX_BODY) } else { (&anonymous, Anyone::MAX_BODY) };
        if route.has_body() {
            for (content_type, body, status) in [
                ("application/json", "{".to_owned(), 400),
                ("application/json", large(limit), 413),
                ("text/plain", "{}".to_owned(), 415),
                ("application/json", "[]".to_owned(), if is_homeserver { 400 } else { 422 }),
            ] {
                caller.request(method.clone(), path).bytes(content_type, body).await.expect(status);
            }
        }
        for field in route.fields {
            for value in [json!({}), json!(""), json!(7.5), json!("a\u{0}"), json!("x".repeat(1_000))] {
                let request = caller.request(method.clone(), path);
                let request = match (route.has_body(), value.as_str()) {
                    (true, _) => request.body(json!({ *field: value })),
                    // An empty query parameter counts as absent.
                    (false, Some("")) => continue,
                    (false, _) => request.query(field, &value),
                };
                let status = request.await.status.as_u16();
                assert!(matches!(status, 400 | 422), "{path}: {field} = {value} is {status}");
            }
        }
    }
    anonymous.requests_code("+4915112345678").await.expect_invalid(&["phone"]);
    anonymous.get("/api/unknown").await.expect(404);
}

const HEADING: &str = "\
# What a request costs

DynamoDB calls and capacity units per endpoint, measured by `tests/suite/costs.rs` on every run; the test
fails when a figure differs from this table or passes its ceiling. Auth is not counted: an endpoint that
needs a token reads half a unit more, and once a day per session writes one. *Rounds* are calls that had to
wait for one another; calls that overlap are one round. Regenerate with
`UPDATE_COSTS=1 cargo test -p touchline-tests costs`.

| endpoint | case | calls | read units | write units | rounds | ceiling (reads, writes, rounds) |
|---|---|---|---|---|---|---|
";

#[tokio::test]
async fn costs_are_as_documented_and_under_their_ceilings() {
    let rows = measure().await.0;
    let (mut text, mut too_much) = (HEADING.to_owned(), Vec::new());
    for Row { endpoint, case, cost, ceiling, .. } in &rows {
        let Cost { calls, rounds, reads, writes } = cost;
        let _ = writeln!(
            text,
            "| `{endpoint}` | {case} | {calls} | {reads} | {writes} | {rounds} | {}, {}, {} |",
            ceiling.0, ceiling.1, ceiling.2
        );
        if *reads > ceiling.0 || *writes > ceiling.1 || *rounds > ceiling.2 {
            too_much.push(format!("{endpoint}, {case}: {cost:?} exceeds {ceiling:?}"));
        }
    }
    assert!(too_much.is_empty(), "{too_much:#?}");
    for route in api::ALL {
        let name = format!("{} {}", route.method, route.path);
        assert!(rows.iter().any(|row| row.endpoint == name), "{name} is not measured");
    }
    let file = root().join("docs/costs.md");
    // The reasons below the table are written by hand.
    let page = std::fs::read_to_string(&file).unwrap_or_default();
    text += page.find("\n## ").map_or("", |at| &page[at..]);
    if std::env::var_os("UPDATE_COSTS").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    let page = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(page, text, "docs/costs.md is not up to date");
}
