use touchline::api::login::{Availability, CheckUsername};
use touchline::domain::username::{self, UsernameBase};
use touchline::{App, Call, Error, Reply};

use crate::suggest;

/// A name that is taken is no error: the answer says so and suggests others.
pub async fn handle(app: App, call: Call<CheckUsername>) -> Result<Reply<Availability>, Error> {
    let name = call.input.username;
    if !name.is_reserved() && !app.store.is_username_taken(&name).await? {
        let message = format!("{} is available.", name.as_str());
        return Ok(Availability { available: true, message, suggestions: None }.into());
    }
    let base = UsernameBase::from(&name);
    let draw = |below| app.random.below(below);
    let mut candidates = username::candidates(&base, false, draw);
    candidates.truncate(3);
    candidates.extend(username::candidates(&base, true, draw));
    let suggestions = suggest::free(&app, candidates).await?;
    let message = format!("{} is not available.", name.as_str());
    Ok(Availability { available: false, message, suggestions: Some(suggestions) }.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use touchline_testing::TestApp;

    const PATH: &str = "/api/auth/username/check";

    #[tokio::test]
    async fn free_taken_reserved_and_ill_formed() {
        let app = TestApp::serving(&[crate::router]).start().await;
        let body = app.post(PATH, json!({ "username": "Alice" })).await.expect(200);
        assert_eq!(body, json!({ "available": true, "message": "alice is available." }));

        let code = app.request_code("+447700900123").await;
        let login = json!({ "phone": "+447700900123", "code": code, "username": "alice" });
        let _ = app.post("/api/code/verify", login).await.expect(200);
        for name in ["alice", "ALICE", "admin"] {
            let body = app.post(PATH, json!({ "username": name })).await.expect(200);
            assert_eq!(body["available"], false);
            let suggestions = body["suggestions"].as_array().unwrap();
            assert_eq!(suggestions.len(), 5);
            for suggestion in suggestions {
                assert_ne!(suggestion, &name.to_lowercase());
                let body = app.post(PATH, json!({ "username": suggestion })).await.expect(200);
                assert_eq!(body["available"], true, "{suggestion}");
            }
        }
        for name in [json!("ab"), json!("a b c"), json!(7), json!(null), json!("x".repeat(31))] {
            let answer = app.post(PATH, json!({ "username": name })).await;
            answer.expect_error(422, "validation_error");
            assert!(answer.body["errors"]["username"][0].is_string());
        }
    }
}
