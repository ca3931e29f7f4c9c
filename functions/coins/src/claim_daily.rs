use touchline::api::Message;
use touchline::api::coins::{ClaimDaily, DailyClaim};
use touchline::flows::coins;
use touchline::{App, Call, Error, Reply};

pub async fn handle(app: App, call: Call<ClaimDaily>) -> Result<Reply<Message<DailyClaim>>, Error> {
    let entry = coins::claim(&app, call.caller.user).await?;
    let message = format!("Here are your {} coins of the day.", entry.amount);
    Ok(Message { message, data: entry.into() }.into())
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use serde_json::json;
    use touchline_testing::{Fault, concurrently};

    use crate::testing::{alice_with, audited_balance};

    #[tokio::test(start_paused = true)]
    async fn coins_are_awarded_once_a_day_and_grow_with_the_streak() {
        let (app, alice) = alice_with(0).await;
        assert_eq!(
            alice.claims_daily_coins().await.expect(200),
            json!({
                "message": "Here are your 10 coins of the day.",
                "data": {
                    "coins_awarded": 10, "new_balance": 10, "next_claim_at": "2026-11-16T00:00:00Z",
                    "streak_days": 1, "streak_bonus": 0,
                },
            })
        );
        let second = alice.claims_daily_coins().await;
        second.expect_error(400, "already_claimed");
        assert_eq!(second.body["next_claim_at"], "2026-11-16T00:00:00Z");
        // The test clock starts at noon. The next claim works from midnight UTC on, and not a millisecond
        // earlier.
        app.clock.advance(TimeDelta::hours(12) - TimeDelta::milliseconds(1));
        alice.claims_daily_coins().await.expect_error(400, "already_claimed");
        app.clock.advance(TimeDelta::milliseconds(1));
        assert_eq!(
            alice.claims_daily_coins().await.expect_data(200),
            json!({
                "coins_awarded": 15, "new_balance": 25, "next_claim_at": "2026-11-17T00:00:00Z",
                "streak_days": 2, "streak_bonus": 5,
            })
        );
        app.clock.advance(TimeDelta::days(2));
        let late = alice.claims_daily_coins().await.expect_data(200);
        assert_eq!((&late["streak_days"], &late["new_balance"]), (&json!(1), &json!(35)));
        assert_eq!(audited_balance(&app, &alice).await, 35);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn twenty_concurrent_claims_give_one_award() {
        let (app, alice) = alice_with(0).await;
        let responses = concurrently(20, |_| alice.claims_daily_coins()).await;
        let with = |status: u16| responses.iter().filter(|response| response.status == status).count();
        // The limit is ten claims a minute, so ten of the twenty requests are 429.
        assert_eq!((with(200), with(400), with(429)), (1, 9, 10), "{responses:?}");
        assert_eq!(audited_balance(&app, &alice).await, 10);
    }

    #[tokio::test(start_paused = true)]
    async fn the_eleventh_claim_within_a_minute_is_429() {
        let (app, alice) = alice_with(0).await;
        alice.claims_daily_coins().await.expect(200);
        for _ in 0..9 {
            alice.claims_daily_coins().await.expect_error(400, "already_claimed");
        }
        alice.claims_daily_coins().await.expect_error(429, "rate_limited");
        app.clock.advance(TimeDelta::minutes(1) + TimeDelta::milliseconds(1));
        alice.claims_daily_coins().await.expect_error(400, "already_claimed");
        assert_eq!(audited_balance(&app, &alice).await, 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_retried_after_a_store_fault_awards_coins_once() {
        for fault in [Fault::LoseResponse, Fault::LoseRequest, Fault::Conflict, Fault::Throttle] {
            let (app, alice) = alice_with(5).await;
            app.faults.first_attempts(fault);
            let claimed = alice.claims_daily_coins().await.expect_data(200);
            assert_eq!(claimed["new_balance"], 15, "{fault:?}");
            app.faults.clear();
            assert_eq!(audited_balance(&app, &alice).await, 15, "{fault:?}");
        }
    }
}
