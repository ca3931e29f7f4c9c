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
        // The reference id takes precedence over the `Idempotency-Key` header.
        Some(reference) => EntryKey::Reference(reference),
        None => match call.idempotency_key {
            Some(key) => EntryKey::Header(key),
            None => EntryKey::Generated(limit::request_id(app.clock.now(), app.random.number())),
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

    use serde_json::json;
    use touchline_testing::{Fault, concurrently};

    use crate::testing::{alice_with, audited_balance};

    #[tokio::test(start_paused = true)]
    async fn coins_are_deducted_and_the_response_has_the_new_balance() {
        let (app, alice) = alice_with(100).await;
        let response = alice.deducts(30).reference("order-1").await;
        assert!(!response.is_replay());
        let body = response.expect(200);
        let id = body["data"]["transaction_id"].as_str().unwrap();
        assert!(id.starts_with("tx_") && id.len() == 23);
        assert_eq!(
            body,
            json!({
                "message": "30 coins spent, 70 left.",
                "data": { "previous_balance": 100, "amount_deducted": 30, "new_balance": 70, "transaction_id": id },
            })
        );
        assert_eq!(audited_balance(&app, &alice).await, 70);
    }

    #[tokio::test(start_paused = true)]
    async fn a_repeated_reference_id_returns_the_first_result_and_deducts_nothing() {
        let (app, alice) = alice_with(100).await;
        let order = alice.deducts(60).reason("wager").reference("order-1");
        let first = order.clone().await.expect(200);
        alice.deducts(30).reason("other").await.expect(200);
        // Only 10 coins are left, too few for 60. The replay still succeeds, because it deducts nothing.
        let replay = order.clone().await;
        assert!(replay.is_replay());
        assert_eq!(replay.expect(200), first);
        assert_eq!(audited_balance(&app, &alice).await, 10);
        for different in
            [order.clone().field("amount", 61), order.clone().field("amount", 1), order.reason("gift")]
        {
            let response = different.await;
            response.expect_error(422, "reference_reused");
            assert!(response.body["errors"]["reference_id"][0].is_string());
        }
        assert_eq!(audited_balance(&app, &alice).await, 10);
    }

    #[tokio::test(start_paused = true)]
    async fn the_idempotency_key_is_used_when_there_is_no_reference_id() {
        let (app, alice) = alice_with(100).await;
        let gift = alice.deducts(10).reason("gift");
        let first = gift.clone().idempotency_key("k1").await.expect(200);
        let replay = gift.clone().idempotency_key("k1").await;
        assert!(replay.is_replay());
        assert_eq!(replay.expect(200), first);
        // A reference id and a header with the same text are different keys. The reference id takes
        // precedence.
        let referenced = gift.clone().reference("k1");
        assert!(!referenced.clone().idempotency_key("k1").await.is_replay());
        assert!(referenced.idempotency_key("k2").await.is_replay());
        assert_eq!(audited_balance(&app, &alice).await, 80);
        for invalid in ["", &"x".repeat(65)] {
            gift.clone().idempotency_key(invalid).await.expect_invalid(&["Idempotency-Key"]);
        }
        let reused = alice.deducts(11).reason("gift").idempotency_key("k1").await;
        reused.expect_error(422, "reference_reused");
        assert!(reused.body["errors"]["Idempotency-Key"][0].is_string(), "{}", reused.body);
        let entries = alice.views_coins().await.expect_data(200)["entries"].clone();
        let history: Vec<_> =
            entries.as_array().unwrap().iter().map(|entry| entry["reference_id"].as_str()).collect();
        assert_eq!(history, [Some("k1"), None, Some("start")], "a key from the header is not a reference id");
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_reference_id_or_an_idempotency_key_every_request_deducts() {
        let (app, alice) = alice_with(100).await;
        for _ in 0..2 {
            let response = alice.deducts(10).await;
            assert!(!response.is_replay());
            response.expect(200);
        }
        assert_eq!(audited_balance(&app, &alice).await, 80);
    }

    #[tokio::test(start_paused = true)]
    async fn a_deduction_above_the_balance_is_400_and_does_not_use_up_the_reference_id() {
        let (app, alice) = alice_with(25).await;
        for _ in 0..2 {
            let response = alice.deducts(26).reference("big").await;
            response.expect_error(400, "insufficient_balance");
            assert_eq!(response.message(), "You need 26 coins and have 25.");
            assert_eq!((&response.body["required"], &response.body["balance"]), (&json!(26), &json!(25)));
        }
        alice.deducts(25).reference("big").await.expect(200);
        assert_eq!(audited_balance(&app, &alice).await, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_wallet_is_empty() {
        let (_app, alice) = alice_with(0).await;
        let response = alice.deducts(1).await;
        response.expect_error(400, "insufficient_balance");
        assert_eq!((&response.body["required"], &response.body["balance"]), (&json!(1), &json!(0)));
    }

    #[tokio::test(start_paused = true)]
    async fn invalid_fields_are_422_and_the_response_names_them() {
        let (app, alice) = alice_with(100).await;
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
            alice.deducts(10).reference("r").field(field, value).await.expect_invalid(&[field]);
        }
        alice.deducts(10).body(json!([])).await.expect_invalid(&["amount", "body", "reason"]);
        assert_eq!(audited_balance(&app, &alice).await, 100);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn two_hundred_concurrent_deductions_never_overdraw_the_wallet() {
        let (app, alice) = alice_with(100).await;
        let order = |n| alice.deducts(1).reference(format!("order-{n}"));
        let mut responses = concurrently(200, order).await;
        for (n, response) in responses.iter_mut().enumerate() {
            // After a 409, the client sends the request again, with the same reference id.
            if response.status == 409 {
                *response = order(n).await;
            }
        }
        let with = |status: u16| responses.iter().filter(|response| response.status == status).count();
        assert_eq!((with(200), with(400)), (100, 100));
        assert_eq!(audited_balance(&app, &alice).await, 0);
        let successes = responses.iter().filter(|response| response.status == 200);
        let balances: BTreeSet<_> =
            successes.map(|response| response.body["data"]["new_balance"].as_i64()).collect();
        assert_eq!(balances, (0..100).map(Some).collect(), "every deduction has a different new balance");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn fifty_concurrent_requests_with_the_same_reference_id_deduct_once() {
        let (app, alice) = alice_with(100).await;
        let responses = concurrently(50, |_| alice.deducts(60).reference("order")).await;
        let bodies: BTreeSet<String> = responses.iter().map(|response| response.body.to_string()).collect();
        assert_eq!(bodies.len(), 1, "{bodies:?}");
        assert!(responses.iter().all(|response| response.status == 200));
        assert_eq!(responses.iter().filter(|response| !response.is_replay()).count(), 1);
        assert_eq!(audited_balance(&app, &alice).await, 40);
    }

    #[tokio::test(start_paused = true)]
    async fn a_deduction_retried_after_a_store_fault_deducts_once() {
        for fault in [Fault::LoseResponse, Fault::LoseRequest, Fault::Conflict, Fault::Throttle] {
            let (app, alice) = alice_with(100).await;
            app.faults.first_attempts(fault);
            let response = alice.deducts(30).await;
            assert!(!response.is_replay(), "{fault:?}");
            assert_eq!(response.expect_data(200)["new_balance"], 70, "{fault:?}");
            app.faults.clear();
            assert_eq!(audited_balance(&app, &alice).await, 70, "{fault:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lasting_store_conflict_is_409_and_deducts_nothing() {
        let (app, alice) = alice_with(100).await;
        app.faults.set(
            |attempt| {
                if attempt.operation == "TransactWriteItems" { Fault::Conflict } else { Fault::None }
            },
        );
        alice.deducts(30).await.expect_error(409, "concurrent_change");
        app.faults.clear();
        assert_eq!(audited_balance(&app, &alice).await, 100);
    }
}
