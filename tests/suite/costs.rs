//! What each endpoint costs in DynamoDB calls and units. `docs/costs.md` holds the figures; a figure that
//! grows past its ceiling, or that differs from the document, fails here.

use std::fmt::Write as _;

use chrono::TimeDelta;
use serde_json::{Value, json};
use touchline::api;
use touchline::domain::UserId;
use touchline::domain::prediction::{Confidence, Forecast, Pick, Stamp};
use touchline::domain::room::{Membership, RoomId};
use touchline::storage::predictions::NewPrediction;
use touchline_local::HTTP_FUNCTIONS;
use touchline_testing::{Answer, HS_TOKEN, TestApp};

use crate::contract::root;

#[derive(Debug, Clone, Copy, PartialEq)]
struct Cost {
    calls: u32,
    rounds: u32,
    reads: f64,
    writes: f64,
}

/// What auth adds to an endpoint that needs a token: one read of half a unit.
const AUTH: Cost = Cost { calls: 1, rounds: 1, reads: 0.5, writes: 0.0 };

fn cost(answer: &Answer) -> Cost {
    let header = answer.headers["x-touchline-cost"].to_str().unwrap();
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
    answer: (u16, Value),
    /// Reads, writes, rounds: the most they may be.
    ceiling: (f64, f64, u32),
}

struct Measured {
    rows: Vec<Row>,
}

impl Measured {
    fn add(
        &mut self,
        endpoint: &'static str,
        case: &'static str,
        status: u16,
        ceiling: (f64, f64, u32),
        answer: &Answer,
    ) {
        assert_eq!(answer.status, status, "{endpoint}, {case}: {}", answer.body);
        let mut cost = cost(answer);
        let route = api::ALL.iter().find(|route| format!("{} {}", route.method, route.path) == endpoint);
        if route.unwrap_or_else(|| panic!("{endpoint} is no endpoint")).needs_token {
            cost.calls -= AUTH.calls;
            cost.rounds -= AUTH.rounds;
            cost.reads -= AUTH.reads;
        }
        self.rows.push(Row { endpoint, case, cost, answer: (status, answer.body.clone()), ceiling });
    }
}

/// What every endpoint was answered on the walk, always the same.
pub async fn answers() -> impl Iterator<Item = (&'static str, u16, Value)> {
    measure()
        .await
        .rows
        .into_iter()
        .map(|Row { endpoint, answer: (status, body), .. }| (endpoint, status, body))
}

const PHONE: &str = "+447700900123";
const NEW: &str = "+447700900555";

