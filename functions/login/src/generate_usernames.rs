use touchline::api::login::{GenerateUsernames, Suggestions};
use touchline::domain::username;
use touchline::{App, Call, Error, Reply};

use crate::suggestions;

pub async fn handle(app: App, call: Call<GenerateUsernames>) -> Result<Reply<Suggestions>, Error> {
    let with_numbers = call.input.include_numbers.unwrap_or(false);
    let draw = |below| app.random.below(below);
    let candidates = username::candidates(&call.input.base, with_numbers, &app.config.names, draw);
    Ok(Suggestions { suggestions: suggestions::first_free(&app, candidates).await? }.into())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use touchline_testing::TestApp;

    fn suggestions(body: &Value) -> Vec<&str> {
        body["suggestions"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect()
    }

    #[tokio::test]
    async fn suggestions_derive_from_the_base() {
        let app = TestApp::serving(&[crate::router]).start().await;
        let from_base = app.anonymous().generates_usernames("José");
        for (request, have_numbers) in [
            (from_base.clone().include_numbers(true), true),
            (from_base.clone().include_numbers(false), false),
            (from_base.clone().field("include_numbers", json!(null)), false),
            (from_base, false),
        ] {
            let body = request.await.expect(200);
            let suggestions = suggestions(&body);
            assert_eq!(suggestions.len(), 5);
            for name in suggestions {
                assert!(name.contains("jose"), "{name}");
                assert_eq!(name.ends_with(|c: char| c.is_ascii_digit()), have_numbers, "{name}");
            }
        }
    }

    #[tokio::test]
    async fn suggestions_are_never_offensive() {
        let app = TestApp::serving(&[crate::router]).start().await;
        for numbers in [false, true] {
            let body = app.anonymous().generates_usernames("Fuck").include_numbers(numbers).await.expect(200);
            let suggestions = suggestions(&body);
            assert_eq!(suggestions.len(), 5);
            assert!(suggestions.iter().all(|name| name.contains("fan")), "{suggestions:?}");
        }
    }

    #[tokio::test]
    async fn taken_usernames_are_not_suggested() {
        let app = TestApp::serving(&[crate::router]).start().await;
        let from_base = app.anonymous().generates_usernames("alice");
        let before = from_base.clone().await.expect(200);
        let taken = suggestions(&before)[0];
        app.user(taken).await;
        let after = from_base.await.expect(200);
        assert_eq!(suggestions(&after).len(), 5);
        assert!(!suggestions(&after).contains(&taken));
    }

    #[tokio::test]
    async fn invalid_fields_are_rejected() {
        let app = TestApp::serving(&[crate::router]).start().await;
        let caller = app.anonymous();
        for (base, sentence) in [
            (json!(null), "The field base is required."),
            (json!("!!!"), "Enter at least one letter or digit."),
            (json!("a\u{7}b"), "Remove the line breaks and control characters."),
            (json!("x".repeat(101)), "Use at most 100 characters."),
        ] {
            let response = caller.generates_usernames("").field("base", base).await;
            response.expect_invalid(&["base"]);
            assert_eq!(response.message(), sentence);
        }
        caller.generates_usernames("").without("base").await.expect_invalid(&["base"]);
        let response = caller.generates_usernames("alice").field("include_numbers", "yes").await;
        response.expect_invalid(&["include_numbers"]);
        assert_eq!(response.message(), "The field include_numbers must be true or false.");
    }
}
