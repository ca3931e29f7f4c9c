use chrono::TimeDelta;
use touchline::domain::UserId;
use touchline::storage::users::Which;
use touchline_testing::{Fault, TestApp, User, concurrently};

const NEW_PHONE: &str = "+447700900555";
const OTHER_PHONE: &str = "+447700900666";

/// Starts an app in which the account of alice has another phone than before. Her own phone is `alice.phone`.
async fn moved() -> (TestApp, User) {
    let app = TestApp::serving(&[crate::router, profile::router]).start().await;
    let alice = app.user("alice").await;
    change_phone(&app, &alice, NEW_PHONE).await;
    (app, alice)
}

async fn change_phone(app: &TestApp, user: &User, phone: &str) {
    user.initiates_verification(phone).await.expect(200);
    user.verifies_phone(phone, &app.sns.last_code(phone)).await.expect(200);
}

#[tokio::test]
async fn the_owner_of_the_previous_phone_takes_the_account_back() {
    let (app, alice) = moved().await;
    let code = app.anonymous().receives_code(&alice.phone).await;
    let login = app.anonymous().undoes_phone_change(&alice.phone, &code).await.expect_data(200);
    let owner = User::from_login(&app, &login);
    assert_eq!((owner.id, owner.phone.as_str()), (alice.id, alice.phone.as_str()));
    assert_eq!(owner.views_profile().await.expect_data(200)["phone"], alice.phone.as_str());
    assert_eq!(app.sign_in(&alice.phone).await.id, alice.id);
    assert_ne!(app.sign_in(NEW_PHONE).await.id, alice.id, "a new user");
    let code = app.anonymous().receives_code(&alice.phone).await;
    let response = app.anonymous().undoes_phone_change(&alice.phone, &code).await;
    response.expect_error(422, "no_phone_change");
}

#[tokio::test]
async fn a_wrong_code_does_not_tell_whether_a_phone_had_an_account() {
    let (app, alice) = moved().await;
    for phone in [alice.phone.as_str(), OTHER_PHONE] {
        let code = app.anonymous().receives_code(phone).await;
        let wrong = if code == "000000" { "000001" } else { "000000" };
        app.anonymous().undoes_phone_change(phone, wrong).await.expect_error(401, "invalid_code");
    }
    let code = app.anonymous().receives_code(OTHER_PHONE).await;
    let response = app.anonymous().undoes_phone_change(OTHER_PHONE, &code).await;
    response.expect_error(422, "no_phone_change");
}

#[tokio::test]
async fn a_change_can_be_undone_for_72_hours() {
    for (waited, status) in [(TimeDelta::hours(72) - TimeDelta::seconds(1), 200), (TimeDelta::hours(72), 422)]
    {
        let (app, alice) = moved().await;
        app.clock.advance(waited);
        let code = app.anonymous().receives_code(&alice.phone).await;
        app.anonymous().undoes_phone_change(&alice.phone, &code).await.expect(status);
    }
}

/// A thief could otherwise move the account twice, and then undo the second change.
#[tokio::test]
async fn only_the_first_of_several_phones_can_take_the_account_back() {
    let (app, alice) = moved().await;
    app.clock.advance(TimeDelta::hours(1));
    change_phone(&app, &alice, OTHER_PHONE).await;
    let code = app.anonymous().receives_code(NEW_PHONE).await;
    app.anonymous().undoes_phone_change(NEW_PHONE, &code).await.expect_error(422, "no_phone_change");
    let code = app.anonymous().receives_code(&alice.phone).await;
    app.anonymous().undoes_phone_change(&alice.phone, &code).await.expect(200);
    for phone in [NEW_PHONE, OTHER_PHONE] {
        app.clock.advance(TimeDelta::hours(1));
        let code = app.anonymous().receives_code(phone).await;
        app.anonymous().undoes_phone_change(phone, &code).await.expect_error(422, "no_phone_change");
    }
}

#[tokio::test]
async fn a_phone_with_a_newer_account_keeps_it() {
    let (app, alice) = moved().await;
    let newer = app.sign_in(&alice.phone).await;
    let code = app.anonymous().receives_code(&alice.phone).await;
    app.anonymous().undoes_phone_change(&alice.phone, &code).await.expect_error(409, "phone_in_use");
    assert_eq!(app.sign_in(&alice.phone).await.id, newer.id);
}

#[tokio::test]
async fn a_user_who_returns_to_the_previous_phone_has_nothing_to_undo() {
    let (app, alice) = moved().await;
    change_phone(&app, &alice, &alice.phone).await;
    let code = app.anonymous().receives_code(&alice.phone).await;
    app.anonymous().undoes_phone_change(&alice.phone, &code).await.expect_error(422, "no_phone_change");
    let code = app.anonymous().receives_code(NEW_PHONE).await;
    app.anonymous().undoes_phone_change(NEW_PHONE, &code).await.expect_error(422, "no_phone_change");
}

#[tokio::test]
async fn all_sessions_but_the_new_one_must_end() {
    let (app, alice) = moved().await;
    let code = app.anonymous().receives_code(&alice.phone).await;
    let login = app.anonymous().undoes_phone_change(&alice.phone, &code).await.expect_data(200);
    let works = app.store.cleanups().await.unwrap();
    let work = works.iter().find_map(|cleanup| match &cleanup.work {
        touchline::domain::cleanup::Work::EndSessions { user, until, except } => {
            Some((*user, *until, except.clone()))
        }
        _ => None,
    });
    let (user, until, except) = work.expect("the sessions must end");
    assert_eq!(user, UserId(alice.id));
    app.store
        .end_sessions(user, Which::All { until, except: except.as_ref() }, app.clock.now())
        .await
        .unwrap();
    alice.views_profile().await.expect_error(401, "token_invalid");
    User::from_login(&app, &login).views_profile().await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_one_of_twenty_concurrent_requests_with_the_same_code_succeeds() {
    let (app, alice) = moved().await;
    let code = app.anonymous().receives_code(&alice.phone).await;
    let anonymous = app.anonymous();
    let responses = concurrently(20, |_| anonymous.undoes_phone_change(&alice.phone, &code)).await;
    let with = |status: u16| responses.iter().filter(|response| response.status == status).count();
    assert_eq!(with(200), 1, "{responses:?}");
}

#[tokio::test]
async fn a_crash_at_any_store_call_leaves_the_account_with_one_phone() {
    for calls_before_crash in 0..8 {
        let (app, alice) = moved().await;
        let code = app.anonymous().receives_code(&alice.phone).await;
        let mut calls = 0;
        app.faults.set(move |_| {
            calls += 1;
            if calls <= calls_before_crash { Fault::None } else { Fault::LoseRequest }
        });
        let _ = app.anonymous().undoes_phone_change(&alice.phone, &code).await;
        app.faults.clear();
        let owners = app.dump().await;
        let phones = owners.matches("phone#").count() - owners.matches("S(\"codes\")").count();
        assert!(phones >= 1, "{owners}");
        let signed_in = [NEW_PHONE, &alice.phone].map(|phone| app.sign_in(phone));
        let mut owned = 0;
        for login in signed_in {
            owned += usize::from(login.await.id == alice.id);
        }
        assert_eq!(owned, 1, "the account belongs to one phone");
    }
}