async fn measure() -> Measured {
    let app = TestApp::serving(&HTTP_FUNCTIONS.map(|(_, router)| router)).start().await;
    let mut all = Measured { rows: Vec::new() };

    let request = "POST /api/code/request";
    let answer = app.post("/api/code/request", json!({ "phone": PHONE })).await;
    all.add(request, "from loopback", 200, (0.0, 2.0, 2), &answer);
    let body = json!({ "phone": "+447700900777" }).to_string();
    let answer = app.send_from("203.0.113.9", "POST", "/api/code/request", &[], body.as_bytes()).await;
    all.add(request, "from an address, which is counted too", 200, (0.0, 3.0, 3), &answer);

    let verify = "POST /api/code/verify";
    let code = app.sns.last_code(PHONE);
    let wrong = if code == "000000" { "000001" } else { "000000" };
    let answer = app.post("/api/code/verify", json!({ "phone": PHONE, "code": wrong })).await;
    all.add(verify, "wrong code", 401, (0.0, 1.0, 1), &answer);
    let answer = app.post("/api/code/verify", json!({ "phone": PHONE, "code": code })).await;
    all.add(verify, "first login", 200, (1.0, 11.0, 4), &answer);
    let code = app.request_code(PHONE).await;
    let answer = app.post("/api/code/verify", json!({ "phone": PHONE, "code": code })).await;
    all.add(verify, "returning user", 200, (1.0, 3.0, 3), &answer);
    let code = app.request_code(PHONE).await;
    let answer = app.post("/api/auth/login", json!({ "phone": PHONE, "code": code })).await;
    all.add("POST /api/auth/login", "returning user", 200, (1.0, 3.0, 3), &answer);
    let token = answer.body["data"]["token"].as_str().unwrap().to_owned();

    let check = "POST /api/auth/username/check";
    let answer = app.post("/api/auth/username/check", json!({ "username": "alice" })).await;
    all.add(check, "free", 200, (0.5, 0.0, 1), &answer);
    let name = app.get_as(&token, "/api/auth/me").await.expect(200)["data"]["username"].clone();
    let answer = app.post("/api/auth/username/check", json!({ "username": name })).await;
    all.add(check, "taken, with suggestions", 200, (7.0, 0.0, 2), &answer);
    let answer = app.post("/api/auth/username/generate", json!({ "base": "alice" })).await;
    all.add("POST /api/auth/username/generate", "", 200, (5.0, 0.0, 1), &answer);

    let answer = app.get_as(&token, "/api/auth/me").await;
    all.add("GET /api/auth/me", "without teams", 200, (1.0, 0.0, 1), &answer);
    let update = "POST /api/auth/update-user-info";
    let answer = app.post_as(&token, "/api/auth/update-user-info", json!({ "name": "Ada" })).await;
    all.add(update, "details", 200, (0.0, 1.0, 1), &answer);
    let answer = app.post_as(&token, "/api/auth/update-user-info", json!({ "username": "ada" })).await;
    all.add(update, "another username", 200, (2.0, 8.0, 3), &answer);

    let answer = app.post_as(&token, "/api/auth/verify-phone/initiate", json!({ "phone": NEW })).await;
    all.add("POST /api/auth/verify-phone/initiate", "", 200, (2.0, 3.0, 4), &answer);
    let answer = app.post_as(&token, "/api/auth/resend-code", json!({ "phone": NEW })).await;
    all.add("POST /api/auth/resend-code", "", 200, (0.0, 2.0, 2), &answer);
    let body = json!({ "phone": NEW, "code": app.sns.last_code(NEW) });
    let answer = app.post_as(&token, "/api/auth/verify-phone", body).await;
    all.add("POST /api/auth/verify-phone", "another phone", 200, (1.0, 9.0, 3), &answer);

    let league = include_str!("../../events/feed/touchline.json");
    feed::handle(app.app.clone(), serde_json::from_str(league).unwrap()).await.unwrap();
    let events = "GET /api/auth/events";
    let answer = app.get_as(&token, "/api/auth/events").await;
    all.add(events, "cold: the snapshot is loaded", 200, (6.0, 0.0, 4), &answer);
    app.clock.advance(TimeDelta::seconds(1));
    let answer = app.get_as(&token, "/api/auth/events").await;
    all.add(events, "warm: the head, and the counts of 4 matches", 200, (2.5, 0.0, 2), &answer);
    let answer = app.get_as(&token, "/api/auth/events?page=9&status=live&team_id=3").await;
    all.add(events, "again within a second, an empty page", 200, (0.0, 0.0, 0), &answer);
    app.clock.advance(TimeDelta::seconds(1));
    let answer = app.get_as(&token, "/api/auth/events/1").await;
    all.add("GET /api/auth/events/{event}", "warm", 200, (1.0, 0.0, 2), &answer);
    app.clock.advance(TimeDelta::seconds(1));
    let answer = app.get_as(&token, "/api/auth/teams?search=a").await;
    all.add("GET /api/auth/teams", "warm", 200, (0.5, 0.0, 1), &answer);
    app.clock.advance(TimeDelta::seconds(1));
    let answer = app.post_as(&token, "/api/auth/teams/primary", json!({ "team_id": 1 })).await;
    all.add("POST /api/auth/teams/primary", "warm", 200, (0.5, 1.0, 2), &answer);
    app.clock.advance(TimeDelta::seconds(1));
    let answer = app.post_as(&token, "/api/auth/teams/other", json!({ "team_ids": [2, 3] })).await;
    all.add("POST /api/auth/teams/other", "warm", 200, (0.5, 1.0, 2), &answer);
    app.clock.advance(TimeDelta::seconds(1));
    let answer = app.get_as(&token, "/api/auth/me").await;
    all.add("GET /api/auth/me", "with teams, warm", 200, (1.5, 0.0, 2), &answer);

    predictions(&app, &token, &mut all).await;
    chat(&app, &token, &mut all).await;
    coins(&app, &token, &mut all).await;

    let answer = app.get("/api/logs/sms?date=2026-11-15&phone=%2B447700900123").await;
    all.add("GET /api/logs/sms", "one phone, one day", 200, (0.5, 0.0, 1), &answer);
    let answer = app.get("/api/logs/sms").await;
    all.add("GET /api/logs/sms", "all that is kept", 200, (18.0, 0.0, 9), &answer);
    let answer = app.get("/api/openapi.json").await;
    all.add("GET /api/openapi.json", "", 200, (0.0, 0.0, 0), &answer);
    let answer = app.get("/api/health").await;
    all.add("GET /api/health", "", 200, (0.5, 0.0, 1), &answer);
    let answer = app.post_as(&token, "/api/auth/logout", json!({})).await;
    all.add("POST /api/auth/logout", "", 200, (0.5, 1.0, 1), &answer);
    all
}

