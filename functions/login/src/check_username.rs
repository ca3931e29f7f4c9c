use touchline::api::login::{Availability, CheckUsername};
use touchline::domain::username::{self, UsernameBase};
use touchline::{App, Call, Error, Reply};

use crate::suggestions;

/// Responds 200 for a username that no user can choose, too: the response says that the username is not available, and
/// suggests others.
pub async fn handle(app: App, call: Call<CheckUsername>) -> Result<Reply<Availability>, Error> {
    let name = call.input.username;
    let rules = &app.config.names;
    if rules.check_username(name.as_str()).is_ok() && !app.store.is_username_taken(&name).await? {
        let message = format!("{} is available.", name.as_str());
        return Ok(Availability { available: true, message, suggestions: None }.into());
    }
    let base = UsernameBase::from(&name);
    let draw = |below| app.random.below(below);
    let mut candidates = username::candidates(&base, false, rules, draw);
    candidates.truncate(3);
    candidates.extend(username::candidates(&base, true, rules, draw));
    let suggestions = suggestions::first_free(&app, candidates).await?;
    let message = format!("{} is not available.", name.as_str());
    Ok(Availability { available: false, message, suggestions: Some(suggestions) }.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use touchline_testing::TestApp;

    #[tokio::test]
    async fn a_free_username_is_available() {
        let app = TestApp::serving(&[crate::router]).start().await;
        let body = app.anonymous().checks_username("Alice").await.expect(200);
        assert_eq!(body, json!({ "available": true, "message": "alice is available." }));
    }

    #[tokio::test]
    async fn responses_for_usernames_that_no_user_can_choose_suggest_available_ones() {
        let app = TestApp::serving(&[crate::router]).start().await;
        let caller = app.anonymous();
        app.user("alice").await;
        for name in ["alice", "ALICE", "a1ice", "al_ice", "admin", "adm1n", "fuck"] {
            let body = caller.checks_username(name).await.expect(200);
            let folded = name.to_lowercase();
            assert_eq!(body["available"], false);
            assert_eq!(body["message"], format!("{folded} is not available."));
            let suggestions = body["suggestions"].as_array().unwrap();
            assert_eq!(suggestions.len(), 5);
            for suggestion in suggestions.iter().map(|suggestion| suggestion.as_str().unwrap()) {
                assert_ne!(suggestion, folded);
                let body = caller.checks_username(suggestion).await.expect(200);
                assert_eq!(body["available"], true, "{suggestion}");
            }
        }
    }

    #[tokio::test]
    async fn malformed_usernames_are_rejected() {
        let app = TestApp::serving(&[crate::router]).start().await;
        let too_long = "x".repeat(31);
        for (name, sentence) in [
            (json!("ab"), "Use 3 to 30 characters for a username."),
            (json!(too_long), "Use 3 to 30 characters for a username."),
            (json!("a b c"), "Use only the letters a to z, digits, _ and . in a username."),
            (json!(7), "The field username must be a string."),
            (json!(null), "The field username is required."),
        ] {
            let response = app.anonymous().checks_username("").field("username", name).await;
            response.expect_invalid(&["username"]);
            assert_eq!(response.message(), sentence);
        }
    }
}
