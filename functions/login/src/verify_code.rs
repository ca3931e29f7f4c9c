use futures_util::join;
use touchline::api::Data;
use touchline::api::login::{LoggedIn, LoginData, PhoneAndCode, UserSummary, VerifyCode};
use touchline::domain::username::{self, Base};
use touchline::domain::{Phone, Purpose, Token, Username};
use touchline::flows::codes;
use touchline::storage::users::{NewUser, PhoneOwner, RegisterError, Session, StoredCode};
use touchline::{App, Call, Error, Reply};

pub async fn handle(app: App, call: Call<VerifyCode>) -> Result<Reply<LoggedIn>, Error> {
    Ok(log_in(&app, call.input).await?.into())
}

/// Somebody inside.
struct Entrance {
    user: PhoneOwner,
    token: Token,
    newly_made: bool,
}

/// A phone and its code become a session; a phone nobody owns becomes a user first.
pub async fn log_in(app: &App, input: PhoneAndCode) -> Result<LoggedIn, Error> {
    let PhoneAndCode { phone, code, username } = input;
    let wanted = username.map(|chosen| chosen.0);
    let kept = codes::check(app, &phone, Purpose::Login, None, &code).await?;
    let session = Session::starting(app.random.word(10), app.config.session_length, app.clock.now());
    let Entrance { user, token, newly_made } = enter(app, &phone, &kept, wanted.as_ref(), &session).await?;

    let mut remarks = Vec::new();
    if let Some(wanted) = wanted.filter(|wanted| newly_made && *wanted != user.username) {
        remarks.push(format!(
            "The username {} is taken. You are {} for now; update-user-info can change it.",
            wanted.as_str(),
            user.username.as_str()
        ));
    }
    // The chat network being away is no reason to keep somebody out.
    let chat = app.chat.log_in(&user.username, &session.device_id).await;
    if let Err(error) = &chat {
        tracing::warn!(%error, "login without chat credentials");
        remarks.push("Chat is not available at the moment; ask for chat credentials again later.".into());
    }
    let user =
        UserSummary { id: user.user_id, phone, username: user.username, created_at: user.created_at.into() };
    let data = LoginData { user, token: token.as_str().to_owned(), matrix_credentials: chat.ok() };
    Ok(LoggedIn { message: (!remarks.is_empty()).then(|| remarks.join(" ")), data: Data { data } })
}

/// Spends the code and makes the session. A login that fails on the way gives the code back, so that
/// trying again is worth it.
async fn enter(
    app: &App,
    phone: &Phone,
    code: &StoredCode,
    wanted: Option<&Username>,
    session: &Session,
) -> Result<Entrance, Error> {
    let nonce = app.random.word(16);
    let (owner, spent) = join!(app.store.phone_owner(phone), app.store.spend_code(phone, code, &nonce));
    spent?;
    let entered = match owner {
        Ok(Some(owner)) => returning(app, owner, session).await,
        Ok(None) => newcomer(app, phone, wanted, session).await,
        Err(error) => Err(error.into()),
    };
    if entered.is_err()
        && let Err(error) = app.store.unspend_code(phone, code, &nonce).await
    {
        tracing::warn!(%error, "a code stays spent without a login");
    }
    entered
}

async fn returning(app: &App, user: PhoneOwner, session: &Session) -> Result<Entrance, Error> {
    let token = Token::new(user.user_id, app.random.bytes());
    app.store.save_session(&token, session).await?;
    Ok(Entrance { user, token, newly_made: false })
}

async fn newcomer(
    app: &App,
    phone: &Phone,
    wanted: Option<&Username>,
    session: &Session,
) -> Result<Entrance, Error> {
    let id = app.store.draw_user_id().await?;
    let token = Token::new(id, app.random.bytes());
    for username in names_to_try(app, wanted) {
        let new = NewUser { id, phone, username: &username, token: &token, session };
        match app.store.register(&new, app.clock.now()).await {
            Ok(user) => return Ok(Entrance { user: PhoneOwner::from(&user), token, newly_made: true }),
            // Another first login of the same phone was quicker.
            Err(RegisterError::PhoneOwned(owner)) => return returning(app, owner, session).await,
            Err(RegisterError::NameTaken) => {}
            Err(RegisterError::Store(error)) => return Err(error.into()),
        }
    }
    Err(Error::Broken("no username was free for a newcomer"))
}

