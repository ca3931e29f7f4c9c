//! For operators: grants coins, and audits wallets. Invoked by hand, never through the API.

mod audit;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use touchline::App;
use touchline::Error;
use touchline::domain::coins::{Amount, ReferenceId};
use touchline::domain::{Name, UserId};
use touchline::flows::coins;
use touchline::storage::Reads;

use audit::Order as AuditOrder;

/// `{"grant": {…}}` or `{"audit": {…}}`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Order {
    Grant(Grant),
    Audit(AuditOrder),
}

#[derive(Debug, Deserialize)]
struct Grant {
    user_id: u32,
    amount: i64,
    /// Why, for whoever reads the history.
    reason: String,
    /// Granting the same reference again grants nothing.
    reference_id: String,
}

#[derive(Debug, Serialize)]
struct Granted {
    user_id: UserId,
    transaction_id: String,
    amount: i64,
    balance: i64,
    /// Whether this reference had been granted before.
    replayed: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum TreasuryError {
    #[error(
        "the payload must be {{\"grant\": {{\"user_id\", \"amount\", \"reason\", \"reference_id\"}}}} \
         or {{\"audit\": {{\"user_id\"}}}} or {{\"audit\": {{}}}}: {0}"
    )]
    BadOrder(String),
    #[error("{field} {problem}")]
    BadField { field: &'static str, problem: String },
    #[error("there is no user {0}")]
    UnknownUser(u32),
    #[error("{0}")]
    Failed(#[from] Error),
}

/// An audit that was begun gets this long to end, before Lambda ends everything.
const RESERVE: TimeDelta = TimeDelta::seconds(10);

/// One invocation. `deadline` is when its time is up.
pub async fn handle(app: App, event: Value, deadline: DateTime<Utc>) -> Result<Value, TreasuryError> {
    let order: Order =
        serde_json::from_value(event).map_err(|error| TreasuryError::BadOrder(error.to_string()))?;
    let answer = match order {
        Order::Grant(grant) => serde_json::to_value(self::grant(&app, grant).await?),
        Order::Audit(order) => {
            if order.is_empty_resume() {
                return Err(TreasuryError::BadOrder("resume must not be empty".into()));
            }
            let report = audit::audit(&app, order, deadline - RESERVE).await.map_err(Error::from)?;
            serde_json::to_value(report)
        }
    };
    Ok(answer.unwrap_or_default())
}

async fn grant(app: &App, grant: Grant) -> Result<Granted, TreasuryError> {
    let bad = |field| {
        move |problem: touchline::domain::Reason| TreasuryError::BadField {
            field,
            problem: problem.to_string(),
        }
    };
    let amount = Amount::new(grant.amount).map_err(bad("amount"))?;
    let reason = Name::parse(&grant.reason).map_err(bad("reason"))?;
    let reference = ReferenceId::parse(&grant.reference_id).map_err(bad("reference_id"))?;
    let user = UserId(grant.user_id);
    if app.store.user(user, Reads::Consistent).await.map_err(Error::from)?.is_none() {
        return Err(TreasuryError::UnknownUser(grant.user_id));
    }
    let receipt = coins::grant(app, user, amount, reason.as_str(), reference).await?;
    tracing::info!(user = user.0, amount = receipt.entry.amount, replayed = receipt.is_replay, "granted");
    Ok(Granted {
        user_id: user,
        transaction_id: receipt.entry.transaction_id,
        amount: receipt.entry.amount,
        balance: receipt.entry.balance,
        replayed: receipt.is_replay,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};
    use touchline_testing::{Fault, TestApp, at_once};

    use super::*;

    async fn app() -> TestApp {
        let app = TestApp::serving(&[]).start().await;
        for user in 1..=3 {
            app.register(user).await;
        }
        app
    }

    async fn try_run(app: &TestApp, order: Value) -> Result<Value, TreasuryError> {
        handle(app.app.clone(), order, app.app.clock.now() + TimeDelta::minutes(5)).await
    }

    async fn run(app: &TestApp, order: Value) -> Value {
        try_run(app, order).await.unwrap()
    }

    fn granting(user: u32, amount: i64, reference: &str) -> Value {
        let reason = "World Cup promotion";
        json!({ "grant": { "user_id": user, "amount": amount, "reason": reason, "reference_id": reference } })
    }

    #[tokio::test]
    async fn a_grant_is_made_once_for_each_reference() {
        let app = app().await;
        let first = run(&app, granting(1, 50, "promo")).await;
        assert_eq!(
            (&first["amount"], &first["balance"], &first["replayed"]),
            (&json!(50), &json!(50), &json!(false))
        );
        let again = run(&app, granting(1, 50, "promo")).await;
        assert_eq!((&again["transaction_id"], &again["replayed"]), (&first["transaction_id"], &json!(true)));
        let other = try_run(&app, granting(1, 60, "promo")).await.unwrap_err();
        assert!(other.to_string().contains("another"), "{other}");
        let _ = run(&app, granting(2, 50, "promo")).await;
        assert_eq!(app.app.store.wallet(UserId(1)).await.unwrap().balance, 50);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_same_grant_many_times_at_once_is_one() {
        let app = Arc::new(app().await);
        at_once(20, |_| {
            let app = Arc::clone(&app);
            async move { run(&app, granting(1, 50, "promo")).await }
        })
        .await;
        assert_eq!(app.app.store.wallet(UserId(1)).await.unwrap().balance, 50);
    }

    #[tokio::test]
    async fn nonsense_is_refused() {
        let app = app().await;
        for (order, word) in [
            (json!({}), "payload"),
            (json!({ "grant": {} }), "payload"),
            (json!({ "audit": { "resume": [] } }), "resume"),
            (granting(1, 0, "r"), "amount"),
            (granting(1, 1_000_001, "r"), "amount"),
            (granting(1, -5, "r"), "amount"),
            (granting(1, 5, ""), "reference_id"),
            (granting(99, 5, "r"), "no user 99"),
        ] {
            let error = try_run(&app, order.clone()).await.unwrap_err().to_string();
            assert!(error.contains(word), "{order}: {error}");
        }
        assert_eq!(run(&app, json!({ "audit": {} })).await["wallets"], 0);
    }

    async fn set(app: &TestApp, user: u32, what: &str, value: i64) {
        use aws_sdk_dynamodb::types::AttributeValue as Value;
        let update = app
            .client()
            .update_item()
            .table_name(&app.app.config.tables.wallets)
            .key("pk", Value::S(format!("user#{user}")))
            .key("sk", Value::S("balance".into()))
            .update_expression("SET #what = :value")
            .expression_attribute_names("#what", what)
            .expression_attribute_values(":value", Value::N(value.to_string()));
        update.send().await.unwrap();
    }

    #[tokio::test]
    async fn an_audit_finds_the_wallet_that_lies() {
        let app = app().await;
        for user in 1..=3 {
            for n in 0..5 {
                let _ = run(&app, granting(user, 10 + n, &format!("r{n}"))).await;
            }
        }
        let sound = json!({ "wallets": 3, "entries": 15, "faulty": 0, "faults": [], "resume": null });
        assert_eq!(run(&app, json!({ "audit": {} })).await, sound);
        set(&app, 2, "balance", 61).await;
        let report = run(&app, json!({ "audit": {} })).await;
        let fault = json!([{ "user_id": 2, "fault": "sum", "sum": 60, "balance": 61 }]);
        assert_eq!(
            (&report["wallets"], &report["faulty"], &report["faults"]),
            (&json!(3), &json!(1), &fault)
        );
        assert_eq!(run(&app, json!({ "audit": { "user_id": 2 } })).await["faults"], fault);
        assert_eq!(run(&app, json!({ "audit": { "user_id": 1 } })).await["faults"], json!([]));
        set(&app, 2, "balance", 60).await;
        // One that cannot be read is told, and keeps nobody from the rest.
        set(&app, 1, "claimed_on", 7).await;
        let report = run(&app, json!({ "audit": {} })).await;
        let fault = json!([{ "user_id": 1, "fault": "unreadable" }]);
        assert_eq!((&report["wallets"], &report["faults"]), (&json!(3), &fault));
        set(&app, 3, "entries", 6).await;
        let report = run(&app, json!({ "audit": {} })).await;
        let fault = json!({ "user_id": 3, "fault": "count", "counted": 6, "found": 5 });
        assert!(report["faults"].as_array().unwrap().contains(&fault), "{report}");
    }

    /// The time is up after every page; each run goes on where the last one was, and finds what is wrong.
    #[tokio::test]
    async fn an_audit_stops_in_time_and_goes_on() {
        let app = app().await;
        for user in 4..=40 {
            app.register(user).await;
            let _ = run(&app, granting(user, 10, "r")).await;
        }
        set(&app, 17, "balance", -10).await;
        let (mut wallets, mut faults, mut runs, mut resume) = (0, Vec::new(), 0, Value::Null);
        loop {
            // The clock runs out after some reads.
            let clock = Arc::clone(&app.clock);
            app.faults.set(move |attempt| {
                if attempt.operation == "Scan" {
                    clock.advance(TimeDelta::seconds(1));
                }
                Fault::None
            });
            let deadline = app.app.clock.now() + TimeDelta::seconds(13);
            let order = json!({ "audit": { "resume": resume } });
            let report = handle(app.app.clone(), order, deadline).await.unwrap();
            app.faults.clear();
            runs += 1;
            wallets += report["wallets"].as_u64().unwrap();
            faults.extend(report["faults"].as_array().unwrap().clone());
            resume = report["resume"].clone();
            if resume.is_null() {
                break;
            }
            assert!(runs < 20, "{report}");
        }
        assert!(runs > 1);
        assert_eq!(wallets, 37);
        assert!(faults.iter().all(|fault| fault["user_id"] == 17) && !faults.is_empty(), "{faults:?}");
    }
}
