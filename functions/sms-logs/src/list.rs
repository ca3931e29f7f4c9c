use touchline::api::sms_logs::{ListSmsLogs, SmsLogView};
use touchline::api::{Cursor, CursorPage, NextPage};
use touchline::domain::sms::LogPosition;
use touchline::storage::sms_logs::Filter;
use touchline::{App, Call, Error, Reply};

pub async fn handle(app: App, call: Call<ListSmsLogs>) -> Result<Reply<CursorPage<SmsLogView>>, Error> {
    let input = call.input;
    let per_page = input.per_page.0;
    let before = input.cursor.map(|cursor| cursor.position_in("")).transpose()?;
    let filter = Filter { phone: input.phone, date: input.date, status: input.status, before };
    // Reads one row more than the page holds, to know whether there is a next page.
    let mut entries = app.store.sms_logs(&filter, per_page + 1, app.clock.now().date_naive()).await?;
    let has_more = entries.len() > per_page;
    entries.truncate(per_page);
    let next_cursor =
        entries.last().filter(|_| has_more).map(|last| Cursor::new("", LogPosition::of(last)).to_string());
    let data = entries.into_iter().map(SmsLogView::from).collect();
    Ok(CursorPage { data, meta: NextPage { next_cursor } }.into())
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use serde_json::json;
    use touchline::domain::sms::SmsLogEntry;
    use touchline::storage::sms_logs::Filter;
    use touchline_testing::{Persona, TestApp};

    const PHONE: &str = "+447700900123";
    const OTHER_PHONE: &str = "+447700900124";

    async fn anonymous() -> (TestApp, Persona) {
        let app = TestApp::serving(&[crate::router, login::router]).start().await;
        let caller = app.anonymous();
        (app, caller)
    }

    #[tokio::test]
    async fn sent_and_failed_messages_are_listed() {
        let (app, caller) = anonymous().await;
        let code = caller.receives_code(PHONE).await;
        app.clock.advance(TimeDelta::seconds(1));
        app.sns.reject();
        caller.requests_code(PHONE).await.expect_error(503, "sms_unavailable");
        let rows = caller.lists_sms_logs().await.expect_data(200);
        assert_eq!(rows.as_array().unwrap().len(), 2);
        let (failed, sent) = (&rows[0], &rows[1]);
        assert!(sent["id"].as_u64().unwrap() < failed["id"].as_u64().unwrap());
        assert_eq!(
            *sent,
            json!({
                "id": sent["id"], "phone": PHONE, "code": code, "status": "sent", "provider": "sns",
                "created_at": "2026-11-15T12:00:00Z", "expires_at": "2026-11-15T12:05:00Z", "attempts": 1,
            })
        );
        assert_eq!(
            *failed,
            json!({
                "id": failed["id"], "phone": PHONE, "code": failed["code"], "status": "failed",
                "provider": "sns", "error": "OptedOut", "created_at": "2026-11-15T12:00:01Z", "attempts": 1,
            })
        );
    }

    #[tokio::test]
    async fn each_retry_of_a_message_counts_as_an_attempt() {
        let (app, caller) = anonymous().await;
        app.sns.throttle(2);
        caller.receives_code(PHONE).await;
        assert_eq!(caller.lists_sms_logs().await.expect_data(200)[0]["attempts"], 3);
    }

    #[tokio::test]
    async fn filters_work_alone_and_together() {
        let (app, caller) = anonymous().await;
        caller.receives_code(PHONE).await;
        caller.receives_code(OTHER_PHONE).await;
        app.clock.advance(TimeDelta::days(1));
        app.sns.reject();
        caller.requests_code(PHONE).await.expect_error(503, "sms_unavailable");
        let list = || caller.lists_sms_logs();
        let unescaped_plus = caller.get(format!("/api/logs/sms?phone={PHONE}"));
        let counts = [
            ("all", list().await, 3),
            ("phone", list().phone(PHONE).await, 2),
            ("phone with an unescaped plus", unescaped_plus.await, 2),
            ("first day", list().date("2026-11-15").await, 2),
            ("second day", list().date("2026-11-16").await, 1),
            ("day without messages", list().date("2020-01-01").await, 0),
            ("failed", list().status("failed").await, 1),
            ("sent, phone and day", list().status("sent").phone(PHONE).date("2026-11-15").await, 1),
            ("failed and day", list().status("failed").date("2026-11-15").await, 0),
        ];
        for (filter, response, count) in counts {
            assert_eq!(response.expect_data(200).as_array().unwrap().len(), count, "{filter}");
        }
    }

    #[tokio::test]
    async fn the_pages_together_hold_every_row_once() {
        let (app, caller) = anonymous().await;
        for n in 0..25 {
            caller.receives_code(&format!("+4477009000{n:02}")).await;
            app.clock.advance(TimeDelta::hours(3));
        }
        let first_page = caller.lists_sms_logs().per_page(4);
        let mut ids = Vec::new();
        let mut next_page = Some(first_page.clone());
        while let Some(page) = next_page {
            let page = page.await.expect(200);
            ids.extend(page["data"].as_array().unwrap().iter().map(|row| row["id"].as_u64().unwrap()));
            next_page = page["meta"]["next_cursor"].as_str().map(|cursor| first_page.clone().cursor(cursor));
        }
        assert_eq!(ids.len(), 25);
        assert!(ids.is_sorted_by(|a, b| a > b), "newest first, each once: {ids:?}");
    }

    #[tokio::test]
    async fn a_page_costs_the_same_however_long_the_log_is() {
        let (app, caller) = anonymous().await;
        caller.receives_code(PHONE).await;
        let cost = async || {
            let page = caller.lists_sms_logs().per_page(1).date("2026-11-15").await;
            page.headers["x-touchline-cost"].to_str().unwrap().to_owned()
        };
        let before = cost().await;
        let filter = Filter { phone: None, date: None, status: None, before: None };
        let logged = app.store.sms_logs(&filter, 1, app.clock.now().date_naive()).await.unwrap().remove(0);
        // Together, these entries are larger than one read unit.
        for id in 1..=100 {
            app.store.log_sms(&SmsLogEntry { id, ..logged.clone() }).await.unwrap();
        }
        assert_eq!(cost().await, before);
    }

    #[tokio::test]
    async fn invalid_filters_are_422_and_the_response_names_them() {
        let (_app, caller) = anonymous().await;
        for (field, value) in [
            ("phone", "x"),
            ("date", "2026-02-30"),
            ("status", "lost"),
            ("per_page", "0"),
            ("per_page", "101"),
            ("per_page", "ten"),
            ("cursor", "x"),
        ] {
            let response = caller.lists_sms_logs().query(field, value).await;
            response.expect_invalid(&[field]);
            assert_eq!(response.body["errors"][field], json!([response.message()]));
        }
    }

    #[tokio::test]
    async fn staging_serves_the_log_only_with_the_secret() {
        const SECRET: &str = "a-secret-of-the-developers";
        let staging = || TestApp::serving(&[crate::router, login::router]).variable("ENVIRONMENT", "staging");
        let app = staging().variable("SMS_LOG_SECRET", SECRET).start().await;
        let caller = app.anonymous();
        caller.requests_code(PHONE).await.expect(200);
        let list = || caller.lists_sms_logs();
        for request in [
            list(),
            list().header("x-touchline-log-secret", ""),
            list().header("x-touchline-log-secret", "a-secret-of-the-developerz"),
            list().query("per_page", "ten"),
        ] {
            request.await.expect_error(404, "not_found");
        }
        let rows = list().header("X-Touchline-Log-Secret", SECRET).await.expect_data(200);
        assert_eq!(rows[0]["phone"], PHONE);

        let without_secret = staging().start().await;
        let list = without_secret.anonymous().lists_sms_logs().header("x-touchline-log-secret", "");
        list.await.expect_error(404, "not_found");
    }

    #[tokio::test]
    async fn production_does_not_serve_the_log() {
        for environment in ["production", "", "prod"] {
            let app = TestApp::serving(&[crate::router, login::router])
                .variable("ENVIRONMENT", environment)
                .variable("PHONE_PREFIXES", "+44")
                .start()
                .await;
            let caller = app.anonymous();
            caller.receives_code(PHONE).await;
            let list = || caller.lists_sms_logs();
            for request in [list(), list().query("per_page", "ten"), list().phone(PHONE)] {
                request.await.expect_error(404, "not_found");
            }
        }
    }
}