/// The wanted name, names like it, and at last names that are as good as certainly free.
fn names_to_try(app: &App, wanted: Option<&Username>) -> Vec<Username> {
    let mut draw = |below| app.random.below(below);
    let mut names: Vec<Username> = wanted.cloned().into_iter().collect();
    if let Some(wanted) = wanted {
        names.extend(username::candidates(&Base::from(wanted), true, &mut draw).into_iter().take(3));
    }
    names.extend((0..3).map(|_| username::for_a_newcomer(&mut draw)));
    names
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use chrono::TimeDelta;
    use serde_json::{Value, json};
    use touchline::storage::users::Session;
    use touchline_testing::{Fault, TestApp, at_once};

    const PATH: &str = "/api/code/verify";
    const PHONE: &str = "+447700900123";

    async fn app() -> TestApp {
        TestApp::serving(&[crate::router]).start().await
    }

    fn wrong(code: &str) -> String {
        format!("{:06}", (code.parse::<u32>().unwrap() + 1) % 1_000_000)
    }

    fn body(code: &str) -> Value {
        json!({ "phone": PHONE, "code": code })
    }

    #[tokio::test]
    async fn a_first_login_makes_a_user_and_a_second_finds_them() {
        let app = app().await;
        let first = app.log_in(PHONE).await;
        assert_eq!(first["user"]["id"], 1);
        assert_eq!(first["user"]["phone"], PHONE);
        assert_eq!(first["user"]["created_at"], "2026-11-15T12:00:00Z");
        let username = first["user"]["username"].as_str().unwrap();
        assert_eq!(first["matrix_credentials"]["user_id"], format!("@{username}:touchline.local"));
        for field in ["access_token", "device_id"] {
            assert!(first["matrix_credentials"][field].as_str().is_some_and(|text| text.len() >= 10));
        }
        app.clock.advance(TimeDelta::hours(1));
        let second = app.log_in(PHONE).await;
        assert_eq!(second["user"], first["user"]);
        assert_ne!(second["token"], first["token"]);
        assert_ne!(second["matrix_credentials"]["device_id"], first["matrix_credentials"]["device_id"]);
    }

    #[tokio::test]
    async fn login_is_the_same_door() {
        let app = app().await;
        let code = app.request_code(PHONE).await;
        let first = app.post("/api/auth/login", body(&code)).await.expect(200);
        assert_eq!(first["data"]["user"]["id"], 1);
        app.post("/api/auth/login", body(&code)).await.expect_error(401, "invalid_code");
    }

    #[tokio::test]
    async fn codes_are_refused_when_wrong_used_expired_replaced_or_never_sent() {
        let app = app().await;
        app.post(PATH, body("123456")).await.expect_error(401, "invalid_code");

        let code = app.request_code(PHONE).await;
        app.post(PATH, body(&wrong(&code))).await.expect_error(401, "invalid_code");
        let _ = app.post(PATH, body(&code)).await.expect(200);
        app.post(PATH, body(&code)).await.expect_error(401, "invalid_code");

        let old = app.request_code(PHONE).await;
        let new = app.request_code(PHONE).await;
        assert_ne!(old, new);
        app.post(PATH, body(&old)).await.expect_error(401, "invalid_code");
        let _ = app.post(PATH, body(&new)).await.expect(200);

        let late = app.request_code(PHONE).await;
        app.clock.advance(TimeDelta::minutes(5) - TimeDelta::milliseconds(1));
        app.post(PATH, body(&wrong(&late))).await.expect_error(401, "invalid_code");
        app.clock.advance(TimeDelta::milliseconds(1));
        app.post(PATH, body(&late)).await.expect_error(401, "invalid_code");
    }

    #[tokio::test]
    async fn the_last_millisecond_still_counts() {
        let app = app().await;
        let code = app.request_code(PHONE).await;
        app.clock.advance(TimeDelta::minutes(5) - TimeDelta::milliseconds(1));
        let _ = app.post(PATH, body(&code)).await.expect(200);
    }

    #[tokio::test]
    async fn the_right_code_after_five_wrong_ones_is_too_late() {
        let app = app().await;
        let code = app.request_code(PHONE).await;
        for _ in 0..5 {
            app.post(PATH, body(&wrong(&code))).await.expect_error(401, "invalid_code");
        }
        app.post(PATH, body(&code)).await.expect_error(401, "invalid_code");
        let _ = app.log_in(PHONE).await;
    }

    #[tokio::test]
    async fn bad_fields_are_named_and_cost_no_attempt() {
        let app = app().await;
        let code = app.request_code(PHONE).await;
        for (fields, field) in [
            (json!({ "phone": PHONE }), "code"),
            (json!({ "phone": PHONE, "code": "12345" }), "code"),
            (json!({ "phone": PHONE, "code": 123_456 }), "code"),
            (json!({ "phone": "x", "code": "123456" }), "phone"),
            (json!({ "phone": PHONE, "code": "123456", "username": "a b" }), "username"),
            (json!({ "phone": PHONE, "code": "123456", "username": "admin" }), "username"),
        ] {
            for _ in 0..2 {
                let answer = app.post(PATH, fields.clone()).await;
                answer.expect_error(422, "validation_error");
                assert!(answer.body["errors"][field][0].is_string(), "{}", answer.body);
            }
        }
        let _ = app.post(PATH, body(&code)).await.expect(200);
    }

    #[tokio::test]
    async fn a_newcomer_gets_the_wanted_name_or_one_like_it() {
        let app = app().await;
        let log_in = |phone: &'static str, name: &'static str| {
            let app = &app;
            async move {
                let code = app.request_code(phone).await;
                let body = json!({ "phone": phone, "code": code, "username": name });
                app.post(PATH, body).await.expect(200)
            }
        };
        let first = log_in(PHONE, "Alice").await;
        assert_eq!(first["data"]["user"]["username"], "alice");
        assert_eq!(first.get("message"), None);

        let second = log_in("+447700900124", "alice").await;
        let name = second["data"]["user"]["username"].as_str().unwrap();
        assert!(name.starts_with("alice") && name != "alice", "{name}");
        assert!(second["message"].as_str().unwrap().contains("alice is taken"), "{second}");

        // Somebody who has a name keeps it, whatever else they send.
        let again = log_in(PHONE, "bob").await;
        assert_eq!(again["data"]["user"]["username"], "alice");
        assert_eq!(again.get("message"), None);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn one_right_code_twenty_times_at_once_is_one_login() {
        for returning in [false, true] {
            let app = Arc::new(app().await);
            if returning {
                let _ = app.log_in(PHONE).await;
            }
            let code = app.request_code(PHONE).await;
            let answers = at_once(20, |_| {
                let (app, body) = (Arc::clone(&app), body(&code));
                async move { app.post(PATH, body).await.status.as_u16() }
            })
            .await;
            assert_eq!(answers.iter().filter(|status| **status == 200).count(), 1, "{answers:?}");
            assert_eq!(answers.iter().filter(|status| **status == 401).count(), 19, "{answers:?}");
        }
    }

    /// Without the limit on attempts in the way, spending alone must let one through.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_code_is_spent_once() {
        let app = Arc::new(app().await);
        let code = app.request_code(PHONE).await;
        let phone = touchline::domain::Phone::parse(PHONE).unwrap();
        let code = touchline::domain::OneTimeCode::parse(&code).unwrap();
        let purpose = touchline::domain::Purpose::Login;
        let kept = touchline::flows::codes::check(&app.app, &phone, purpose, None, &code).await.unwrap();
        let spent = at_once(20, |n| {
            let (app, phone, kept) = (Arc::clone(&app), phone.clone(), kept.clone());
            async move { app.app.store.spend_code(&phone, &kept, &format!("request {n}")).await.is_ok() }
        })
        .await;
        assert_eq!(spent.iter().filter(|ok| **ok).count(), 1);
    }

    /// A comparison needs a reserved attempt; the item says how many were reserved.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_hundred_guesses_at_once_share_five_comparisons() {
        let app = Arc::new(app().await);
        let code = app.request_code(PHONE).await;
        at_once(100, |n| {
            let app = Arc::clone(&app);
            let guess = format!("{:06}", (code.parse::<usize>().unwrap() + 1 + n) % 1_000_000);
            async move { app.post(PATH, body(&guess)).await.expect_error(401, "invalid_code") }
        })
        .await;
        assert!(app.dump().await.contains("\"attempts\": N(\"5\")"));
        app.post(PATH, body(&code)).await.expect_error(401, "invalid_code");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn twenty_first_logins_of_one_phone_make_one_user() {
        let app = Arc::new(app().await);
        let users = at_once(20, |_| {
            let app = Arc::clone(&app);
            async move {
                let phone = touchline::domain::Phone::parse(PHONE).unwrap();
                let session = Session::starting("DEVICE".into(), TimeDelta::days(30), app.app.clock.now());
                let entrance = super::newcomer(&app.app, &phone, None, &session).await.unwrap();
                assert!(app.app.store.session(&entrance.token).await.unwrap().is_some());
                assert_eq!(entrance.token.user(), entrance.user.user_id);
                entrance.user.user_id
            }
        })
        .await;
        assert!(users.iter().all(|id| *id == users[0]), "{users:?}");
        let dump = app.dump().await;
        assert_eq!(dump.matches("S(\"profile\")").count(), 1);
        assert_eq!(dump.matches("session#").count(), 20);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn fifty_newcomers_after_one_name_all_get_in_and_one_gets_it() {
        let app = Arc::new(app().await);
        let names = at_once(50, |n| {
            let app = Arc::clone(&app);
            async move {
                let phone = format!("+4477009{n:05}");
                let code = app.request_code(&phone).await;
                let body = json!({ "phone": phone, "code": code, "username": "striker" });
                let answer = app.post(PATH, body).await.expect(200);
                answer["data"]["user"]["username"].as_str().unwrap().to_owned()
            }
        })
        .await;
        assert_eq!(names.iter().filter(|name| *name == "striker").count(), 1);
        let different: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(different.len(), 50);
    }

    /// Each call's first answer is lost; the SDK's second try must not make the login fail or double.
    #[tokio::test]
    async fn lost_answers_do_not_lock_anybody_out() {
        let app = app().await;
        for expected in ["new", "returning"] {
            let code = app.request_code(PHONE).await;
            app.faults.first_attempts(Fault::LoseReply);
            let body = app.post(PATH, body(&code)).await.expect(200);
            app.faults.clear();
            assert!(body["data"]["user"]["id"].is_number(), "{expected}");
        }
        assert_eq!(app.dump().await.matches("S(\"profile\")").count(), 1);
    }

    /// The process dies after each of its calls in turn. Whatever is left behind, the next login works
    /// and there is one user.
    #[tokio::test]
    async fn dying_between_any_two_calls_leaves_nothing_broken() {
        for returning in [false, true] {
            for survived in 0..8 {
                let app = app().await;
                if returning {
                    let _ = app.log_in(PHONE).await;
                }
                let code = app.request_code(PHONE).await;
                let calls = AtomicU32::new(0);
                app.faults.set(move |_| {
                    if calls.fetch_add(1, Ordering::Relaxed) < survived {
                        Fault::None
                    } else {
                        Fault::LoseRequest
                    }
                });
                let died = app.post(PATH, body(&code)).await.status == 503;
                app.faults.clear();
                assert!(died || survived > 3, "a login takes more than {survived} calls");
                let data = app.log_in(PHONE).await;
                assert_eq!(app.dump().await.matches("S(\"profile\")").count(), 1, "after {survived} calls");
                let token = data["token"].as_str().unwrap();
                let _ = app.post_as(token, "/api/auth/logout", json!({})).await.expect(200);
            }
        }
    }

    #[tokio::test]
    async fn a_conflict_is_tried_again_and_a_lasting_one_is_a_503() {
        let app = app().await;
        let code = app.request_code(PHONE).await;
        app.faults.first_attempts(Fault::Conflict);
        let _ = app.post(PATH, body(&code)).await.expect(200);

        let other = json!({ "phone": "+447700900124", "code": app.request_code("+447700900124").await });
        app.faults.set(
            |attempt| {
                if attempt.operation == "TransactWriteItems" { Fault::Conflict } else { Fault::None }
            },
        );
        let answer = app.post(PATH, other).await;
        answer.expect_error(503, "busy");
        assert_eq!(answer.headers["retry-after"], "1");
        app.faults.clear();
        let dump = app.dump().await;
        let made = (dump.matches("S(\"profile\")").count(), dump.matches("name#").count());
        assert_eq!(made, (1, 1), "nothing half-made remains");
    }

    /// "Try again" must be true: the code still works after a login that the store kept from ending.
    #[tokio::test]
    async fn a_login_that_could_not_be_completed_gives_its_code_back() {
        for (returning, failing) in [(false, "TransactWriteItems"), (true, "PutItem"), (true, "GetItem")] {
            let app = app().await;
            if returning {
                let _ = app.log_in(PHONE).await;
            }
            let code = app.request_code(PHONE).await;
            app.faults.set(
                move |attempt| {
                    if attempt.operation == failing { Fault::Throttle } else { Fault::None }
                },
            );
            app.post(PATH, body(&code)).await.expect_error(503, "busy");
            app.faults.clear();
            let _ = app.post(PATH, body(&code)).await.expect(200);
            app.post(PATH, body(&code)).await.expect_error(401, "invalid_code");
        }
    }

    #[tokio::test]
    async fn a_lost_answer_takes_one_attempt_not_two() {
        let app = app().await;
        let code = app.request_code(PHONE).await;
        app.faults.first_attempts(Fault::LoseReply);
        for _ in 0..4 {
            app.post(PATH, body(&wrong(&code))).await.expect_error(401, "invalid_code");
        }
        let _ = app.post(PATH, body(&code)).await.expect(200);
    }

    #[tokio::test]
    async fn without_chat_people_still_get_in_and_out() {
        let app = TestApp::serving(&[crate::router]).without_chat().start().await;
        let code = app.request_code(PHONE).await;
        let login = app.post(PATH, body(&code)).await.expect(200);
        assert_eq!(login["data"]["matrix_credentials"], json!(null));
        assert!(login["message"].as_str().unwrap().contains("Chat is not available"), "{login}");
        let token = login["data"]["token"].as_str().unwrap();
        let _ = app.post_as(token, "/api/auth/logout", json!({})).await.expect(200);
        app.post_as(token, "/api/auth/logout", json!({})).await.expect_error(401, "token_invalid");
    }
}
