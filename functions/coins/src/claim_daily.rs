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
    use std::sync::Arc;

    use chrono::TimeDelta;
    use serde_json::json;
    use touchline_testing::{Fault, at_once};

    use crate::testing::{app, audited};

    const PATH: &str = "/api/auth/daily-coins";

    #[tokio::test]
    async fn once_a_day_with_a_streak() {
        let (app, token) = app(0).await;
        let claim = async || app.post_as(&token, PATH, json!({})).await;
        assert_eq!(
            claim().await.expect(200),
            json!({
                "message": "Here are your 10 coins of the day.",
                "data": {
                    "coins_awarded": 10, "new_balance": 10, "next_claim_at": "2026-11-16T00:00:00Z",
                    "streak_days": 1, "streak_bonus": 0,
                },
            })
        );
        let refused = claim().await;
        refused.expect_error(400, "already_claimed");
        assert!(refused.body["message"].as_str().unwrap().contains("2026-11-16"), "{}", refused.body);
        // It is noon; twelve hours later a new day begins, and not a millisecond before.
        app.clock.advance(TimeDelta::hours(12) - TimeDelta::milliseconds(1));
        claim().await.expect_error(400, "already_claimed");
        app.clock.advance(TimeDelta::milliseconds(1));
        let second = claim().await.expect(200);
        assert_eq!(
            second["data"],
            json!({
                "coins_awarded": 15, "new_balance": 25, "next_claim_at": "2026-11-17T00:00:00Z",
                "streak_days": 2, "streak_bonus": 5,
            })
        );
        app.clock.advance(TimeDelta::days(2));
        let late = claim().await.expect(200);
        assert_eq!((&late["data"]["streak_days"], &late["data"]["new_balance"]), (&json!(1), &json!(35)));
        assert_eq!(audited(&app).await, 35);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn twenty_at_once_give_one_award() {
        let (app, token) = app(0).await;
        let app = Arc::new(app);
        let answers = at_once(20, |_| {
            let (app, token) = (Arc::clone(&app), token.clone());
            async move { app.post_as(&token, PATH, json!({})).await.status.as_u16() }
        })
        .await;
        let with = |status: u16| answers.iter().filter(|answer| **answer == status).count();
        assert_eq!(with(200), 1, "{answers:?}");
        // Of the others ten a minute are heard, and the rest is told to wait.
        assert_eq!((with(400), with(429)), (9, 10), "{answers:?}");
        assert_eq!(audited(&app).await, 10);
    }

    #[tokio::test]
    async fn the_eleventh_call_in_a_minute_is_told_to_wait() {
        let (app, token) = app(0).await;
        let claim = async || app.post_as(&token, PATH, json!({})).await;
        let _ = claim().await.expect(200);
        for _ in 0..9 {
            claim().await.expect_error(400, "already_claimed");
        }
        let limited = claim().await;
        limited.expect_error(429, "rate_limited");
        assert!(limited.headers.contains_key("retry-after"));
        app.clock.advance(TimeDelta::minutes(1) + TimeDelta::milliseconds(1));
        claim().await.expect_error(400, "already_claimed");
        assert_eq!(audited(&app).await, 10);
    }

    #[tokio::test]
    async fn lost_answers_conflicts_and_throttles_are_ridden_out() {
        for fault in [Fault::LoseReply, Fault::LoseRequest, Fault::Conflict, Fault::Throttle] {
            let (app, token) = app(5).await;
            app.faults.first_attempts(fault);
            let answer = app.post_as(&token, PATH, json!({})).await;
            assert_eq!(answer.expect(200)["data"]["new_balance"], 15, "{fault:?}");
            app.faults.clear();
            assert_eq!(audited(&app).await, 15, "{fault:?}");
        }
    }
}