/// A match with 200 predictions, of which a page is read.
async fn predictions(app: &TestApp, token: &str, all: &mut Measured) {
    let predict = "POST /api/auth/predictions";
    let body = json!({ "event_id": 1, "prediction": "home", "confidence": 80 });
    for (case, status, writes) in [("new, warm", 201, 2.0), ("changed, warm", 200, 1.0)] {
        app.clock.advance(TimeDelta::seconds(1));
        let answer = app.post_as(token, "/api/auth/predictions", body.clone()).await;
        all.add(predict, case, status, (1.0, writes, 2), &answer);
    }
    // A match that is not featured, with its 4 shards.
    let league = json!({
        "format": "touchline",
        "tournaments": [{ "id": 2, "name": "Sunday League" }],
        "events": [{
            "id": 50, "tournament_id": 2, "home_team_id": 1, "away_team_id": 2, "status": "scheduled",
            "start_time": "2026-11-20T15:00:00Z",
        }],
    });
    feed::handle(app.app.clone(), league).await.unwrap();
    let room =
        app.app.store.room(&RoomId::parse("!match50:touchline.local").unwrap()).await.unwrap().unwrap();
    for user in (2..=200).map(UserId) {
        app.register(user.0).await;
        for (event_id, shards) in [(1, 64), (50, 4)] {
            let new = NewPrediction {
                event_id,
                shards,
                user_id: user,
                forecast: Forecast::new(Pick::Draw, None).unwrap(),
                confidence: Confidence::default(),
                stamp: Stamp::new(app.app.clock.now(), user.0),
            };
            app.app.store.predict(&new).await.unwrap();
        }
        app.app
            .store
            .apply_homeserver_membership(&room, user, Membership::Join, app.app.clock.now())
            .await
            .unwrap();
    }
    let tables = &app.app.config.tables;
    for table in [&tables.predictions, &tables.rooms, &tables.rooms] {
        tally::handle(app.app.clone(), app.changes(table).await).await.unwrap();
    }
    app.clock.advance(TimeDelta::seconds(1));
    let _ = app.get_as(token, "/api/auth/events").await.expect(200);
    let of_event = "GET /api/auth/events/{event}/predictions";
    for (endpoint, case, path, ceiling) in [
        (of_event, "a page of 50, warm", "/api/auth/events/50/predictions", (30.0, 0.0, 3)),
        (
            of_event,
            "the same, where 200 are spread over 64 shards",
            "/api/auth/events/1/predictions",
            (35.0, 0.0, 3),
        ),
        (
            "GET /api/auth/chat-rooms/{chatRoom}/predictions",
            "a page of 50, warm",
            "/api/auth/chat-rooms/!match50:touchline.local/predictions",
            (60.0, 0.0, 3),
        ),
    ] {
        app.clock.advance(TimeDelta::seconds(1));
        let answer = app.get_as(token, path).await;
        assert_eq!(answer.body["data"].as_array().unwrap().len(), 50);
        all.add(endpoint, case, 200, ceiling, &answer);
    }
    app.clock.advance(TimeDelta::seconds(1));
    let answer = app.get_as(token, "/api/auth/predictions").await;
    all.add("GET /api/auth/predictions", "one, warm", 200, (2.0, 0.0, 3), &answer);
}

