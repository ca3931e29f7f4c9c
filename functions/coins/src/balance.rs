use futures_util::future::try_join;
use touchline::api::coins::{BelowEntry, Coins, CoinsPage, CoinsView};
use touchline::api::{Cursor, NextPage};
use touchline::{App, Call, Error, Reply};

pub async fn handle(app: App, call: Call<Coins>) -> Result<Reply<CoinsPage>, Error> {
    let (input, user) = (call.input, call.caller.user);
    let below = input.cursor.map(|cursor| cursor.position_in(user)).transpose()?.map(|below| below.0);
    let history = app.store.history(user, below, input.per_page.0);
    let (wallet, (entries, more)) = try_join(app.store.wallet(user), history).await?;
    let next = entries.last().filter(|_| more).map(|entry| Cursor::new(user, BelowEntry(entry.sequence)));
    let data = CoinsView::of(&wallet, entries, app.clock.now());
    Ok(CoinsPage { data, meta: NextPage { next_cursor: next.map(|cursor| cursor.to_string()) } }.into())
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use serde_json::json;

    use crate::testing::app;

    const PATH: &str = "/api/auth/coins";

    #[tokio::test]
    async fn balance_streak_and_history() {
        let (app, token) = app(0).await;
        assert_eq!(
            app.get_as(&token, PATH).await.expect(200),
            json!({
                "data": {
                    "balance": 0, "streak_days": 0, "next_claim_at": "2026-11-15T12:00:00Z", "entries": [],
                },
                "meta": { "next_cursor": null },
            })
        );
        let _ = app.post_as(&token, "/api/auth/daily-coins", json!({})).await.expect(200);
        app.clock.advance(TimeDelta::seconds(1));
        let body = json!({ "amount": 4, "reason": "wager", "reference_id": "bet-1" });
        let deducted = app.post_as(&token, "/api/auth/coins/deduct", body).await.expect(200);
        let page = app.get_as(&token, PATH).await.expect(200);
        assert_eq!(
            page["data"],
            json!({
                "balance": 6, "streak_days": 1, "next_claim_at": "2026-11-16T00:00:00Z",
                "entries": [
                    {
                        "transaction_id": deducted["data"]["transaction_id"], "type": "deduct", "amount": -4,
                        "balance": 6, "reason": "wager", "reference_id": "bet-1",
                        "created_at": "2026-11-15T12:00:01Z",
                    },
                    {
                        "transaction_id": page["data"]["entries"][1]["transaction_id"], "type": "daily",
                        "amount": 10, "balance": 10, "reason": null, "reference_id": null,
                        "created_at": "2026-11-15T12:00:00Z",
                    },
                ],
            })
        );
    }

    #[tokio::test]
    async fn pages_hold_every_entry_once() {
        let (app, token) = app(100).await;
        for _ in 0..24 {
            let body = json!({ "amount": 1, "reason": "other" });
            let _ = app.post_as(&token, "/api/auth/coins/deduct", body).await.expect(200);
        }
        let (mut balances, mut query) = (Vec::new(), "per_page=7".to_owned());
        loop {
            let page = app.get_as(&token, &format!("{PATH}?{query}")).await.expect(200);
            let entries = page["data"]["entries"].as_array().unwrap();
            balances.extend(entries.iter().map(|entry| entry["balance"].as_i64().unwrap()));
            match page["meta"]["next_cursor"].as_str() {
                Some(cursor) => query = format!("per_page=7&cursor={cursor}"),
                None => break,
            }
        }
        assert_eq!(balances, (76..=100).collect::<Vec<i64>>());
    }

    #[tokio::test]
    async fn nonsense_is_named() {
        let (app, token) = app(0).await;
        for (query, field) in [
            ("cursor=x", "cursor"),
            ("cursor=c2.5", "cursor"),
            ("cursor=e1.5", "cursor"),
            ("per_page=0", "per_page"),
            ("per_page=101", "per_page"),
        ] {
            let answer = app.get_as(&token, &format!("{PATH}?{query}")).await;
            answer.expect_error(422, "validation_error");
            assert!(answer.body["errors"][field][0].is_string(), "{}", answer.body);
        }
    }
}
