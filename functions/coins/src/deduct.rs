use touchline::api::coins::{Deduct, Deduction};
use touchline::api::{Invalid, Message};
use touchline::domain::coins::EntryKey;
use touchline::domain::limit;
use touchline::flows::coins;
use touchline::{App, Call, Error, Reply};

pub async fn handle(app: App, call: Call<Deduct>) -> Result<Reply<Message<Deduction>>, Error> {
    let (input, user) = (call.input, call.caller.user);
    let reason = input.reason.0;
    let reasons = &app.config.coins.reasons;
    if !reasons.contains(&reason) {
        return Err(Invalid::field(
            "reason",
            format!("Choose one of these reasons: {}.", reasons.join(", ")),
        )
        .into());
    }
    let key = match input.reference_id {
        Some(reference) => EntryKey::Reference(reference),
        None => match call.idempotency_key {
            Some(key) => EntryKey::Header(key),
            None => EntryKey::Alone(limit::request_id(app.clock.now(), app.random.number())),
        },
    };
    let receipt = coins::deduct(&app, user, input.amount, &reason, key).await?;
    let entry = receipt.entry;
    let (spent, left) = (-entry.amount, entry.balance);
    let noun = if spent == 1 { "coin" } else { "coins" };
    let body = Message { message: format!("{spent} {noun} spent, {left} left."), data: entry.into() };
    let reply = Reply::from(body);
    Ok(if receipt.is_replay { reply.replayed() } else { reply })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use serde_json::{Value, json};
    use touchline_testing::{Answer, Fault, TestApp, at_once};

    use crate::testing::{app, audited};

    const PATH: &str = "/api/auth/coins/deduct";

    fn is_replay(answer: &Answer) -> bool {
        answer.headers.get("idempotency-replayed").is_some_and(|value| value == "true")
    }

    #[tokio::test]
    async fn coins_are_taken_and_the_answer_says_how_many_are_left() {
        let (app, token) = app(100).await;
        let body = json!({ "amount": 30, "reason": "purchase", "reference_id": "order-1" });
        let answer = app.post_as(&token, PATH, body).await;
        assert!(!is_replay(&answer));
        let body = answer.expect(200);
        let id = body["data"]["transaction_id"].as_str().unwrap();
        assert!(id.starts_with("tx_") && id.len() == 23);
        assert_eq!(
            body,
            json!({
                "message": "30 coins spent, 70 left.",
                "data": { "previous_balance": 100, "amount_deducted": 30, "new_balance": 70, "transaction_id": id },
            })
        );
        assert_eq!(audited(&app).await, 70);
    }

    #[tokio::test]
    async fn the_same_reference_again_answers_the_first_result_and_takes_nothing() {
        let (app, token) = app(100).await;
        let body = json!({ "amount": 60, "reason": "wager", "reference_id": "order-1" });
        let first = app.post_as(&token, PATH, body.clone()).await.expect(200);
        let other = json!({ "amount": 30, "reason": "other" });
        let _ = app.post_as(&token, PATH, other).await.expect(200);
        // There are 10 left by now: too few for another 60, but not for an answer.
        let again = app.post_as(&token, PATH, body.clone()).await;
        assert!(is_replay(&again));
        assert_eq!(again.expect(200), first);
        assert_eq!(audited(&app).await, 10);
        for (field, value) in [("amount", json!(61)), ("amount", json!(1)), ("reason", json!("gift"))] {
            let mut different = body.clone();
            different[field] = value;
            let answer = app.post_as(&token, PATH, different).await;
            answer.expect_error(422, "reference_reused");
            assert!(answer.body["errors"]["reference_id"][0].is_string());
        }
        assert_eq!(audited(&app).await, 10);
    }

    #[tokio::test]
    async fn without_a_reference_the_header_serves_and_without_either_each_call_counts() {
        let (app, token) = app(100).await;
        let bearer = format!("Bearer {token}");
        let send = async |key: Option<&str>, body: Value| {
            let mut headers = vec![("authorization", bearer.as_str())];
            headers.extend(key.map(|key| ("idempotency-key", key)));
            app.send("POST", PATH, &headers, body.to_string().as_bytes()).await
        };
        let plain = json!({ "amount": 10, "reason": "gift" });
        let first = send(Some("k1"), plain.clone()).await.expect(200);
        let again = send(Some("k1"), plain.clone()).await;
        assert!(is_replay(&again));
        assert_eq!(again.expect(200), first);
        // A reference of the same text is another key, and it goes before the header.
        let referenced = json!({ "amount": 10, "reason": "gift", "reference_id": "k1" });
        assert!(!is_replay(&send(Some("k1"), referenced.clone()).await));
        assert!(is_replay(&send(Some("k2"), referenced).await));
        assert_eq!(audited(&app).await, 80);
        for _ in 0..2 {
            assert!(!is_replay(&send(None, plain.clone()).await));
        }
        assert_eq!(audited(&app).await, 60);
        for key in ["", &"x".repeat(65)] {
            let answer = send(Some(key), plain.clone()).await;
            answer.expect_error(422, "validation_error");
            assert!(answer.body["errors"]["Idempotency-Key"][0].is_string());
        }
        let answer = send(Some("k1"), json!({ "amount": 11, "reason": "gift" })).await;
        answer.expect_error(422, "reference_reused");
        assert!(answer.body["errors"]["Idempotency-Key"][0].is_string(), "{}", answer.body);
        let entries = app.get_as(&token, "/api/auth/coins").await.expect(200)["data"]["entries"].clone();
        assert_eq!(entries.as_array().unwrap().last().unwrap()["reference_id"], "start");
        let under_k1: Vec<_> =
            entries.as_array().unwrap().iter().filter(|entry| entry["reference_id"] == "k1").collect();
        assert_eq!(under_k1.len(), 1, "a header's key is no reference");
    }

    #[tokio::test]
    async fn more_than_there_is_is_refused_with_the_balance() {
        let (app, token) = app(25).await;
        for _ in 0..2 {
            let body = json!({ "amount": 26, "reason": "purchase", "reference_id": "big" });
            let answer = app.post_as(&token, PATH, body).await;
            answer.expect_error(400, "insufficient_balance");
            assert!(answer.body["message"].as_str().unwrap().contains("25"), "{}", answer.body);
        }
        // A refusal uses nothing up: the reference works once the coins are there.
        let body = json!({ "amount": 25, "reason": "purchase", "reference_id": "big" });
        let _ = app.post_as(&token, PATH, body).await.expect(200);
        assert_eq!(audited(&app).await, 0);
    }

    #[tokio::test]
    async fn a_new_wallet_is_empty() {
        let (app, token) = app(0).await;
        let answer = app.post_as(&token, PATH, json!({ "amount": 1, "reason": "purchase" })).await;
        answer.expect_error(400, "insufficient_balance");
        assert!(answer.body["message"].as_str().unwrap().contains('0'));
    }

    #[tokio::test]
    async fn nonsense_is_named() {
        let (app, token) = app(100).await;
        let fits = json!({ "amount": 10, "reason": "purchase", "reference_id": "r" });
        for (field, value) in [
            ("amount", json!(0)),
            ("amount", json!(-1)),
            ("amount", json!(1.5)),
            ("amount", json!("10")),
            ("amount", json!(1_000_001)),
            ("amount", json!(1_000_000_000_000_u64)),
            ("amount", json!(null)),
            ("reason", json!("bribe")),
            ("reason", json!("Purchase")),
            ("reason", json!("")),
            ("reason", json!(null)),
            ("reason", json!({ "of": "state" })),
            ("reference_id", json!("")),
            ("reference_id", json!("x".repeat(65))),
            ("reference_id", json!("a\u{0}b")),
            ("reference_id", json!("a\nb")),
            ("reference_id", json!(7)),
        ] {
            let mut body = fits.clone();
            body[field] = value;
            let answer = app.post_as(&token, PATH, body.clone()).await;
            answer.expect_error(422, "validation_error");
            let named: Vec<_> = answer.body["errors"].as_object().unwrap().keys().collect();
            assert_eq!(named, [field], "{body}");
        }
        app.post_as(&token, PATH, json!([])).await.expect_error(422, "validation_error");
        assert_eq!(audited(&app).await, 100);
    }

    async fn many(
        app: &Arc<TestApp>,
        token: &str,
        count: usize,
        body: impl Fn(usize) -> Value,
    ) -> Vec<Answer> {
        at_once(count, |n| {
            let (app, token, body) = (Arc::clone(app), token.to_owned(), body(n));
            async move { app.post_as(&token, PATH, body).await }
        })
        .await
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn two_hundred_at_once_never_overdraw() {
        let (app, token) = app(100).await;
        let app = Arc::new(app);
        let order = |n| json!({ "amount": 1, "reason": "purchase", "reference_id": format!("order-{n}") });
        let mut answers = many(&app, &token, 200, order).await;
        for (n, answer) in answers.iter_mut().enumerate() {
            // Whoever was told that the service is busy asks again, by the same reference.
            if answer.status == 503 {
                *answer = app.post_as(&token, PATH, order(n)).await;
            }
        }
        let with = |status: u16| answers.iter().filter(|answer| answer.status == status).count();
        assert_eq!((with(200), with(400)), (100, 100));
        assert_eq!(audited(&app).await, 0);
        let successes = answers.iter().filter(|answer| answer.status == 200);
        let balances: BTreeSet<_> =
            successes.map(|answer| answer.body["data"]["new_balance"].as_i64()).collect();
        assert_eq!(balances, (0..100).map(Some).collect(), "each from the balance that the one before left");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn fifty_retries_of_one_reference_at_once_deduct_once_and_all_hear_the_same() {
        let (app, token) = app(100).await;
        let app = Arc::new(app);
        let answers = many(
            &app,
            &token,
            50,
            |_| json!({ "amount": 60, "reason": "purchase", "reference_id": "order" }),
        )
        .await;
        let bodies: BTreeSet<String> = answers.iter().map(|answer| answer.body.to_string()).collect();
        assert_eq!(bodies.len(), 1, "{bodies:?}");
        assert!(answers.iter().all(|answer| answer.status == 200));
        assert_eq!(answers.iter().filter(|answer| !is_replay(answer)).count(), 1);
        assert_eq!(audited(&app).await, 40);
    }

    #[tokio::test]
    async fn lost_answers_conflicts_and_throttles_are_ridden_out() {
        for fault in [Fault::LoseReply, Fault::LoseRequest, Fault::Conflict, Fault::Throttle] {
            let (app, token) = app(100).await;
            app.faults.first_attempts(fault);
            let answer = app.post_as(&token, PATH, json!({ "amount": 30, "reason": "purchase" })).await;
            assert!(!is_replay(&answer), "{fault:?}");
            assert_eq!(answer.expect(200)["data"]["new_balance"], 70, "{fault:?}");
            app.faults.clear();
            assert_eq!(audited(&app).await, 70, "{fault:?}");
        }
    }

    #[tokio::test]
    async fn a_conflict_that_does_not_end_is_a_503_and_leaves_nothing_behind() {
        let (app, token) = app(100).await;
        app.faults.set(
            |attempt| {
                if attempt.operation == "TransactWriteItems" { Fault::Conflict } else { Fault::None }
            },
        );
        let answer = app.post_as(&token, PATH, json!({ "amount": 30, "reason": "purchase" })).await;
        answer.expect_error(503, "busy");
        assert!(answer.headers.contains_key("retry-after"));
        app.faults.clear();
        assert_eq!(audited(&app).await, 100);
    }
}
