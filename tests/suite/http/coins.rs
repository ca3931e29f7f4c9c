use serde_json::json;

use crate::target::Target;

const DEDUCT: &str = "/api/auth/coins/deduct";

#[tokio::test]
async fn coins_come_once_a_day_and_go_once_per_reference() {
    let fan = Target::fan().await;
    let order = json!({ "amount": 4, "reason": "wager", "reference_id": "bet-1" });
    fan.post(DEDUCT, &order).await.expect_error(400, "insufficient_balance");
    let claimed = fan.post("/api/auth/daily-coins", &json!({})).await.expect(200);
    assert_eq!((&claimed["data"]["coins_awarded"], &claimed["data"]["streak_days"]), (&json!(10), &json!(1)));
    fan.post("/api/auth/daily-coins", &json!({})).await.expect_error(400, "already_claimed");

    let first = fan.post(DEDUCT, &order).await;
    assert!(!first.headers.contains_key("idempotency-replayed"));
    let first = first.expect(200);
    assert_eq!((&first["data"]["previous_balance"], &first["data"]["new_balance"]), (&json!(10), &json!(6)));
    let again = fan.post(DEDUCT, &order).await;
    assert_eq!(again.headers["idempotency-replayed"], "true");
    assert_eq!(again.expect(200), first);
    let other = json!({ "amount": 5, "reason": "wager", "reference_id": "bet-1" });
    fan.post(DEDUCT, &other).await.expect_error(422, "reference_reused");

    let coins = fan.get("/api/auth/coins").await.expect(200)["data"].clone();
    assert_eq!((&coins["balance"], &coins["streak_days"]), (&json!(6), &json!(1)));
    assert_eq!(coins["next_claim_at"], claimed["data"]["next_claim_at"]);
    let history: Vec<_> =
        coins["entries"].as_array().unwrap().iter().map(|entry| (&entry["type"], &entry["amount"])).collect();
    assert_eq!(history, [(&json!("deduct"), &json!(-4)), (&json!("daily"), &json!(10))]);
}

#[tokio::test]
async fn operators_grant_and_audit() {
    let fan = Target::fan().await;
    let id = &fan.login["user"]["id"];
    let grant =
        json!({ "grant": { "user_id": id, "amount": 100, "reason": "Promotion", "reference_id": "promo" } });
    for replayed in [false, true] {
        let granted = fan.target().invoke("treasury", &grant).await;
        assert_eq!((&granted["balance"], &granted["replayed"]), (&json!(100), &json!(replayed)));
    }
    let report = fan.target().invoke("treasury", &json!({ "audit": { "user_id": id } })).await;
    assert_eq!(report, json!({ "wallets": 1, "entries": 1, "faulty": 0, "faults": [], "resume": null }));
    let report = fan.target().invoke("treasury", &json!({ "audit": {} })).await;
    assert_eq!(report["faults"], json!([]), "other tests' wallets are sound as well");
}
