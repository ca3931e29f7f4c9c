//! Every endpoint against everything that a request can get wrong.

use reqwest::Method;
use serde_json::{Value, json};
use touchline::api;

use crate::target::Target;

fn posts() -> impl Iterator<Item = &'static api::Route> {
    api::ALL.iter().filter(|route| route.method == Method::POST.as_str())
}

#[tokio::test]
async fn bodies_that_are_no_json_are_refused_by_every_endpoint() {
    let fan = Target::fan().await;
    let before = fan.get("/api/auth/me").await.expect(200);
    let deep = format!("{}1{}", "[".repeat(1_000), "]".repeat(1_000));
    for route in posts().filter(|route| route.path != "/api/auth/logout") {
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

#[tokio::test]
async fn bodies_of_the_wrong_shape_are_refused_with_the_field_named() {
    let fan = Target::fan().await;
    let before = fan.get("/api/auth/me").await.expect(200);
    for route in posts().filter(|route| route.path != "/api/auth/logout") {
        for body in [json!([]), json!("x"), json!(1), json!(null), json!(true)] {
            let answer = fan.post(route.path, &body).await;
            answer.expect_error(422, "validation_error");
            assert!(answer.body["errors"]["body"][0].is_string(), "{}", answer.body);
        }
        for value in [json!({}), json!([]), json!(7), json!(true), json!("\u{0}"), json!("x".repeat(1_000))] {
            let fields =
                ["phone", "code", "username", "base", "include_numbers", "name", "email", "date_of_birth"];
            let body: Value = fields.iter().map(|field| ((*field).to_owned(), value.clone())).collect();
            let answer = fan.post(route.path, &body).await;
            answer.expect_error(422, "validation_error");
        }
    }
    assert_eq!(fan.get("/api/auth/me").await.expect(200), before);
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
    let answer = target.send_bytes("/api/code/request", &[b'"', 0xff, 0xfe, b'"']).await;
    answer.expect_error(400, "malformed_json");
}
