//! The Lambda function with which operators grant coins and audit wallets. They invoke it by hand: it has no
//! HTTP route.

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

/// The payload of an invocation: `{"grant": {…}}` or `{"audit": {…}}`.
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
    /// Shown in the user's history.
    reason: String,
    /// The idempotency key. If the user already received a grant with this reference id, this grant adds no
    /// coins.
    reference_id: String,
}

#[derive(Debug, Serialize)]
struct Granted {
    user_id: UserId,
    transaction_id: String,
    amount: i64,
    balance: i64,
    /// Whether an earlier grant to the user had the same reference id. If so, this grant adds no coins.
    replayed: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum TreasuryError {
    #[error(
        "the payload must be {{\"grant\": {{\"user_id\", \"amount\", \"reason\", \"reference_id\"}}}} \
         or {{\"audit\": {{\"user_id\"}}}} or {{\"audit\": {{\"resume\"}}}} or {{\"audit\": {{}}}}: {0}"
    )]
    BadOrder(String),
    #[error("{field}: {problem}")]
    BadField { field: &'static str, problem: String },
    #[error("there is no user {0}")]
    UnknownUser(u32),
    #[error("{0}")]
    Failed(#[from] Error),
}

/// The audit stops this long before the deadline, so that its report is returned in time.
const RESERVE: TimeDelta = TimeDelta::seconds(10);

/// Carries out the order in the payload. Lambda ends the process at the `deadline`.
pub async fn handle(app: App, event: Value, deadline: DateTime<Utc>) -> Result<Value, TreasuryError> {
    let order: Order =
        serde_json::from_value(event).map_err(|error| TreasuryError::BadOrder(error.to_string()))?;
    let result = match order {
        Order::Grant(grant) => serde_json::to_value(self::grant(&app, grant).await?),
        Order::Audit(order) => {
            if order.is_empty_resume() {
                return Err(TreasuryError::BadOrder("resume must not be empty".into()));
            }
            let report = audit::audit(&app, order, deadline - RESERVE).await.map_err(Error::from)?;
            serde_json::to_value(report)
        }
    };
    Ok(result.unwrap_or_default())
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

    use aws_sdk_dynamodb::types::AttributeValue;
    use serde_json::{Value, json};
    use touchline_testing::{Fault, TestApp, concurrently};

    use super::*;

    /// Starts an app with the users 1, 2 and 3.
    async fn app() -> TestApp {
        let app = TestApp::serving(&[]).start().await;
        for name in ["alice", "bob", "carol"] {
            app.user(name).await;
        }
        app
    }

    fn grant(user: u32, amount: i64, reference: &str) -> Value {
        let reason = "World Cup promotion";
        json!({ "grant": { "user_id": user, "amount": amount, "reason": reason, "reference_id": reference } })
    }

    async fn audit(app: &TestApp) -> Value {
        app.invoke(handle, json!({ "audit": {} })).await
    }

    async fn balance(app: &TestApp, user: u32) -> i64 {
        app.store.wallet(UserId(user)).await.unwrap().balance
    }

    #[tokio::test(start_paused = true)]
    async fn a_reference_id_grants_coins_once_per_user() {
        let app = app().await;
        let first = app.invoke(handle, grant(1, 50, "promo")).await;
        assert_eq!(
            (&first["amount"], &first["balance"], &first["replayed"]),
            (&json!(50), &json!(50), &json!(false))
        );
        let again = app.invoke(handle, grant(1, 50, "promo")).await;
        assert_eq!((&again["transaction_id"], &again["replayed"]), (&first["transaction_id"], &json!(true)));
        let other = app.try_invoke(handle, grant(1, 60, "promo")).await.unwrap_err();
        assert!(other.to_string().contains("another"), "{other}");
        app.invoke(handle, grant(2, 50, "promo")).await;
        assert_eq!((balance(&app, 1).await, balance(&app, 2).await), (50, 50));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn twenty_concurrent_grants_with_the_same_reference_id_grant_once() {
        let app = app().await;
        concurrently(20, |_| {
            let app = app.clone();
            async move { app.invoke(handle, grant(1, 50, "promo")).await }
        })
        .await;
        assert_eq!(balance(&app, 1).await, 50);
    }

    #[tokio::test(start_paused = true)]
    async fn invalid_payloads_fail_with_the_reason_and_change_nothing() {
        let app = app().await;
        for (payload, reason) in [
            (json!({}), "payload"),
            (json!({ "grant": {} }), "payload"),
            (json!({ "audit": { "resume": [] } }), "resume"),
            (grant(1, 0, "r"), "amount"),
            (grant(1, 1_000_001, "r"), "amount"),
            (grant(1, -5, "r"), "amount"),
            (grant(1, 5, ""), "reference_id"),
            (grant(99, 5, "r"), "no user 99"),
        ] {
            let error = app.try_invoke(handle, payload.clone()).await.unwrap_err().to_string();
            assert!(error.contains(reason), "{payload}: {error}");
        }
        assert_eq!(audit(&app).await["wallets"], 0);
    }

    /// Overwrites an attribute of a user's wallet.
    async fn tamper(app: &TestApp, user: u32, attribute: &str, value: i64) {
        let update = app
            .client()
            .update_item()
            .table_name(&app.config.tables.wallets)
            .key("pk", AttributeValue::S(format!("user#{user}")))
            .key("sk", AttributeValue::S("balance".into()))
            .update_expression("SET #attribute = :value")
            .expression_attribute_names("#attribute", attribute)
            .expression_attribute_values(":value", AttributeValue::N(value.to_string()));
        update.send().await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn an_audit_finds_the_wallet_that_was_tampered_with() {
        let app = app().await;
        for user in 1..=3 {
            for n in 0..5 {
                app.invoke(handle, grant(user, 10 + n, &format!("r{n}"))).await;
            }
        }
        let sound = json!({ "wallets": 3, "entries": 15, "faulty": 0, "faults": [], "resume": null });
        assert_eq!(audit(&app).await, sound);

        tamper(&app, 2, "balance", 61).await;
        let report = audit(&app).await;
        let fault = json!([{ "user_id": 2, "fault": "sum", "sum": 60, "balance": 61 }]);
        assert_eq!(
            (&report["wallets"], &report["faulty"], &report["faults"]),
            (&json!(3), &json!(1), &fault)
        );
        for (user, faults) in [(2, fault), (1, json!([]))] {
            let report = app.invoke(handle, json!({ "audit": { "user_id": user } })).await;
            assert_eq!(report["faults"], faults);
        }
        tamper(&app, 2, "balance", 60).await;

        // A wallet that cannot be read is reported, and the audit continues with the other wallets.
        tamper(&app, 1, "claimed_on", 7).await;
        let report = audit(&app).await;
        let fault = json!([{ "user_id": 1, "fault": "unreadable" }]);
        assert_eq!((&report["wallets"], &report["faults"]), (&json!(3), &fault));

        tamper(&app, 3, "entries", 6).await;
        let report = audit(&app).await;
        let fault = json!({ "user_id": 3, "fault": "count", "counted": 6, "found": 5 });
        assert!(report["faults"].as_array().unwrap().contains(&fault), "{report}");
    }

    /// Each audit has three seconds: 13 until its deadline, minus the `RESERVE` of 10. Each `Scan` request
    /// advances the clock by one second, so one audit cannot read all wallets.
    #[tokio::test(start_paused = true)]
    async fn an_audit_stops_before_its_deadline_and_the_next_audit_resumes_it() {
        let app = app().await;
        for user in 4..=40 {
            app.user(&format!("fan.{user}")).await;
            app.invoke(handle, grant(user, 10, "r")).await;
        }
        tamper(&app, 17, "balance", -10).await;
        let (mut wallets, mut faults, mut runs, mut resume) = (0, Vec::new(), 0, Value::Null);
        loop {
            let clock = Arc::clone(&app.clock);
            app.faults.set(move |attempt| {
                if attempt.operation == "Scan" {
                    clock.advance(TimeDelta::seconds(1));
                }
                Fault::None
            });
            let deadline = app.clock.now() + TimeDelta::seconds(13);
            let payload = json!({ "audit": { "resume": resume } });
            let report = handle(App::clone(&app), payload, deadline).await.unwrap();
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
