//! Coins: taking some, the daily bonus, balance and history.

mod balance;
mod claim_daily;
mod deduct;

use touchline::{App, Router};

#[must_use]
pub fn router(app: App) -> Router {
    Router::new(app).on(deduct::handle).on(claim_daily::handle).on(balance::handle)
}

/// What the tests of the endpoints share.
#[cfg(test)]
mod testing {
    use serde_json::{Value, json};
    use touchline_testing::TestApp;

    /// User 1, with some coins.
    pub async fn app(coins: u32) -> (TestApp, String) {
        let app = TestApp::serving(&[login::router, crate::router]).start().await;
        let token = app.token("+447700900123").await;
        if coins > 0 {
            let order = json!({
                "grant": { "user_id": 1, "amount": coins, "reason": "test", "reference_id": "start" },
            });
            treasury(&app, order).await;
        }
        (app, token)
    }

    pub async fn treasury(app: &TestApp, order: Value) -> Value {
        let deadline = app.app.clock.now() + chrono::TimeDelta::minutes(5);
        treasury::handle(app.app.clone(), order, deadline).await.unwrap()
    }

    /// The balance, after an audit that finds nothing wrong.
    pub async fn audited(app: &TestApp) -> i64 {
        let report = treasury(app, json!({ "audit": { "user_id": 1 } })).await;
        assert_eq!(report["faults"], json!([]), "{report}");
        app.app.store.wallet(touchline::domain::UserId(1)).await.unwrap().balance
    }
}