async fn chat(app: &TestApp, token: &str, all: &mut Measured) {
    app.clock.advance(TimeDelta::seconds(1));
    let create = "POST /api/auth/chat-room";
    let body = json!({ "name": "Corner flag", "event_id": 1 });
    let answer = app.post_as(token, "/api/auth/chat-room", body).await;
    all.add(create, "the first room of a user, about a match", 201, (1.5, 10.0, 4), &answer);
    let room = format!("/api/auth/chat-rooms/{}", answer.body["data"]["room_id"].as_str().unwrap());
    let answer =
        app.post_as(token, "/api/auth/chat-room", json!({ "name": "Den", "is_private": true })).await;
    all.add(create, "another one", 201, (0.5, 9.0, 3), &answer);
    let den = format!("/api/auth/chat-rooms/{}", answer.body["data"]["room_id"].as_str().unwrap());

    let guest = app.register(500).await;
    let join = "POST /api/auth/chat-rooms/{matrixRoomId}/join";
    let answer = app.post_as(&guest, "/api/auth/chat-rooms/!match50:touchline.local/join", json!({})).await;
    all.add(join, "the first room of a user: their name is fixed", 200, (1.0, 3.0, 3), &answer);
    let answer = app.post_as(&guest, &format!("{room}/join"), json!({})).await;
    all.add(join, "any other", 200, (1.0, 2.0, 2), &answer);
    let answer = app.post_as(&guest, &format!("{room}/join"), json!({})).await;
    all.add(join, "a member already", 409, (1.0, 2.0, 2), &answer);
    let invite = "POST /api/auth/chat-rooms/{matrixRoomId}/invite";
    let answer = app.post_as(token, &format!("{den}/invite"), json!({ "user_id": 500 })).await;
    all.add(invite, "by number", 200, (3.0, 2.0, 4), &answer);
    let answer = app.post_as(&guest, &format!("{den}/join"), json!({})).await;
    all.add(join, "a private room, invited", 200, (1.5, 2.0, 3), &answer);
    let answer = app.post_as(&guest, &format!("{den}/leave"), json!({})).await;
    all.add("POST /api/auth/chat-rooms/{matrixRoomId}/leave", "", 200, (2.0, 2.0, 3), &answer);

    let tables = &app.app.config.tables;
    for table in [&tables.rooms, &tables.rooms] {
        tally::handle(app.app.clone(), app.changes(table).await).await.unwrap();
    }
    let list = "GET /api/auth/chat-rooms";
    app.clock.advance(TimeDelta::seconds(1));
    let answer = app.get_as(token, "/api/auth/chat-rooms?search=corner").await;
    assert_eq!(answer.body["data"].as_array().unwrap().len(), 1);
    all.add(list, "a search with one hit, warm", 200, (4.0, 0.0, 5), &answer);
    app.clock.advance(TimeDelta::seconds(1));
    let answer = app.get_as(token, "/api/auth/chat-rooms?joined=true").await;
    all.add(list, "two that one has joined, warm", 200, (4.0, 0.0, 2), &answer);
    app.clock.advance(TimeDelta::seconds(1));
    let answer = app.get_as(token, "/api/auth/chat-rooms/!match50:touchline.local/member-stats").await;
    all.add(
        "GET /api/auth/chat-rooms/{chatRoom}/member-stats",
        "200 members, warm",
        200,
        (8.0, 0.0, 4),
        &answer,
    );
    let answer = app.post_as(token, "/api/auth/chat/credentials", json!({})).await;
    all.add("POST /api/auth/chat/credentials", "", 200, (0.5, 0.0, 1), &answer);

    let id = room.rsplit('/').next().unwrap();
    let event = |kind: &str, more: serde_json::Value| {
        let mut event = json!({
            "type": kind, "room_id": id, "sender": "@fan.500:touchline.local",
            "origin_server_ts": (app.app.clock.now() + TimeDelta::days(1)).timestamp_millis(),
        });
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event
    };
    let bearer = format!("Bearer {HS_TOKEN}");
    let told = async |number: u32, events: serde_json::Value| {
        let path = format!("/_matrix/app/v1/transactions/{number}");
        let body = json!({ "events": events }).to_string();
        app.send("PUT", &path, &[("authorization", &bearer)], body.as_bytes()).await
    };
    let transaction = "PUT /_matrix/app/v1/transactions/{txnId}";
    let leaving = event(
        "m.room.member",
        json!({ "state_key": "@fan.500:touchline.local", "content": { "membership": "leave" } }),
    );
    let answer = told(1, json!([leaving])).await;
    all.add(transaction, "somebody left", 200, (3.0, 3.0, 4), &answer);
    let ten: Vec<_> = (0..10).map(|_| event("m.room.message", json!({}))).collect();
    let answer = told(2, json!(ten)).await;
    all.add(transaction, "ten messages of one in a room", 200, (3.0, 3.0, 5), &answer);
    let answer = told(2, json!(ten)).await;
    all.add(transaction, "the same again", 200, (1.0, 0.0, 1), &answer);
    let get = async |path: &str| app.send("GET", path, &[("authorization", &bearer)], b"").await;
    let answer = get("/_matrix/app/v1/users/@fan.500:touchline.local").await;
    all.add("GET /_matrix/app/v1/users/{userId}", "", 200, (0.5, 0.0, 1), &answer);
    let answer = get("/_matrix/app/v1/rooms/%23x:touchline.local").await;
    all.add("GET /_matrix/app/v1/rooms/{roomAlias}", "", 404, (0.0, 0.0, 0), &answer);
    let answer = app.send("POST", "/_matrix/app/v1/ping", &[("authorization", &bearer)], b"{}").await;
    all.add("POST /_matrix/app/v1/ping", "", 200, (0.0, 0.0, 0), &answer);
    let keyed = [("authorization", &*format!("Bearer {token}")), ("idempotency-key", "den-2")];
    for (case, status, ceiling) in
        [("with a key", 201, (0.5, 9.0, 4)), ("the same key again", 200, (1.0, 1.0, 3))]
    {
        let body = json!({ "name": "Den", "is_private": true }).to_string();
        let answer = app.send("POST", "/api/auth/chat-room", &keyed, body.as_bytes()).await;
        all.add(create, case, status, ceiling, &answer);
    }
}

