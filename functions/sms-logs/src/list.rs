use touchline::api::sms_logs::{ListSmsLogs, SmsLogView};
use touchline::api::{Cursor, Listing, NextPage};
use touchline::domain::sms::LogPosition;
use touchline::storage::sms_logs::Filter;
use touchline::{App, Call, Error, Reply};

pub async fn handle(app: App, call: Call<ListSmsLogs>) -> Result<Reply<Listing<SmsLogView>>, Error> {
    let input = call.input;
    let per_page = input.per_page.0;
    let before = input.cursor.map(|cursor| cursor.position_in("")).transpose()?;
    let filter = Filter { phone: input.phone, date: input.date, status: input.status, before };
    // One more than asked for shows whether there is a next page.
    let mut entries = app.store.sms_logs(&filter, per_page + 1, app.clock.now().date_naive()).await?;
    let more = entries.len() > per_page;
    entries.truncate(per_page);
    let next_cursor =
        entries.last().filter(|_| more).map(|last| Cursor::new("", LogPosition::of(last)).to_string());
    let data = entries.into_iter().map(SmsLogView::from).collect();
    Ok(Listing { data, meta: NextPage { next_cursor } }.into())
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use serde_json::{Value, json};
    use touchline_testing::TestApp;

    const PATH: &str = "/api/logs/sms";
    const PHONE: &str = "+447700900123";

    async fn app() -> TestApp {
        TestApp::serving(&[login::router, crate::router]).start().await
    }

    async fn rows(app: &TestApp, query: &str) -> Vec<Value> {
        app.get(&format!("{PATH}?{query}")).await.expect(200)["data"].as_array().unwrap().clone()
    }

    #[tokio::test]
    async fn sent_and_failed_attempts_are_shown() {
        let app = app().await;
        let code = app.request_code(PHONE).await;
        app.clock.advance(TimeDelta::seconds(1));
        app.sns.refuse();
        let _ = app.post("/api/code/request", json!({ "phone": PHONE })).await.expect(503);
        let rows = rows(&app, "").await;
        assert_eq!(rows.len(), 2);
        let (failed, sent) = (&rows[0], &rows[1]);
        assert!(sent["id"].as_u64() < failed["id"].as_u64());
        assert_eq!(
            sent,
            &json!({
                "id": sent["id"], "phone": PHONE, "code": code, "status": "sent", "provider": "sns",
                "created_at": "2026-11-15T12:00:00Z", "expires_at": "2026-11-15T12:05:00Z", "attempts": 1,
            })
        );
        assert_eq!(
            failed,
            &json!({
                "id": failed["id"], "phone": PHONE, "code": failed["code"], "status": "failed",
                "provider": "sns", "error": "OptedOut", "created_at": "2026-11-15T12:00:01Z", "attempts": 1,
            })
        );
    }

    #[tokio::test]
    async fn a_retried_message_says_how_often() {
        let app = app().await;
        app.sns.throttle(2);
        let _ = app.request_code(PHONE).await;
        assert_eq!(rows(&app, "").await[0]["attempts"], 3);
    }

    #[tokio::test]
    async fn filters_alone_and_together() {
        let app = app().await;
        let _ = app.request_code(PHONE).await;
        let _ = app.request_code("+447700900124").await;
        app.clock.advance(TimeDelta::days(1));
        app.sns.refuse();
        let _ = app.post("/api/code/request", json!({ "phone": PHONE })).await.expect(503);
        let count = async |query: &str| rows(&app, query).await.len();
        assert_eq!(count("").await, 3);
        assert_eq!(count("phone=%2B447700900123").await, 2);
        assert_eq!(count("phone=+447700900123").await, 2, "a plus that was not escaped");
        assert_eq!(count("date=2026-11-15").await, 2);
        assert_eq!(count("date=2026-11-16").await, 1);
        assert_eq!(count("date=2020-01-01").await, 0);
        assert_eq!(count("status=failed").await, 1);
        assert_eq!(count("status=sent&phone=%2B447700900123&date=2026-11-15").await, 1);
        assert_eq!(count("status=failed&date=2026-11-15").await, 0);
    }

    #[tokio::test]
    async fn pages_hold_every_row_once() {
        let app = app().await;
        for n in 0..25 {
            let _ = app.request_code(&format!("+4477009000{n:02}")).await;
            app.clock.advance(TimeDelta::hours(3));
        }
        let mut seen = Vec::new();
        let mut query = "per_page=4".to_owned();
        loop {
            let page = app.get(&format!("{PATH}?{query}")).await.expect(200);
            seen.extend(page["data"].as_array().unwrap().iter().map(|row| row["id"].as_u64().unwrap()));
            match page["meta"]["next_cursor"].as_str() {
                Some(cursor) => query = format!("per_page=4&cursor={cursor}"),
                None => break,
            }
        }
        assert_eq!(seen.len(), 25);
        assert!(seen.is_sorted_by(|a, b| a > b), "newest first, none twice");
    }

    #[tokio::test]
    async fn nonsense_is_named() {
        let app = app().await;
        for (query, field) in [
            ("phone=x", "phone"),
            ("date=2026-02-30", "date"),
            ("status=lost", "status"),
            ("per_page=0", "per_page"),
            ("per_page=101", "per_page"),
            ("per_page=ten", "per_page"),
            ("cursor=x", "cursor"),
        ] {
            let answer = app.get(&format!("{PATH}?{query}")).await;
            answer.expect_error(422, "validation_error");
            assert!(answer.body["errors"][field][0].is_string(), "{}", answer.body);
        }
    }

    #[tokio::test]
    async fn in_production_there_is_no_such_route() {
        for environment in ["production", "", "prod"] {
            let app = TestApp::serving(&[login::router, crate::router])
                .variable("ENVIRONMENT", environment)
                .start()
                .await;
            let _ = app.request_code(PHONE).await;
            for query in ["", "?per_page=ten", "?phone=%2B447700900123"] {
                app.get(&format!("{PATH}{query}")).await.expect_error(404, "not_found");
            }
        }
    }
}
