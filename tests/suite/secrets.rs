//! In production nothing that is secret is stored in clear or logged.

use std::io;
use std::sync::{Arc, Mutex};

use serde_json::json;
use touchline::telemetry;
use touchline_local::HTTP_FUNCTIONS;
use touchline_testing::{Fault, HS_TOKEN, TestApp};
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

const PHONES: [&str; 3] = ["+447700900123", "+447700900555", "+447700900777"];
const EMAIL: &str = "ada.the.first@example.org";

/// `needle` where it stands by itself: six digits inside a longer number or a digest are no code.
fn stands_in(haystack: &str, needle: &str) -> bool {
    haystack.match_indices(needle).any(|(at, _)| {
        let before = haystack[..at].chars().next_back();
        let after = haystack[at + needle.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}

#[tokio::test]
async fn no_code_phone_or_token_leaves_its_place() {
    let log = Log::default();
    // The most talkative level that can be configured. For the whole process: what the other tests make
    // the functions log meanwhile is looked at as well.
    tracing::subscriber::set_global_default(telemetry::subscriber(Level::TRACE, log.clone()))
        .expect("no other test sets it");
    for environment in ["production", ""] {
        let app = TestApp::serving(&HTTP_FUNCTIONS.map(|(_, router)| router))
            .variable("ENVIRONMENT", environment)
            .start()
            .await;
        let mut secrets: Vec<String> = Vec::new();

        // Everything a user does, right and wrong.
        let code = app.request_code(PHONES[0]).await;
        let mut codes = vec![code.clone()];
        let wrong = if code == "000000" { "000001" } else { "000000" };
        let _ = app.post("/api/code/verify", json!({ "phone": PHONES[0], "code": wrong })).await.expect(401);
        let login =
            app.post("/api/code/verify", json!({ "phone": PHONES[0], "code": code })).await.expect(200);
        let token = login["data"]["token"].as_str().unwrap().to_owned();
        secrets.push(login["data"]["matrix_credentials"]["access_token"].as_str().unwrap().to_owned());
        let info = json!({ "name": "Ada", "email": EMAIL });
        let _ = app.post_as(&token, "/api/auth/update-user-info", info).await.expect(200);
        let initiate = json!({ "phone": PHONES[1] });
        let _ = app.post_as(&token, "/api/auth/verify-phone/initiate", initiate).await.expect(200);
        codes.push(app.sns.last_code(PHONES[1]));
        let verify = json!({ "phone": PHONES[1], "code": app.sns.last_code(PHONES[1]) });
        let _ = app.post_as(&token, "/api/auth/verify-phone", verify).await.expect(200);
        let _ = app.get("/api/logs/sms?phone=%2B447700900123").await.expect(404);
        let resend = json!({ "phone": PHONES[1] });
        let _ = app.post_as(&token, "/api/auth/resend-code", resend).await.expect(422);
        let broken = format!("{{\"phone\": \"{}\", \"code\": \"{}\"", PHONES[0], codes[0]);
        let _ = app.send("POST", "/api/auth/login", &[], broken.as_bytes()).await.expect(400);
        let body = json!({ "phone": PHONES[0], "code": "12345x" });
        let _ = app.post("/api/auth/login", body).await.expect(422);
        let _ = app.get_as(&format!("{token}0"), "/api/auth/me").await.expect(401);
        let fresh = app.post_as(&token, "/api/auth/chat/credentials", json!({})).await.expect(200);
        secrets.push(fresh["data"]["access_token"].as_str().unwrap().to_owned());
        for (shown, status) in [(HS_TOKEN, 200), ("not-the-homeservers", 403)] {
            let bearer = format!("Bearer {shown}");
            let headers = [("authorization", bearer.as_str())];
            let told = app.send("PUT", "/_matrix/app/v1/transactions/1", &headers, br#"{"events":[]}"#).await;
            assert_eq!(told.status, status);
            secrets.push(shown.to_owned());
        }
        let other = app.token(PHONES[0]).await;
        codes.push(app.sns.last_code(PHONES[0]));
        let _ = app.post_as(&other, "/api/auth/logout", json!({})).await.expect(200);
        secrets.push(other);
        // A provider that repeats the number in its refusal, and a store in trouble.
        app.sns.refuse();
        let _ = app.post("/api/code/request", json!({ "phone": PHONES[2] })).await.expect(503);
        app.sns.accept();
        for fault in [Fault::Throttle, Fault::LoseRequest] {
            app.faults.set(move |_| fault);
            let _ = app.post("/api/code/request", json!({ "phone": PHONES[2] })).await.expect(503);
            let _ = app.get_as(&token, "/api/auth/me").await.expect(503);
        }
        app.faults.clear();
        let _ = app.request_code(PHONES[2]).await;
        codes.push(app.sns.last_code(PHONES[2]));

        let dump = app.dump().await;
        assert!(dump.contains("sms_logs") && dump.contains("session#"), "the dump sees the tables");
        for code in &codes {
            assert!(!stands_in(&dump, code), "{environment:?}: the code {code} is stored in clear");
        }
        let kept = secrets.iter().chain([&token]).find(|secret| dump.contains(secret.as_str()));
        assert_eq!(kept, None, "a token is stored in clear");

        secrets.extend(codes);
        secrets.push(token);
        let text = log.text();
        assert!(text.lines().filter(|line| line.contains("\"answered\"")).count() >= 10, "{text}");
        assert!(text.contains("\"route\":\"/api/code/verify\""), "{text}");
        for phone in PHONES {
            assert!(!text.contains(&phone[1..]), "{phone} is in the log:\n{text}");
        }
        assert!(!text.contains(EMAIL));
        for secret in secrets {
            assert!(!stands_in(&text, &secret), "{secret} is in the log:\n{text}");
        }
    }
}

/// The check above can fail: where codes may be shown, it finds them.
#[tokio::test]
async fn in_testing_the_code_is_in_the_log_table() {
    let app = TestApp::serving(&HTTP_FUNCTIONS.map(|(_, router)| router)).start().await;
    let code = app.request_code(PHONES[0]).await;
    assert!(stands_in(&app.dump().await, &code));
}
