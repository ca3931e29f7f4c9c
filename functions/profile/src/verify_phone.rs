use touchline::api::Message;
use touchline::api::profile::{Verified, VerifyPhone};
use touchline::domain::UserId;
use touchline::domain::limit::{DailyAction, DayLimitReached, PHONE_CHANGES_PER_DAY, action_id};
use touchline::domain::session::SessionId;
use touchline::flows::{codes, sms_guard};
use touchline::storage::Reads;
use touchline::storage::day_limit::{Counted, CountedAction};
use touchline::storage::users::{ChangePhone, StoredCode};
use touchline::{App, Call, Error, Reply};

use crate::no_profile::NO_PROFILE;

pub async fn handle(app: App, call: Call<VerifyPhone>) -> Result<Reply<Message<Verified>>, Error> {
    let (phone, id) = (call.input.phone, call.caller.user);
    let code = codes::check_verification(&app, &phone, id, &call.input.code).await?;
    let user = app.store.user(id, Reads::Consistent).await?.ok_or(NO_PROFILE)?;
    if user.phone != phone {
        count_change(&app, id, &code).await?;
    }
    let nonce = app.random.word(16);
    let network = codes::network(&app, &phone, call.address.as_ref())?;
    let change = ChangePhone {
        user: &user,
        phone: &phone,
        code: &code,
        network: network.as_ref(),
        nonce: &nonce,
        session: SessionId(call.caller.device_id),
    };
    app.store.change_phone(&change, app.clock.now()).await?;
    sms_guard::count_entry(&app, &phone, &code).await;
    let message = format!("Your phone number {} is verified.", phone.as_str());
    Ok(Message { message, data: Verified { verified: true, phone } }.into())
}

