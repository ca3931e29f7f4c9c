//! Every endpoint against everything that a request can get wrong.

use reqwest::Method;
use serde_json::{Value, json};
use touchline::api;

use crate::target::Target;

/// What apps post. What the homeserver says is tried in the chat function's own tests.
fn posts() -> impl Iterator<Item = &'static api::Route> {
    api::ALL.iter().filter(|route| route.method == Method::POST.as_str() && route.path.starts_with("/api/"))
}

#[tokio::test]
async fn bodies_that_are_no_json_are_refused_by_every_endpoint() {
    let fan = Target::fan().await;
    let before = fan.get("/api/auth/me").await.expect(200);
    let deep = format!("{}1{}", "[".repeat(1_000), "]".repeat(1_000));
    for route in posts() {
        for (kind, body, status, code) in [
            ("application/json", "{".to_owned(), 400, "malformed_json"),
            ("application/json", "{\"phone\":".to_owned(), 400, "malformed_json"),
            ("application/json", "phone=1".to_owned(), 400, "malformed_json"),
            ("application/json", deep.clone(), 400, "malformed_json"),
            ("application/json", "{} {}".to_owned(), 400, "malformed_json"),
            ("application/json", format!("\"{}\"", "x".repeat(1 << 20)), 413, "body_too_large"),
            ("application/x-www-form-urlencoded", "phone=1".to_owned(), 415, "unsupported_media_type"),
            ("text/plain", "{}".to_owned(), 415, "unsupported_media_type"),
        ] {
            let answer =
                fan.target().send(Method::POST, route.path, Some(&fan.token), Some((kind, body))).await;
            answer.expect_error(status, code);
        }
    }
    assert_eq!(fan.get("/api/auth/me").await.expect(200), before);
}

/// Each endpoint with a body that fits, as far as its form goes.
fn fitting() -> [(&'static str, Value); 15] {
    let phone = "+447700900123";
    [
        ("/api/code/request", json!({ "phone": phone })),
        ("/api/code/verify", json!({ "phone": phone, "code": "123456", "username": "alice" })),
        ("/api/auth/login", json!({ "phone": phone, "code": "123456", "username": "alice" })),
        ("/api/auth/username/check", json!({ "username": "alice" })),
        ("/api/auth/username/generate", json!({ "base": "alice", "include_numbers": true })),
        (
            "/api/auth/update-user-info",
            json!({ "name": "A", "email": "a@b.co", "date_of_birth": "2000-01-01", "username": "alice" }),
        ),
        ("/api/auth/verify-phone/initiate", json!({ "phone": phone })),
        ("/api/auth/verify-phone", json!({ "phone": phone, "code": "123456" })),
        ("/api/auth/resend-code", json!({ "phone": phone })),
        ("/api/auth/teams/primary", json!({ "team_id": 1 })),
        ("/api/auth/teams/other", json!({ "team_ids": [1] })),
        (
            "/api/auth/chat-room",
            json!({ "name": "Corner", "topic": "t", "event_id": 1, "is_private": false }),
        ),
        ("/api/auth/chat-rooms/{matrixRoomId}/invite", json!({ "username": "alice" })),
        ("/api/auth/coins/deduct", json!({ "amount": 1, "reason": "other", "reference_id": "r" })),
        (
            "/api/auth/predictions",
            json!({
                "event_id": 1, "prediction": "home", "score_prediction": { "home": 1, "away": 0 }, "confidence": 50,
            }),
        ),
    ]
}

#[tokio::test]
async fn each_field_refuses_what_does_not_fit_and_is_named() {
    let fan = Target::fan().await;
    let before = fan.get("/api/auth/me").await.expect(200);
    for (path, body) in fitting() {
        for field in body.as_object().unwrap().keys() {
            let mut values = vec![json!({}), json!("a\u{0}"), json!("x".repeat(1_000)), json!(7.5)];
            // No topic is one.
            if field != "topic" {
                values.push(json!(""));
            }
            if field != "team_ids" {
                values.push(json!([]));
            }
            if !["team_id", "event_id", "confidence", "amount"].contains(&field.as_str()) {
                values.push(json!(7));
            }
            for value in values {
                let mut bad = body.clone();
                bad[field] = value;
                let answer = fan.post(path, &bad).await;
                answer.expect_error(422, "validation_error");
                let named: Vec<_> = answer.body["errors"].as_object().unwrap().keys().collect();
                assert_eq!(named, [field], "{path} {bad}");
            }
        }
    }
    assert_eq!(fan.get("/api/auth/me").await.expect(200), before);
}

#[tokio::test]
async fn bodies_that_are_no_object_are_refused() {
    let fan = Target::fan().await;
    for (path, _) in fitting() {
        for body in [json!([]), json!("x"), json!(1), json!(null), json!(true)] {
            let answer = fan.post(path, &body).await;
            answer.expect_error(422, "validation_error");
            assert!(answer.body["errors"]["body"][0].is_string(), "{}", answer.body);
        }
    }
    let fitted: Vec<_> = fitting()
        .map(|(path, _)| path)
        .into_iter()
        .chain([
            "/api/auth/logout",
            "/api/auth/daily-coins",
            "/api/auth/chat/credentials",
            "/api/auth/chat-rooms/{matrixRoomId}/join",
            "/api/auth/chat-rooms/{matrixRoomId}/leave",
        ])
        .collect();
    for route in posts() {
        assert!(fitted.contains(&route.path), "{} is not tried here", route.path);
    }
}

#[tokio::test]
async fn tokens_that_do_not_hold_are_refused_by_every_endpoint_that_needs_one() {
    let (fan, other) = (Target::fan().await, Target::fan().await);
    // One user's secret under another's number.
    let id = |token: &str| token.split('_').nth(1).unwrap().to_owned();
    let crossed = fan.token.replacen(&id(&fan.token), &id(&other.token), 1);
    other.post("/api/auth/logout", &json!({})).await.expect(200);
    for route in api::ALL.iter().filter(|route| route.needs_token) {
        let method = Method::from_bytes(route.method.as_str().as_bytes()).unwrap();
        let send =
            async |token: Option<&str>| fan.target().send(method.clone(), route.path, token, None).await;
        send(None).await.expect_error(401, "token_missing");
        for token in ["nonsense", "tl_1_", crossed.as_str(), other.token.as_str()] {
            send(Some(token)).await.expect_error(401, "token_invalid");
        }
    }
}

#[tokio::test]
async fn bytes_that_are_no_text_are_refused() {
    let target = Target::get();
    let answer = target.send(Method::GET, "/api/logs/sms?phone=%ff%fe", None, None).await;
    answer.expect_error(422, "validation_error");
    let mut bodies = vec![vec![0xff, 0xfe], vec![b'{', 0xff, b'}']];
    // Where bytes arrive as they are: ministack's gateway puts a replacement character, which is text.
    if !Target::is_deployed() {
        bodies.push(vec![b'"', 0xff, 0xfe, b'"']);
    }
    for body in bodies {
        target.send_bytes("/api/code/request", &body).await.expect_error(400, "malformed_json");
    }
}
