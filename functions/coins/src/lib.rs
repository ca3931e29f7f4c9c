//! Coins: deductions, the daily coins, the balance and the history.

mod balance;
mod claim_daily;
mod deduct;

use touchline::{App, Router};

#[must_use]
pub fn router(app: App) -> Router {
    Router::new(app).on(deduct::handle).on(claim_daily::handle).on(balance::handle)
}

#[cfg(test)]
mod testing {
    use serde_json::json;
    use touchline::domain::UserId;
    use touchline_testing::{TestApp, User};

    /// Starts an app with the user alice, who has this many coins.
    pub async fn alice_with(coins: u32) -> (TestApp, User) {
        let app = TestApp::serving(&[crate::router]).start().await;
        let alice = app.user("alice").await;
        if coins > 0 {
            let grant = json!({
                "user_id": alice.id, "amount": coins, "reason": "test", "reference_id": "start",
            });
            app.invoke(treasury::handle, json!({ "grant": grant })).await;
        }
        (app, alice)
    }

    /// Asserts that an audit of the user's wallet finds no faults, and returns the balance.
    pub async fn audited_balance(app: &TestApp, user: &User) -> i64 {
        let report = app.invoke(treasury::handle, json!({ "audit": { "user_id": user.id } })).await;
        assert_eq!(report["faults"], json!([]), "{report}");
        app.store.wallet(UserId(user.id)).await.unwrap().balance
    }
}