/// Counts the change against its limit per day. A retry with the same code is not counted again.
async fn count_change(app: &App, user: UserId, code: &StoredCode) -> Result<(), Error> {
    let (action, now) = (DailyAction::ChangePhone, app.clock.now());
    let counted = CountedAction { user, action, day: now.date_naive(), id: action_id(&[&code.issue]) };
    match app.store.count_action(&counted, PHONE_CHANGES_PER_DAY).await? {
        Counted::LimitReached => Err(DayLimitReached::new(action, PHONE_CHANGES_PER_DAY, now).into()),
        Counted::Now(_) | Counted::Before => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use serde_json::json;
    use touchline::domain::cleanup::Work;
    use touchline::domain::session::SessionId;
    use touchline::domain::{Phone, UserId};
    use touchline_testing::{Fault, TestApp, User, concurrently};

    const NEW_PHONE: &str = "+447700900555";

    async fn alice() -> (TestApp, User) {
        let app = TestApp::serving(&[crate::router, login::router]).start().await;
        let alice = app.user("alice").await;
        (app, alice)
    }

    /// Starts an app in which alice has initiated the verification of `NEW_PHONE`. Also returns the code that was
    /// sent.
    async fn alice_with_code() -> (TestApp, User, String) {
        let (app, alice) = alice().await;
        alice.initiates_verification(NEW_PHONE).await.expect(200);
        let code = app.sns.last_code(NEW_PHONE);
        (app, alice, code)
    }

    #[tokio::test]
    async fn a_verified_phone_replaces_and_frees_the_old_phone() {
        let (app, alice, code) = alice_with_code().await;
        let body = alice.verifies_phone(NEW_PHONE, &code).await.expect(200);
        let data = json!({ "verified": true, "phone": NEW_PHONE });
        assert_eq!(body, json!({ "message": "Your phone number +447700900555 is verified.", "data": data }));
        assert_eq!(alice.views_profile().await.expect_data(200)["phone"], NEW_PHONE);
        assert_eq!(app.sign_in(NEW_PHONE).await.id, alice.id);
        assert_eq!(app.sign_in(&alice.phone).await.id, 2, "a new user");
    }

    #[tokio::test]
    async fn a_new_phone_stores_the_work_of_ending_other_sessions_and_telling_the_old_phone() {
        let (app, alice, code) = alice_with_code().await;
        alice.verifies_phone(NEW_PHONE, &code).await.expect(200);
        let user = UserId(alice.id);
        let session = SessionId(alice.credentials["device_id"].as_str().unwrap().to_owned());
        let works: Vec<Work> =
            app.store.cleanups().await.unwrap().into_iter().map(|stored| stored.work).collect();
        let phone = Phone::parse(&alice.phone).unwrap();
        assert_eq!(
            works,
            [Work::TellOldPhone { user, phone }, Work::end_sessions(user, Some(session), app.clock.now())]
        );
    }

    #[tokio::test]
    async fn a_user_can_change_the_phone_three_times_a_day() {
        let (app, alice) = alice().await;
        let change = async |n: u32| {
            let phone = format!("+4477009005{n:02}");
            alice.initiates_verification(&phone).await.expect(200);
            alice.verifies_phone(&phone, &app.sns.last_code(&phone)).await
        };
        for n in 0..3 {
            change(n).await.expect(200);
        }
        let response = change(3).await;
        response.expect_error(429, "rate_limited");
        assert_eq!(response.header("retry-after"), Some("43200"), "from noon until midnight");
        assert_eq!(
            response.message(),
            "You can change your phone number 3 times a day. Try again after midnight UTC."
        );
        app.clock.advance(TimeDelta::hours(12));
        change(4).await.expect(200);
    }

    /// Otherwise a retry after a failure would use up the changes of a day.
    #[tokio::test]
    async fn retries_with_the_same_code_count_as_one_change() {
        let (app, alice, code) = alice_with_code().await;
        app.sign_in(NEW_PHONE).await;
        for _ in 0..4 {
            alice.verifies_phone(NEW_PHONE, &code).await.expect_error(422, "phone_taken");
        }
    }

    #[tokio::test]
    async fn a_new_verification_of_the_current_phone_ends_no_session() {
        let (app, alice) = alice().await;
        alice.initiates_verification(&alice.phone).await.expect(200);
        alice.verifies_phone(&alice.phone, &app.sns.last_code(&alice.phone)).await.expect(200);
        assert!(app.store.cleanups().await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn users_can_verify_their_current_phone() {
        let (app, alice) = alice().await;
        alice.initiates_verification(&alice.phone).await.expect(200);
        alice.verifies_phone(&alice.phone, &app.sns.last_code(&alice.phone)).await.expect(200);
        assert_eq!(app.sign_in(&alice.phone).await.id, alice.id);
    }

    #[tokio::test]
    async fn a_code_works_once_and_only_for_its_phone_and_its_user() {
        let (app, alice, code) = alice_with_code().await;
        let wrong = if code == "000000" { "000001" } else { "000000" };
        alice.verifies_phone(NEW_PHONE, wrong).await.expect_error(401, "invalid_code");
        let response = alice.verifies_phone("+447700900777", &code).await;
        response.expect_error(422, "phone_mismatch");
        assert_eq!(response.body["errors"], json!({ "phone": [response.message()] }));
        let bob = app.user("bob").await;
        bob.verifies_phone(NEW_PHONE, &code).await.expect_error(422, "phone_mismatch");
        let login_code = alice.receives_code(NEW_PHONE).await;
        alice.verifies_phone(NEW_PHONE, &login_code).await.expect_error(401, "invalid_code");
        alice.verifies_phone(NEW_PHONE, &code).await.expect(200);
        alice.verifies_phone(NEW_PHONE, &code).await.expect_error(401, "invalid_code");
    }

    #[tokio::test]
    async fn a_new_verification_replaces_the_pending_verification_of_another_phone() {
        let (_app, alice, code) = alice_with_code().await;
        alice.initiates_verification("+447700900777").await.expect(200);
        alice.verifies_phone(NEW_PHONE, &code).await.expect_error(422, "phone_mismatch");
    }

    #[tokio::test]
    async fn the_right_code_tells_that_the_phone_belongs_to_another_user() {
        let (app, alice) = alice().await;
        let bob = app.user("bob").await;
        alice.initiates_verification(&bob.phone).await.expect(200);
        let code = app.sns.last_code(&bob.phone);
        let wrong = if code == "000000" { "000001" } else { "000000" };
        alice.verifies_phone(&bob.phone, wrong).await.expect_error(401, "invalid_code");
        let response = alice.verifies_phone(&bob.phone, &code).await;
        response.expect_error(422, "phone_taken");
        assert_eq!(response.message(), "This phone number belongs to another user.");
        assert_eq!(response.body["errors"], json!({ "phone": [response.message()] }));
    }

    #[tokio::test]
    async fn two_users_can_verify_the_same_phone_and_the_first_one_gets_it() {
        let (app, alice, code) = alice_with_code().await;
        let bob = app.user("bob").await;
        bob.initiates_verification(NEW_PHONE).await.expect(200);
        let code_of_bob = app.sns.last_code(NEW_PHONE);
        alice.verifies_phone(NEW_PHONE, &code).await.expect(200);
        bob.verifies_phone(NEW_PHONE, &code_of_bob).await.expect_error(422, "phone_taken");
    }

    #[tokio::test]
    async fn the_network_of_a_verification_is_known_for_the_phone() {
        const HOME: &str = "203.0.113.9";
        let (app, alice) = alice().await;
        // The second time, the phone is hers already.
        for _ in 0..2 {
            alice.initiates_verification(NEW_PHONE).from_address(HOME).await.expect(200);
            let code = app.sns.last_code(NEW_PHONE);
            alice.verifies_phone(NEW_PHONE, &code).from_address(HOME).await.expect(200);
            app.clock.advance(TimeDelta::days(2));
            for n in 0..10 {
                let stranger = format!("198.51.100.{n}");
                alice.requests_code(NEW_PHONE).from_address(&stranger).await.expect(200);
                app.clock.advance(TimeDelta::minutes(3));
            }
            alice
                .requests_code(NEW_PHONE)
                .from_address("198.51.100.99")
                .await
                .expect_error(429, "rate_limited");
            alice.requests_code(NEW_PHONE).from_address(HOME).await.expect(200);
            app.clock.advance(TimeDelta::days(2));
        }
    }

    #[tokio::test]
    async fn verification_fails_if_another_user_takes_the_phone_first() {
        let (app, alice, code) = alice_with_code().await;
        assert_eq!(app.sign_in(NEW_PHONE).await.id, 2, "a new user");
        alice.verifies_phone(NEW_PHONE, &code).await.expect_error(422, "phone_taken");
        assert_eq!(alice.views_profile().await.expect_data(200)["phone"], alice.phone);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn only_one_of_twenty_concurrent_requests_with_the_same_code_succeeds() {
        let (_app, alice, code) = alice_with_code().await;
        let responses = concurrently(20, |_| alice.verifies_phone(NEW_PHONE, &code)).await;
        let with = |status: u16| responses.iter().filter(|response| response.status == status).count();
        assert_eq!((with(200), with(401)), (1, 19), "{responses:?}");
    }

    #[tokio::test]
    async fn a_crash_between_any_two_store_calls_leaves_the_user_with_one_phone() {
        for calls_before_crash in 0..6 {
            let (app, alice, code) = alice_with_code().await;
            let mut calls = 0;
            app.faults.set(move |_| {
                calls += 1;
                if calls <= calls_before_crash { Fault::None } else { Fault::LoseRequest }
            });
            let _ = alice.verifies_phone(NEW_PHONE, &code).await;
            app.faults.clear();
            let profile = alice.views_profile().await.expect_data(200);
            let dump = app.dump().await;
            assert_eq!(dump.matches("\"sk\": S(\"owner\")").count(), 2, "one phone, one username\n{dump}");
            assert_eq!(app.sign_in(profile["phone"].as_str().unwrap()).await.id, alice.id);
        }
    }
}
