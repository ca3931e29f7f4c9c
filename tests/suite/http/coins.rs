use serde_json::json;

use crate::target::HttpApi;

#[tokio::test]
async fn coins_are_awarded_once_a_day_and_deducted_once_for_each_reference_id() {
    let alice = HttpApi::under_test().user("alice").await;
    let bet = alice.deducts(4).reason("wager").reference("bet-1");
    bet.clone().await.expect_error(400, "insufficient_balance");
    let claimed = alice.claims_daily_coins().await.expect_data(200);
    assert_eq!((&claimed["coins_awarded"], &claimed["streak_days"]), (&json!(10), &json!(1)));
    alice.claims_daily_coins().await.expect_error(400, "already_claimed");

    let first = bet.clone().await;
    assert!(!first.is_replay());
    let first = first.expect(200);
    assert_eq!((&first["data"]["previous_balance"], &first["data"]["new_balance"]), (&json!(10), &json!(6)));
    let replay = bet.clone().await;
    assert!(replay.is_replay());
    assert_eq!(replay.expect(200), first);
    bet.field("amount", 5).await.expect_error(422, "reference_reused");

    let coins = alice.views_coins().await.expect_data(200);
    assert_eq!((&coins["balance"], &coins["streak_days"]), (&json!(6), &json!(1)));
    assert_eq!(coins["next_claim_at"], claimed["next_claim_at"]);
    let profile = alice.views_profile().await.expect_data(200);
    assert_eq!((&profile["balance"], &profile["stats"]["settled"]), (&json!(6), &json!(0)));
    let history: Vec<_> =
        coins["entries"].as_array().unwrap().iter().map(|entry| (&entry["type"], &entry["amount"])).collect();
    assert_eq!(history, [(&json!("deduct"), &json!(-4)), (&json!("daily"), &json!(10))]);
}

#[tokio::test]
async fn operators_grant_coins_and_audit_wallets() {
    let app = HttpApi::under_test();
    let alice = app.user("alice").await;
    let grant = json!({
        "grant": { "user_id": alice.id, "amount": 100, "reason": "Promotion", "reference_id": "promo" },
    });
    for replayed in [false, true] {
        let granted = app.invoke("treasury", &grant).await;
        assert_eq!((&granted["balance"], &granted["replayed"]), (&json!(100), &json!(replayed)));
    }
    let report = app.invoke("treasury", &json!({ "audit": { "user_id": alice.id } })).await;
    assert_eq!(report, json!({ "wallets": 1, "entries": 1, "faulty": 0, "faults": [], "resume": null }));
    let report = app.invoke("treasury", &json!({ "audit": {} })).await;
    assert_eq!(report["faults"], json!([]), "the wallets of other tests are sound too");
}
