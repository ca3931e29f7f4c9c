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

    use crate::testing::alice_with;

    #[tokio::test(start_paused = true)]
    async fn the_response_has_the_balance_the_streak_and_the_history() {
        let (app, alice) = alice_with(0).await;
        assert_eq!(
            alice.views_coins().await.expect(200),
            json!({
                "data": {
                    "balance": 0, "streak_days": 0, "next_claim_at": "2026-11-15T12:00:00Z", "entries": [],
                },
                "meta": { "next_cursor": null },
            })
        );
        alice.claims_daily_coins().await.expect(200);
        app.clock.advance(TimeDelta::seconds(1));
        let deducted = alice.deducts(4).reason("wager").reference("bet-1").await.expect_data(200);
        let data = alice.views_coins().await.expect_data(200);
        assert_eq!(
            data,
            json!({
                "balance": 6, "streak_days": 1, "next_claim_at": "2026-11-16T00:00:00Z",
                "entries": [
                    {
                        "transaction_id": deducted["transaction_id"], "type": "deduct", "amount": -4,
                        "balance": 6, "reason": "wager", "reference_id": "bet-1",
                        "created_at": "2026-11-15T12:00:01Z",
                    },
                    {
                        "transaction_id": data["entries"][1]["transaction_id"], "type": "daily",
                        "amount": 10, "balance": 10, "reason": null, "reference_id": null,
                        "created_at": "2026-11-15T12:00:00Z",
                    },
                ],
            })
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_pages_together_hold_every_entry_once() {
        let (_app, alice) = alice_with(100).await;
        for _ in 0..24 {
            alice.deducts(1).reason("other").await.expect(200);
        }
        let mut balances = Vec::new();
        let mut request = alice.views_coins().per_page(7);
        loop {
            let page = request.await.expect(200);
            let entries = page["data"]["entries"].as_array().unwrap();
            balances.extend(entries.iter().map(|entry| entry["balance"].as_i64().unwrap()));
            let Some(cursor) = page["meta"]["next_cursor"].as_str() else { break };
            request = alice.views_coins().per_page(7).cursor(cursor);
        }
        assert_eq!(balances, (76..=100).collect::<Vec<i64>>());
    }

    #[tokio::test(start_paused = true)]
    async fn invalid_query_parameters_are_422_and_the_response_names_them() {
        let (_app, alice) = alice_with(0).await;
        for (parameter, value) in [("cursor", "x"), ("cursor", ""), ("per_page", "0"), ("per_page", "101")] {
            alice.views_coins().query(parameter, value).await.expect_invalid(&[parameter]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_cursor_of_another_user_is_422() {
        let (app, alice) = alice_with(10).await;
        alice.deducts(1).await.expect(200);
        let page = alice.views_coins().per_page(1).await.expect(200);
        let cursor = page["meta"]["next_cursor"].as_str().unwrap();
        alice.views_coins().cursor(cursor).await.expect(200);
        app.user("bob").await.views_coins().cursor(cursor).await.expect_invalid(&["cursor"]);
    }
}
