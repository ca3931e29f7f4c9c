use chrono::TimeDelta;
use touchline_testing::TestApp;

const PHONE: &str = "+447700900123";

async fn app() -> TestApp {
    TestApp::serving(&[crate::router, login::router]).start().await
}

#[tokio::test]
async fn a_login_code_deletes_the_account_of_the_phone() {
    let app = app().await;
    let alice = app.sign_in(PHONE).await;
    let visitor = app.anonymous();
    let code = visitor.receives_code(PHONE).await;
    let wrong = if code == "000000" { "000001" } else { "000000" };
    visitor.deletes_account_of(PHONE, wrong).await.expect_error(401, "invalid_code");
    visitor.deletes_account_of(PHONE, &code).await.expect(200);
    alice.views_profile().await.expect_error(401, "token_invalid");
    visitor.deletes_account_of(PHONE, &code).await.expect_error(401, "invalid_code");
    app.clock.advance(TimeDelta::minutes(11));
    assert!(app.sign_in(PHONE).await.id > alice.id, "a new account");
}

#[tokio::test]
async fn only_the_right_code_tells_that_a_phone_has_no_account() {
    let app = app().await;
    let visitor = app.anonymous();
    let code = visitor.receives_code(PHONE).await;
    let wrong = if code == "000000" { "000001" } else { "000000" };
    visitor.deletes_account_of(PHONE, wrong).await.expect_error(401, "invalid_code");
    visitor.deletes_account_of(PHONE, &code).await.expect_error(404, "user_not_found");
    // The code is not spent.
    visitor.verifies_code(PHONE, &code).await.expect(200);
}

/// A suspended user would come back with a new account.
#[tokio::test]
async fn a_suspended_user_cannot_delete_the_account() {
    let app = app().await;
    let alice = app.sign_in(PHONE).await;
    let id = touchline::domain::UserId(alice.id);
    app.store.suspend_user(id, app.clock.now()).await.unwrap();
    let code = app.anonymous().receives_code(PHONE).await;
    app.anonymous().deletes_account_of(PHONE, &code).await.expect_error(403, "suspended");
    assert!(app.store.cleanups().await.unwrap().is_empty());
}
