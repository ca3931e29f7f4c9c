use touchline::api::login::{GenerateUsernames, Suggestions};
use touchline::domain::username;
use touchline::{App, Call, Error, Reply};

use crate::suggest;

pub async fn handle(app: App, call: Call<GenerateUsernames>) -> Result<Reply<Suggestions>, Error> {
    let with_numbers = call.input.include_numbers.unwrap_or(false);
    let candidates = username::candidates(&call.input.base, with_numbers, |below| app.random.below(below));
    Ok(Suggestions { suggestions: suggest::free(&app, candidates).await? }.into())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use touchline_testing::TestApp;

    const PATH: &str = "/api/auth/username/generate";

    #[tokio::test]
    async fn suggestions_derive_from_the_base() {
        let app = TestApp::serving(&[crate::router]).start().await;
        for (numbers, ends_in_digit) in [(json!(true), true), (json!(false), false), (json!(null), false)] {
            let body = json!({ "base": "José", "include_numbers": numbers });
            let body = app.post(PATH, body).await.expect(200);
            let suggestions = body["suggestions"].as_array().unwrap();
            assert_eq!(suggestions.len(), 5);
            for name in suggestions.iter().filter_map(Value::as_str) {
                assert!(name.contains("jose"), "{name}");
                assert_eq!(name.ends_with(|c: char| c.is_ascii_digit()), ends_in_digit, "{name}");
            }
        }
    }

    #[tokio::test]
    async fn names_that_were_taken_are_not_suggested() {
        let app = TestApp::serving(&[crate::router]).start().await;
        let taken = app.post(PATH, json!({ "base": "alice" })).await.expect(200)["suggestions"][0].clone();
        let code = app.request_code("+447700900123").await;
        let login = json!({ "phone": "+447700900123", "code": code, "username": taken });
        let _ = app.post("/api/code/verify", login).await.expect(200);
        let after = app.post(PATH, json!({ "base": "alice" })).await.expect(200);
        assert!(!after["suggestions"].as_array().unwrap().contains(&taken));
    }

    #[tokio::test]
    async fn a_base_without_letters_is_refused() {
        let app = TestApp::serving(&[crate::router]).start().await;
        for body in [
            json!({}),
            json!({ "base": "!!!" }),
            json!({ "base": "a\u{7}b" }),
            json!({ "base": "x".repeat(101) }),
        ] {
            let answer = app.post(PATH, body).await;
            answer.expect_error(422, "validation_error");
            assert!(answer.body["errors"]["base"][0].is_string());
        }
        let answer = app.post(PATH, json!({ "base": "alice", "include_numbers": "yes" })).await;
        assert_eq!(answer.body["errors"]["include_numbers"][0], "must be true or false");
    }
}
