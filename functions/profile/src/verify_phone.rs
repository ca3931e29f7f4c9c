use touchline::api::Message;
use touchline::api::profile::{Verified, VerifyPhone};
use touchline::domain::Purpose;
use touchline::flows::codes;
use touchline::storage::Reads;
use touchline::storage::users::ChangePhone;
use touchline::{App, Call, Error, Reply};

use crate::NO_RECORD;

pub async fn handle(app: App, call: Call<VerifyPhone>) -> Result<Reply<Message<Verified>>, Error> {
    let (phone, id) = (call.input.phone, call.caller.user);
    let code = codes::check(&app, &phone, Purpose::Verify, Some(id), &call.input.code).await?;
    let user = app.store.user(id, Reads::Consistent).await?.ok_or(NO_RECORD)?;
    let nonce = app.random.word(16);
    app.store.change_phone(&ChangePhone { user: &user, phone: &phone, code: &code, nonce: &nonce }).await?;
    let message = "Your phone number is verified.".into();
    Ok(Message { message, data: Verified { verified: true, phone } }.into())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use touchline_testing::{Fault, TestApp, at_once};

    const PATH: &str = "/api/auth/verify-phone";
    const INITIATE: &str = "/api/auth/verify-phone/initiate";
    const OLD: &str = "+447700900123";
    const NEW: &str = "+447700900555";

    async fn app() -> TestApp {
        TestApp::serving(&[login::router, crate::router]).start().await
    }

    async fn initiated(app: &TestApp) -> (String, String) {
        let token = app.token(OLD).await;
        let _ = app.post_as(&token, INITIATE, json!({ "phone": NEW })).await.expect(200);
        (token, app.sns.last_code(NEW))
    }

    #[tokio::test]
    async fn the_user_moves_to_the_phone() {
        let app = app().await;
        let (token, code) = initiated(&app).await;
        let body = app.post_as(&token, PATH, json!({ "phone": NEW, "code": code })).await.expect(200);
        let data = json!({ "verified": true, "phone": NEW });
        assert_eq!(body, json!({ "message": "Your phone number is verified.", "data": data }));
        assert_eq!(app.get_as(&token, "/api/auth/me").await.expect(200)["data"]["phone"], NEW);
        assert_eq!(app.log_in(NEW).await["user"]["id"], 1);
        assert_eq!(app.log_in(OLD).await["user"]["id"], 2, "the old number is anybody's again");
    }

    #[tokio::test]
    async fn ones_own_phone_can_be_verified_again() {
        let app = app().await;
        let token = app.token(OLD).await;
        let _ = app.post_as(&token, INITIATE, json!({ "phone": OLD })).await.expect(200);
        let body = json!({ "phone": OLD, "code": app.sns.last_code(OLD) });
        let _ = app.post_as(&token, PATH, body).await.expect(200);
        assert_eq!(app.log_in(OLD).await["user"]["id"], 1);
    }

    #[tokio::test]
    async fn wrong_codes_wrong_phones_and_wrong_people() {
        let app = app().await;
        let (token, code) = initiated(&app).await;
        let wrong = if code == "000000" { "000001" } else { "000000" };
        app.post_as(&token, PATH, json!({ "phone": NEW, "code": wrong }))
            .await
            .expect_error(401, "invalid_code");
        let mismatch = app.post_as(&token, PATH, json!({ "phone": "+447700900777", "code": code })).await;
        mismatch.expect_error(422, "phone_mismatch");
        assert!(mismatch.body["errors"]["phone"][0].is_string());
        let other = app.token("+447700900124").await;
        app.post_as(&other, PATH, json!({ "phone": NEW, "code": code }))
            .await
            .expect_error(422, "phone_mismatch");
        // A login code is for logging in.
        let login_code = app.request_code(NEW).await;
        app.post_as(&token, PATH, json!({ "phone": NEW, "code": login_code }))
            .await
            .expect_error(401, "invalid_code");
        let _ = app.post_as(&token, PATH, json!({ "phone": NEW, "code": code })).await.expect(200);
        app.post_as(&token, PATH, json!({ "phone": NEW, "code": code }))
            .await
            .expect_error(401, "invalid_code");
    }

    #[tokio::test]
    async fn only_the_latest_phone_is_the_pending_one() {
        let app = app().await;
        let (token, code) = initiated(&app).await;
        let _ = app.post_as(&token, INITIATE, json!({ "phone": "+447700900777" })).await.expect(200);
        app.post_as(&token, PATH, json!({ "phone": NEW, "code": code }))
            .await
            .expect_error(422, "phone_mismatch");
    }

    #[tokio::test]
    async fn a_phone_that_somebody_took_meanwhile_is_refused() {
        let app = app().await;
        let (token, code) = initiated(&app).await;
        assert_eq!(app.log_in(NEW).await["user"]["id"], 2);
        app.post_as(&token, PATH, json!({ "phone": NEW, "code": code }))
            .await
            .expect_error(422, "phone_taken");
        assert_eq!(app.get_as(&token, "/api/auth/me").await.expect(200)["data"]["phone"], OLD);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn twenty_at_once_verify_once() {
        let app = Arc::new(app().await);
        let (token, code) = initiated(&app).await;
        let statuses = at_once(20, |_| {
            let (app, token, body) = (Arc::clone(&app), token.clone(), json!({ "phone": NEW, "code": code }));
            async move { app.post_as(&token, PATH, body).await.status.as_u16() }
        })
        .await;
        assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
        assert_eq!(statuses.iter().filter(|status| **status == 401).count(), 19, "{statuses:?}");
    }

    /// Whatever call the process dies after, the user has one phone, and it is theirs.
    #[tokio::test]
    async fn dying_between_any_two_calls_leaves_one_phone() {
        for survived in 0..6 {
            let app = app().await;
            let (token, code) = initiated(&app).await;
            let mut calls = 0;
            app.faults.set(move |_| {
                calls += 1;
                if calls <= survived { Fault::None } else { Fault::LoseRequest }
            });
            let _ = app.post_as(&token, PATH, json!({ "phone": NEW, "code": code })).await;
            app.faults.clear();
            let phone = app.get_as(&token, "/api/auth/me").await.expect(200)["data"]["phone"].clone();
            let dump = app.dump().await;
            assert_eq!(dump.matches("\"sk\": S(\"owner\")").count(), 2, "one phone, one name\n{dump}");
            assert_eq!(app.log_in(phone.as_str().unwrap()).await["user"]["id"], 1);
        }
    }
}
