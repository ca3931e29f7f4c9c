use touchline::api::Data;
use touchline::api::login::{ListSessions, SessionView};
use touchline::flows::sessions;
use touchline::{App, Call, Error, Reply};

/// The most sessions that a response lists. Few users have more than three.
const MOST: usize = 100;

pub async fn handle(app: App, call: Call<ListSessions>) -> Result<Reply<Data<Vec<SessionView>>>, Error> {
    let mut sessions = sessions::active(&app, &call.caller).await?;
    sessions.truncate(MOST);
    Ok(Data { data: sessions }.into())
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use serde_json::json;
    use touchline_testing::TestApp;

    const PHONE: &str = "+447700900123";

    #[tokio::test]
    async fn sessions_that_have_not_ended_are_listed_with_the_last_used_first() {
        let app = TestApp::serving(&[crate::router]).start().await;
        let first = app.sign_in(PHONE).await;
        app.sign_in("+447700900124").await;
        app.clock.advance(TimeDelta::days(2));
        let code = app.anonymous().receives_code(PHONE).await;
        let login = app.anonymous().verifies_code(PHONE, &code).field("device_name", "Ada's phone").await;
        let second = app.with_token(login.expect_data(200)["token"].as_str().unwrap());
        app.clock.advance(TimeDelta::days(2));

        let listed = second.lists_sessions().await.expect_data(200);
        assert_eq!(listed.as_array().unwrap().len(), 2);
        assert_eq!(
            listed[0],
            json!({
                "id": listed[0]["id"], "device_name": "Ada's phone", "current": true,
                "created_at": "2026-11-17T12:00:00Z", "last_used_at": listed[0]["last_used_at"],
            })
        );
        assert_eq!(
            (&listed[1]["id"], &listed[1]["current"]),
            (&first.credentials["device_id"], &json!(false))
        );
        assert_eq!(listed[1]["device_name"], json!(null));

        first.logs_out().await.expect(200);
        assert_eq!(second.lists_sessions().await.expect_data(200).as_array().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn expired_sessions_are_not_listed() {
        let app = TestApp::serving(&[crate::router]).start().await;
        app.sign_in(PHONE).await;
        app.clock.advance(TimeDelta::days(31));
        let second = app.sign_in(PHONE).await;
        assert_eq!(second.lists_sessions().await.expect_data(200).as_array().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_session_ends_a_year_after_the_login_even_if_it_is_used_every_day() {
        let app = TestApp::serving(&[crate::router]).start().await;
        let alice = app.sign_in(PHONE).await;
        for _ in 0..364 {
            app.clock.advance(TimeDelta::days(1));
            alice.lists_sessions().await.expect(200);
        }
        app.clock.advance(TimeDelta::days(1));
        alice.lists_sessions().await.expect_error(401, "token_expired");
    }
}
