//! Checks that production neither stores secrets in clear text nor logs them.

use std::io;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use touchline::telemetry;
use touchline_local::HTTP_FUNCTIONS;
use touchline_testing::{Fault, HS_TOKEN, TestApp, User};
use tracing::Level;
use tracing_subscriber::fmt::MakeWriter;

#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

const PHONES: [&str; 4] = ["+447700900123", "+447700900555", "+447700900777", "+447700900888"];
const EMAIL: &str = "ada.the.first@example.org";

/// Returns whether the text contains this word with no letter or digit next to it. Six digits inside a longer
/// number or a digest are not a code.
fn contains_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}

/// The codes and tokens that must be neither stored in clear text nor logged.
#[derive(Default)]
struct Secrets {
    /// The user who used everything.
    user: u32,
    /// A user who deleted the account.
    deleted: u32,
    codes: Vec<String>,
    tokens: Vec<String>,
}

/// Sends valid and invalid requests, also while the SMS provider or the store fails. Returns the codes and
/// tokens that were used.
async fn use_everything(app: &TestApp) -> Secrets {
    let mut secrets = Secrets::default();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let anonymous = app.anonymous();
    let code = anonymous.receives_code(PHONES[0]).await;
    let wrong = if code == "000000" { "000001" } else { "000000" };
    anonymous.verifies_code(PHONES[0], wrong).await.expect(401);
    let login = anonymous.verifies_code(PHONES[0], &code).await.expect_data(200);
    let alice = User::from_login(app, &login);
    secrets.user = alice.id;
    secrets.tokens.push(alice.token.clone());
    secrets.tokens.push(text(&alice.credentials["access_token"]));
    alice.updates_profile().name("Ada").email(EMAIL).await.expect(200);
    alice.initiates_verification(PHONES[1]).await.expect(200);
    let verification = app.sns.last_code(PHONES[1]);
    alice.verifies_phone(PHONES[1], &verification).await.expect(200);
    secrets.codes.push(verification);
    let gone = app.sign_in(PHONES[3]).await;
    secrets.deleted = gone.id;
    let deletion = anonymous.receives_code(PHONES[3]).await;
    anonymous.deletes_account_of(PHONES[3], &deletion).await.expect(200);
    secrets.codes.push(deletion);
    anonymous.lists_sms_logs().phone(PHONES[0]).await.expect(404);
    alice.requests_new_code(PHONES[1]).await.expect(422);
    let malformed = format!("{{\"phone\": \"{}\", \"code\": \"{code}\"", PHONES[0]);
    anonymous.logs_in(PHONES[0], &code).bytes("application/json", malformed).await.expect(400);
    secrets.codes.push(code);
    anonymous.logs_in(PHONES[0], "12345x").await.expect(422);
    app.with_token(&format!("{}0", alice.token)).views_profile().await.expect(401);
    let fresh = alice.requests_chat_credentials().await.expect_data(200);
    secrets.tokens.push(text(&fresh["access_token"]));
    for (token, status) in [(HS_TOKEN, 200), ("not-the-homeservers", 403)] {
        app.with_token(token).pushes("1", json!([])).await.expect(status);
        secrets.tokens.push(token.to_owned());
    }
    let bob = app.sign_in(PHONES[0]).await;
    secrets.codes.push(app.sns.last_code(PHONES[0]));
    bob.logs_out().await.expect(200);
    secrets.tokens.push(bob.token);
    // First the SMS provider fails with an error that repeats the phone number, then the store fails.
    app.sns.reject();
    anonymous.requests_code(PHONES[2]).await.expect(503);
    app.sns.accept();
    for fault in [Fault::Throttle, Fault::LoseRequest] {
        app.faults.set(move |_| fault);
        anonymous.requests_code(PHONES[2]).await.expect(503);
        alice.views_profile().await.expect(503);
    }
    app.faults.clear();
    secrets.codes.push(anonymous.receives_code(PHONES[2]).await);
    secrets
}

/// Returns whether the line of a successful request to the route has the id of the user.
fn names_user(log: &str, route: &str, user: u32) -> bool {
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut responded = lines.filter(|line| line["message"] == "responded" && line["status"] == 200);
    responded.any(|line| line["span"]["route"] == route && line["span"]["user_id"] == user)
}

#[tokio::test]
async fn production_stores_no_clear_text_secrets_and_logs_no_secrets_or_contact_details() {
    let log = Log::default();
    // The level is the most verbose one. The subscriber is global, so the log also has lines of other tests.
    tracing::subscriber::set_global_default(telemetry::subscriber(Level::TRACE, log.clone()))
        .expect("no other test sets a subscriber");
    for environment in ["production", ""] {
        let app = TestApp::serving(&HTTP_FUNCTIONS.map(|(_, router)| router))
            .variable("ENVIRONMENT", environment)
            .variable("PHONE_PREFIXES", "+44")
            .variable("SMS_CREDIT", "1000")
            .start()
            .await;
        let Secrets { user, deleted, codes, tokens } = use_everything(&app).await;

        let dump = app.dump().await;
        assert!(dump.contains("sms_logs") && dump.contains("session#"), "the dump has all tables");
        for code in &codes {
            assert!(!contains_word(&dump, code), "{environment:?}: the code {code} is stored in clear");
        }
        for token in &tokens {
            assert!(!dump.contains(token.as_str()), "{environment:?}: the token {token} is stored in clear");
        }

        let text = log.text();
        assert!(text.lines().filter(|line| line.contains("\"responded\"")).count() >= 10, "{text}");
        assert!(text.contains("\"route\":\"/api/code/verify\""), "{text}");
        let routes = [
            ("/api/code/verify", user),
            ("/api/auth/update-user-info", user),
            ("/api/account/delete", deleted),
        ];
        for (route, user) in routes {
            assert!(names_user(&text, route, user), "{route} does not name user {user}:\n{text}");
        }
        for phone in PHONES {
            assert!(!text.contains(&phone[1..]), "{phone} is in the log:\n{text}");
        }
        assert!(!text.contains(EMAIL), "{EMAIL} is in the log:\n{text}");
        for secret in codes.iter().chain(&tokens) {
            assert!(!contains_word(&text, secret), "{secret} is in the log:\n{text}");
        }
    }
}

/// Shows that the check of the stored codes can fail: outside production, the `sms_logs` table has the code.
#[tokio::test]
async fn outside_production_the_code_is_stored_in_clear_text() {
    let app = TestApp::serving(&HTTP_FUNCTIONS.map(|(_, router)| router)).start().await;
    let code = app.anonymous().receives_code(PHONES[0]).await;
    assert!(contains_word(&app.dump().await, &code));
}