async fn coins(app: &TestApp, token: &str, all: &mut Measured) {
    let (daily, deduct) = ("POST /api/auth/daily-coins", "POST /api/auth/coins/deduct");
    let answer = app.post_as(token, "/api/auth/daily-coins", json!({})).await;
    all.add(daily, "a new wallet", 200, (1.0, 6.0, 2), &answer);
    let answer = app.post_as(token, "/api/auth/daily-coins", json!({})).await;
    all.add(daily, "claimed already", 400, (1.0, 1.0, 1), &answer);
    app.clock.advance(TimeDelta::hours(12));
    let answer = app.post_as(token, "/api/auth/daily-coins", json!({})).await;
    all.add(daily, "the next day", 200, (1.0, 6.0, 2), &answer);
    let order = json!({ "amount": 1, "reason": "purchase", "reference_id": "order" });
    let answer = app.post_as(token, "/api/auth/coins/deduct", order.clone()).await;
    all.add(deduct, "with a reference", 200, (1.0, 6.0, 2), &answer);
    let answer = app.post_as(token, "/api/auth/coins/deduct", order).await;
    all.add(deduct, "the same again", 200, (1.0, 6.0, 2), &answer);
    let order = json!({ "amount": 999_999, "reason": "purchase", "reference_id": "big" });
    let answer = app.post_as(token, "/api/auth/coins/deduct", order).await;
    all.add(deduct, "too few coins: wallet and entry at one moment", 400, (5.0, 0.0, 2), &answer);
    let answer = app.get_as(token, "/api/auth/coins").await;
    all.add("GET /api/auth/coins", "", 200, (2.0, 0.0, 1), &answer);
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
    let measured = measure().await;
    let mut text = HEADING.to_owned();
    for Row { endpoint, case, cost, ceiling, .. } in &measured.rows {
        let Cost { calls, rounds, reads, writes } = cost;
        let _ = writeln!(
            text,
            "| `{endpoint}` | {case} | {calls} | {reads} | {writes} | {rounds} | {}, {}, {} |",
            ceiling.0, ceiling.1, ceiling.2
        );
        assert!(
            *reads <= ceiling.0 && *writes <= ceiling.1 && *rounds <= ceiling.2,
            "{endpoint}, {case}: {cost:?} is over {ceiling:?}"
        );
    }
    for route in api::ALL {
        let name = format!("{} {}", route.method, route.path);
        assert!(measured.rows.iter().any(|row| row.endpoint == name), "{name} has no row");
    }
    let file = root().join("docs/costs.md");
    if std::env::var_os("UPDATE_COSTS").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap_or_default(), text, "docs/costs.md is not up to date");
}
