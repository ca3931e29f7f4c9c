use touchline::api::Message;
use touchline::api::login::{CodeSent, RequestCode};
use touchline::domain::Sending;
use touchline::flows::codes;
use touchline::{App, Call, Error, Reply};

/// The answer is the same for phones that are known and phones that are not.
pub async fn handle(app: App, call: Call<RequestCode>) -> Result<Reply<Message<CodeSent>>, Error> {
    let expires_in = codes::send(&app, &call.input.phone, Sending::Login, call.address.as_ref()).await?;
    Ok(Message { message: "The code is on its way.".into(), data: CodeSent { expires_in } }.into())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    use chrono::TimeDelta;
    use serde_json::json;
    use touchline::domain::{Phone, Sending};
    use touchline::flows::codes;
    use touchline::storage::Store;
    use touchline_testing::{Fault, TestApp, at_once};

    const PATH: &str = "/api/code/request";
    const PHONE: &str = "+447700900123";

    async fn app() -> TestApp {
        TestApp::serving(&[crate::router]).start().await
    }

    #[tokio::test]
    async fn a_code_is_sent_and_its_validity_told() {
        let app = app().await;
        let body = app.post(PATH, json!({ "phone": "+44 7700 900-123" })).await.expect(200);
        assert_eq!(body, json!({ "message": "The code is on its way.", "data": { "expires_in": 300 } }));
        let message = &app.sns.messages()[0];
        assert_eq!(message["PhoneNumber"], PHONE);
        let attributes: Vec<_> =
            message.iter().filter(|(name, _)| name.ends_with(".Name")).map(|(_, v)| v).collect();
        assert!(attributes.iter().any(|name| *name == "AWS.SNS.SMS.MaxPrice"), "{attributes:?}");
        assert!(message.values().any(|value| value == "Transactional"));
    }

    #[tokio::test]
    async fn a_phone_that_is_none_is_refused() {
        let app = app().await;
        for body in
            [json!({}), json!({ "phone": "12345" }), json!({ "phone": 447_700 }), json!({ "phone": null })]
        {
            let answer = app.post(PATH, body).await;
            answer.expect_error(422, "validation_error");
            assert!(answer.body["errors"]["phone"][0].is_string());
        }
        assert!(app.sns.messages().is_empty());
    }

    #[tokio::test]
    async fn five_in_ten_minutes_and_ten_a_day() {
        let app = app().await;
        for _ in 0..5 {
            let _ = app.post(PATH, json!({ "phone": PHONE })).await.expect(200);
            app.clock.advance(TimeDelta::minutes(1));
        }
        let refused = app.post(PATH, json!({ "phone": PHONE })).await;
        refused.expect_error(429, "rate_limited");
        assert_eq!(refused.headers["retry-after"], "300");
        // Others are not concerned.
        let _ = app.post(PATH, json!({ "phone": "+447700900999" })).await.expect(200);

        app.clock.advance(TimeDelta::minutes(5) - TimeDelta::milliseconds(1));
        app.post(PATH, json!({ "phone": PHONE })).await.expect_error(429, "rate_limited");
        app.clock.advance(TimeDelta::milliseconds(1));
        for _ in 0..5 {
            let _ = app.post(PATH, json!({ "phone": PHONE })).await.expect(200);
            app.clock.advance(TimeDelta::minutes(2));
        }
        app.clock.advance(TimeDelta::minutes(30));
        let refused = app.post(PATH, json!({ "phone": PHONE })).await;
        refused.expect_error(429, "rate_limited");
        assert_eq!(refused.headers["retry-after"], (24 * 3_600 - 50 * 60).to_string().as_str());
        assert_eq!(app.sns.messages().len(), 11);
    }

    #[tokio::test]
    async fn an_address_is_limited_and_loopback_is_not() {
        let app =
            TestApp::serving(&[crate::router]).variable("CODES_PER_ADDRESS_PER_HOUR", "3").start().await;
        let ask = |source: &'static str, n: u32| {
            let body = json!({ "phone": format!("+4477009{n:05}") }).to_string();
            let app = &app;
            async move { app.send_from(source, "POST", PATH, &[], body.as_bytes()).await }
        };
        for n in 0..3 {
            let _ = ask("203.0.113.9", n).await.expect(200);
        }
        let refused = ask("203.0.113.9", 3).await;
        refused.expect_error(429, "rate_limited");
        assert_eq!(refused.headers["retry-after"], "3600");
        let _ = ask("203.0.113.10", 3).await.expect(200);
        for n in 10..20 {
            let _ = ask("127.0.0.1", n).await.expect(200);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn of_twenty_at_once_five_are_sent() {
        let app = Arc::new(app().await);
        let answers = at_once(20, |_| {
            let app = Arc::clone(&app);
            async move { app.post(PATH, json!({ "phone": PHONE })).await }
        })
        .await;
        assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 5);
        assert_eq!(answers.iter().filter(|answer| answer.status == 429).count(), 15);
        assert_eq!(app.sns.messages().len(), 5);
    }

    #[tokio::test]
    async fn a_refused_message_is_a_503_and_uses_nothing_up() {
        let app = app().await;
        app.sns.refuse();
        for _ in 0..7 {
            let answer = app.post(PATH, json!({ "phone": PHONE })).await;
            answer.expect_error(503, "sms_unavailable");
            assert_eq!(answer.headers["retry-after"], "1");
        }
        app.sns.accept();
        for _ in 0..5 {
            let _ = app.post(PATH, json!({ "phone": PHONE })).await.expect(200);
        }
        app.post(PATH, json!({ "phone": PHONE })).await.expect_error(429, "rate_limited");
    }

    #[tokio::test]
    async fn a_throttled_provider_is_asked_again() {
        let app = app().await;
        app.sns.throttle(2);
        let _ = app.post(PATH, json!({ "phone": PHONE })).await.expect(200);
        assert_eq!(app.sns.messages().len(), 1);
    }

    #[tokio::test]
    async fn a_country_that_is_not_served_is_refused() {
        let app = TestApp::serving(&[crate::router]).variable("PHONE_PREFIXES", "+1, +49").start().await;
        app.post(PATH, json!({ "phone": PHONE })).await.expect_error(422, "validation_error");
        let _ = app.post(PATH, json!({ "phone": "+4915112345678" })).await.expect(200);
    }

    /// Each call's first answer is lost and the SDK sends it again: still one place in the limit, one code.
    #[tokio::test]
    async fn a_lost_answer_does_not_count_twice() {
        let app = app().await;
        for _ in 0..5 {
            app.faults.first_attempts(Fault::LoseReply);
            let _ = app.post(PATH, json!({ "phone": PHONE })).await.expect(200);
        }
        app.faults.clear();
        assert_eq!(app.sns.messages().len(), 5);
        app.post(PATH, json!({ "phone": PHONE })).await.expect_error(429, "rate_limited");
        let body = json!({ "phone": PHONE, "code": app.sns.last_code(PHONE) });
        let _ = app.post("/api/code/verify", body).await.expect(200);
    }

    #[tokio::test]
    async fn a_store_that_only_throttles_is_a_503_with_nothing_sent() {
        let app = app().await;
        for fault in [Fault::Throttle, Fault::Conflict, Fault::LoseRequest] {
            app.faults.set(move |_| fault);
            let answer = app.post(PATH, json!({ "phone": PHONE })).await;
            answer.expect_error(503, "busy");
            assert_eq!(answer.headers["retry-after"], "1");
        }
        assert!(app.sns.messages().is_empty());
    }

    #[tokio::test]
    async fn a_limit_of_one_is_a_limit() {
        let app = TestApp::serving(&[crate::router])
            .variable("CODES_PER_10_MINUTES", "1")
            .variable("CODES_PER_DAY", "1")
            .variable("CODES_PER_ADDRESS_PER_HOUR", "1")
            .start()
            .await;
        let ask = async |phone: &str| {
            let body = json!({ "phone": phone }).to_string();
            app.send_from("203.0.113.9", "POST", PATH, &[], body.as_bytes()).await
        };
        app.sns.refuse();
        ask(PHONE).await.expect_error(503, "sms_unavailable");
        app.sns.accept();
        let _ = ask(PHONE).await.expect(200);
        ask("+447700900999").await.expect_error(429, "rate_limited");
        app.post(PATH, json!({ "phone": PHONE })).await.expect_error(429, "rate_limited");
    }

    /// What was not sent does not count for the address either, whatever the reason.
    #[tokio::test]
    async fn an_address_gets_its_place_back() {
        let app =
            TestApp::serving(&[crate::router]).variable("CODES_PER_ADDRESS_PER_HOUR", "6").start().await;
        let ask = async |phone: &str| {
            let body = json!({ "phone": phone }).to_string();
            app.send_from("203.0.113.9", "POST", PATH, &[], body.as_bytes()).await
        };
        app.sns.refuse();
        for _ in 0..8 {
            ask(PHONE).await.expect_error(503, "sms_unavailable");
        }
        app.sns.accept();
        for _ in 0..5 {
            let _ = ask(PHONE).await.expect(200);
        }
        for _ in 0..8 {
            ask(PHONE).await.expect_error(429, "rate_limited");
        }
        let _ = ask("+447700900999").await.expect(200);
        ask("+447700900998").await.expect_error(429, "rate_limited");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn twenty_refused_at_once_use_nothing_up() {
        let app = Arc::new(app().await);
        app.sns.refuse();
        at_once(20, |_| {
            let app = Arc::clone(&app);
            async move { app.post(PATH, json!({ "phone": PHONE })).await }
        })
        .await;
        app.sns.accept();
        for _ in 0..5 {
            let _ = app.post(PATH, json!({ "phone": PHONE })).await.expect(200);
        }
        app.post(PATH, json!({ "phone": PHONE })).await.expect_error(429, "rate_limited");
    }

    /// The SDK's second copy of a write comes after somebody else's: it must not count again, nor bring
    /// the older code back.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_repeated_write_that_was_overtaken_changes_nothing() {
        let app = Arc::new(app().await);
        let (overtake, overtaken) = mpsc::channel::<()>();
        let mut lost = false;
        app.faults.set(move |attempt| match (attempt.operation, attempt.number) {
            ("UpdateItem", 1) if !lost => {
                lost = true;
                Fault::LoseReply
            }
            ("UpdateItem", 2) => {
                // The second copy waits here until the other request is through.
                // Not as a thread that others wait behind.
                let _ = tokio::task::block_in_place(|| overtaken.recv_timeout(Duration::from_secs(5)));
                Fault::None
            }
            _ => Fault::None,
        });
        let first = {
            let app = Arc::clone(&app);
            tokio::spawn(async move { app.post(PATH, json!({ "phone": PHONE })).await })
        };
        while !app.dump().await.contains("\"m0\"") {
            tokio::task::yield_now().await;
        }
        // Past the faults, whose plan is held up.
        let mut other = app.app.clone();
        other.store = Store::new(app.client(), other.config.tables.clone());
        let phone = Phone::parse(PHONE).unwrap();
        codes::send(&other, &phone, Sending::Login, None).await.unwrap();
        let newest = app.sns.last_code(PHONE);
        overtake.send(()).unwrap();
        let _ = first.await.unwrap().expect(200);
        app.faults.clear();
        let body = json!({ "phone": PHONE, "code": newest });
        let _ = app.post("/api/code/verify", body).await.expect(200);
        for _ in 0..3 {
            let _ = app.post(PATH, json!({ "phone": PHONE })).await.expect(200);
        }
        app.post(PATH, json!({ "phone": PHONE })).await.expect_error(429, "rate_limited");
    }
}
