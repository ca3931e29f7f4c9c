use touchline::api::profile::{UpdateUserInfo, UpdatedUser};
use touchline::api::{Invalid, Message};
use touchline::domain::User;
use touchline::domain::profile::RenameError;
use touchline::storage::Reads;
use touchline::storage::users::{Changes, Renamed};
use touchline::{App, Call, Error, Reply};

use crate::NO_RECORD;

pub async fn handle(app: App, call: Call<UpdateUserInfo>) -> Result<Reply<Message<UpdatedUser>>, Error> {
    let input = call.input;
    let today = app.clock.now().date_naive();
    let date_of_birth = input
        .date_of_birth
        .map(|date| date.accepted_on(today))
        .transpose()
        .map_err(|reason| Invalid::field("date_of_birth", reason))?;
    let changes = Changes { name: input.name, email: input.email, date_of_birth };

    let id = call.caller.user;
    let user = match input.username {
        None => app.store.update_user(id, &changes).await?,
        Some(wanted) => {
            let user = app.store.user(id, Reads::Consistent).await?.ok_or(NO_RECORD)?;
            if user.username == wanted.0 {
                app.store.update_user(id, &changes).await?
            } else {
                if user.chat_since.is_some() {
                    return Err(RenameError::Locked.into());
                }
                match app.store.rename_user(&user, &wanted.0, &changes).await? {
                    Renamed::Now => {
                        // The name before stays theirs, and a logout of theirs does not know it any more.
                        if let Err(error) = app.chat.log_out_everywhere(&user.username).await {
                            tracing::warn!(%error, "chat logins under a former name last on");
                        }
                        app.store.user(id, Reads::Consistent).await?
                    }
                    Renamed::Already => app.store.update_user(id, &changes).await?,
                }
            }
        }
    };
    let User { id, name, email, .. } = user.ok_or(NO_RECORD)?;
    Ok(Message { message: "Your details are saved.".into(), data: UpdatedUser { id, name, email } }.into())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use aws_sdk_dynamodb::types::AttributeValue;
    use serde_json::json;
    use touchline_testing::{Fault, TestApp, at_once};

    const PATH: &str = "/api/auth/update-user-info";
    const PHONE: &str = "+447700900123";

    async fn app() -> TestApp {
        TestApp::serving(&[login::router, crate::router]).start().await
    }

    #[tokio::test]
    async fn absent_fields_stay() {
        let app = app().await;
        let token = app.token(PHONE).await;
        let body = app.post_as(&token, PATH, json!({ "name": "Ada" })).await.expect(200);
        let data = json!({ "id": 1, "name": "Ada", "email": null });
        assert_eq!(body, json!({ "message": "Your details are saved.", "data": data }));
        let body = app.post_as(&token, PATH, json!({ "email": "a@b.co", "name": null })).await.expect(200);
        assert_eq!(body["data"], json!({ "id": 1, "name": "Ada", "email": "a@b.co" }));
        let body = app.post_as(&token, PATH, json!({})).await.expect(200);
        assert_eq!(body["data"], json!({ "id": 1, "name": "Ada", "email": "a@b.co" }));
    }

    #[tokio::test]
    async fn every_bad_field_is_named_and_nothing_is_written() {
        let app = app().await;
        let token = app.token(PHONE).await;
        let before = app.get_as(&token, "/api/auth/me").await.expect(200);
        let bad = json!({ "name": "", "email": "x", "date_of_birth": "2000-02-30", "username": "!" });
        let answer = app.post_as(&token, PATH, bad).await;
        answer.expect_error(422, "validation_error");
        let named: Vec<_> = answer.body["errors"].as_object().unwrap().keys().collect();
        assert_eq!(named, ["date_of_birth", "email", "name", "username"]);
        for (field, value) in [
            ("name", json!("x".repeat(101))),
            ("name", json!("a\u{0}b")),
            ("name", json!(["Ada"])),
            ("email", json!("a@b")),
            ("date_of_birth", json!("2026-11-15")),
            ("date_of_birth", json!("2013-11-16")),
            ("date_of_birth", json!("15.11.2000")),
            ("date_of_birth", json!(20_000_101)),
            ("username", json!("admin")),
        ] {
            let answer = app.post_as(&token, PATH, json!({ "name": "Grace", field: value })).await;
            answer.expect_error(422, "validation_error");
            assert!(answer.body["errors"][field][0].is_string(), "{}", answer.body);
        }
        assert_eq!(app.get_as(&token, "/api/auth/me").await.expect(200), before);
    }

    #[tokio::test]
    async fn a_username_can_be_changed_and_the_one_before_stays_theirs() {
        let app = app().await;
        let token = app.token(PHONE).await;
        let is_taken = |name: &'static str| {
            let app = &app;
            async move {
                let body =
                    app.post("/api/auth/username/check", json!({ "username": name })).await.expect(200);
                body["available"] == false
            }
        };
        // Twice: the second finds it done.
        for _ in 0..2 {
            let body = json!({ "username": "Ada", "name": "Ada" });
            let body = app.post_as(&token, PATH, body).await.expect(200);
            assert_eq!(body["data"]["name"], "Ada");
            assert!(is_taken("ada").await);
        }
        let _ = app.post_as(&token, PATH, json!({ "username": "grace" })).await.expect(200);
        // The chat network knows them by both.
        assert!(is_taken("grace").await && is_taken("ada").await);
        let _ = app.post_as(&token, PATH, json!({ "username": "ada" })).await.expect(200);
        let _ = app.post_as(&token, PATH, json!({ "username": "grace" })).await.expect(200);

        let other = app.token("+447700900124").await;
        let answer = app.post_as(&other, PATH, json!({ "username": "grace", "name": "Eve" })).await;
        answer.expect_error(422, "username_taken");
        assert!(answer.body["errors"]["username"][0].is_string());
        let me = app.get_as(&other, "/api/auth/me").await.expect(200);
        assert_eq!(me["data"]["name"], json!(null), "all or nothing");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn fifty_people_after_one_username_and_one_gets_it() {
        let app = Arc::new(app().await);
        let tokens = at_once(50, |n| {
            let app = Arc::clone(&app);
            async move { app.token(&format!("+4477009{n:05}")).await }
        })
        .await;
        let statuses = at_once(50, |n| {
            let (app, token) = (Arc::clone(&app), tokens[n].clone());
            async move { app.post_as(&token, PATH, json!({ "username": "striker" })).await.status.as_u16() }
        })
        .await;
        assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
        assert_eq!(statuses.iter().filter(|status| **status == 422).count(), 49, "{statuses:?}");
        // Everybody keeps the name they had, and one has another.
        assert_eq!(app.dump().await.matches("name#").count(), 51);
    }

    /// The process dies after each of its calls: the name is the old one or the new one, never both.
    #[tokio::test]
    async fn dying_while_renaming_leaves_one_name() {
        for survived in 0..5 {
            let app = app().await;
            let token = app.token(PHONE).await;
            let mut calls = 0;
            app.faults.set(move |_| {
                calls += 1;
                if calls <= survived { Fault::None } else { Fault::LoseRequest }
            });
            let _ = app.post_as(&token, PATH, json!({ "username": "ada" })).await;
            app.faults.clear();
            let _ = app.post_as(&token, PATH, json!({ "username": "ada" })).await.expect(200);
            let dump = app.dump().await;
            assert_eq!((dump.matches("name#").count(), dump.matches("name#ada").count()), (2, 1));
            let me = app.get_as(&token, "/api/auth/me").await.expect(200);
            assert_eq!(me["data"]["username"], "ada", "after {survived} calls");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_same_rename_at_once_never_finds_its_own_name_taken() {
        let app = Arc::new(app().await);
        let token = app.token(PHONE).await;
        let statuses = at_once(8, |_| {
            let (app, token) = (Arc::clone(&app), token.clone());
            async move { app.post_as(&token, PATH, json!({ "username": "ada" })).await.status.as_u16() }
        })
        .await;
        assert_eq!(statuses, [200; 8]);
    }

    #[tokio::test]
    async fn a_login_after_a_rename_knows_the_new_name() {
        let app = app().await;
        let token = app.token(PHONE).await;
        let _ = app.post_as(&token, PATH, json!({ "username": "ada" })).await.expect(200);
        assert_eq!(app.log_in(PHONE).await["user"]["username"], "ada");
    }

    /// Each change keeps a name from everybody else.
    #[tokio::test]
    async fn a_name_can_be_changed_ten_times() {
        let app = app().await;
        let token = app.token(PHONE).await;
        for n in 0..10 {
            let _ = app.post_as(&token, PATH, json!({ "username": format!("ada{n}") })).await.expect(200);
        }
        app.post_as(&token, PATH, json!({ "username": "ada10" })).await.expect_error(409, "username_locked");
    }

    #[tokio::test]
    async fn a_name_that_is_a_chat_identity_stays() {
        let app = app().await;
        let token = app.token(PHONE).await;
        app.client()
            .update_item()
            .table_name(&app.app.config.tables.users)
            .key("pk", AttributeValue::S("user#1".into()))
            .key("sk", AttributeValue::S("profile".into()))
            .update_expression("SET chat_since = :now")
            .expression_attribute_values(":now", AttributeValue::N("1".into()))
            .send()
            .await
            .unwrap();
        app.post_as(&token, PATH, json!({ "username": "ada" })).await.expect_error(409, "username_locked");
        let _ = app.post_as(&token, PATH, json!({ "name": "Ada" })).await.expect(200);
    }
}
