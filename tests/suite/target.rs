//! What the HTTP suite talks to, and who talks.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::mpsc;
use std::time::Duration;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use chrono::TimeDelta;
use clap::Parser as _;
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use touchline::ports::clock::{Clock as _, SystemClock};
use touchline::ports::random::{Random, SystemRandom};
use touchline_local::{LocalStack, Options, registration};
use touchline_testing::SnsStandIn;

use crate::openapi;

static UNDER_TEST: OnceLock<UnderTest> = OnceLock::new();

/// What all tests of the run share.
#[derive(Debug)]
struct UnderTest {
    base: String,
    /// By what the homeserver is known to it.
    hs_token: String,
    /// Its store, where we may look into it.
    dynamodb: Option<String>,
    deployed: Option<Deployed>,
}

/// A deployed stack, whose functions are invoked as an account's are: by their names there, with a signature.
#[derive(Debug)]
struct Deployed {
    aws: String,
    functions: HashMap<String, String>,
}

/// The API under test: one for all tests of the run.
#[derive(Clone)]
pub struct Target {
    base: &'static str,
    client: Client,
}

/// Somebody who is logged in.
pub struct Fan {
    target: Target,
    pub phone: String,
    pub token: String,
    pub login: Value,
}

/// A response, read.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: reqwest::header::HeaderMap,
    pub body: Value,
}

impl Answer {
    #[track_caller]
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        self.body
    }

    /// Checks the status, the code, and that the body has the one shape of errors.
    #[track_caller]
    pub fn expect_error(&self, status: u16, code: &str) {
        assert_eq!((self.status.as_u16(), self.body["code"].as_str()), (status, Some(code)), "{}", self.body);
        self.expect_error_shape();
    }

    #[track_caller]
    pub fn expect_error_shape(&self) {
        let body = self.body.as_object().expect("an object");
        assert!(body["message"].is_string() && body["code"].is_string(), "{body:?}");
        assert_eq!(body.contains_key("errors"), self.status == 422, "{body:?}");
        assert!(body.keys().all(|key| ["message", "code", "errors"].contains(&key.as_str())), "{body:?}");
        assert_eq!(self.headers.contains_key("www-authenticate"), self.status == 401);
        assert_eq!(self.headers.contains_key("retry-after"), self.status == 429 || self.status == 503);
    }
}

impl Target {
    pub fn get() -> Self {
        Self { base: &Self::under_test().base, client: Client::new() }
    }

    fn under_test() -> &'static UnderTest {
        UNDER_TEST.get_or_init(|| match std::env::var("TOUCHLINE_TEST_URL") {
            Ok(base) => {
                let hs_token = std::env::var("TOUCHLINE_TEST_HS_TOKEN").unwrap_or_default();
                let deployed = std::env::var("TOUCHLINE_TEST_AWS").ok().map(Deployed::find);
                let dynamodb = deployed.as_ref().map(|deployed| deployed.aws.clone());
                UnderTest { base, hs_token, dynamodb, deployed }
            }
            Err(_) => start_local(),
        })
    }

    /// The homeserver of the chat network, where there is one.
    pub fn homeserver() -> Option<String> {
        std::env::var("TOUCHLINE_TEST_HOMESERVER").ok()
    }

    /// Whether there is a gateway between it and us that is not ours.
    pub fn is_deployed() -> bool {
        Self::under_test().deployed.is_some()
    }

    /// The store under it, where we may look into it.
    pub fn dynamodb() -> Option<&'static str> {
        Self::under_test().dynamodb.as_deref()
    }

    /// Tells something as the homeserver does.
    pub async fn push(&self, transaction: &str, body: &Value) -> Answer {
        self.push_as(&Self::under_test().hs_token, transaction, body.to_string()).await
    }

    pub async fn push_as(&self, token: &str, transaction: &str, body: String) -> Answer {
        let path = format!("/_matrix/app/v1/transactions/{transaction}");
        self.send(Method::PUT, &path, Some(token), Some(("application/json", body))).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, None, Some(("application/json", body.to_string()))).await
    }

    pub async fn post_as(&self, token: &str, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, Some(token), Some(("application/json", body.to_string()))).await
    }

    pub async fn send(
        &self,
        method: Method,
        path: &str,
        token: Option<&str>,
        body: Option<(&str, String)>,
    ) -> Answer {
        let mut request = self.client.request(method.clone(), format!("{}{path}", self.base));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if let Some((kind, body)) = body {
            request = request.header("content-type", kind).body(body);
        }
        let answer = Self::read(request).await;
        openapi::check(method.as_str(), path, answer.status.as_u16(), &answer.body);
        answer
    }

    pub async fn send_bytes(&self, path: &str, body: &[u8]) -> Answer {
        let request = self.client.post(format!("{}{path}", self.base));
        Self::read(request.header("content-type", "application/json").body(body.to_vec())).await
    }

    async fn read(request: reqwest::RequestBuilder) -> Answer {
        let response = request.send().await.expect("an answer");
        let (status, headers) = (response.status(), response.headers().clone());
        let text = response.text().await.expect("a body");
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Answer { status, headers, body }
    }

    /// Invokes a function with a payload, as `aws lambda invoke` does.
    pub async fn invoke(&self, function: &str, payload: &Value) -> Value {
        let answer = match &Self::under_test().deployed {
            Some(deployed) => {
                Self::read(deployed.invocation(&self.client, function, payload.to_string())).await
            }
            None => self.post(&format!("/2015-03-31/functions/{function}/invocations"), payload).await,
        };
        assert!(!answer.headers.contains_key("x-amz-function-error"), "{}", answer.body);
        answer.expect(200)
    }

    /// The last code sent to a phone, from the development log.
    pub async fn code(&self, phone: &str) -> String {
        let path = format!("/api/logs/sms?phone={}&per_page=1", phone.replace('+', "%2B"));
        let log = self.send(Method::GET, &path, None, None).await.expect(200);
        log["data"][0]["code"].as_str().expect("a code in the log").to_owned()
    }

    pub async fn request_code(&self, phone: &str) -> String {
        self.post("/api/code/request", &json!({ "phone": phone })).await.expect(200);
        self.code(phone).await
    }

    pub async fn log_in(self, phone: String) -> Fan {
        let code = self.request_code(&phone).await;
        let body = self.post("/api/code/verify", &json!({ "phone": phone, "code": code })).await.expect(200);
        let login = body["data"].clone();
        let token = login["token"].as_str().expect("a token").to_owned();
        Fan { target: self, phone, token, login }
    }

    /// Somebody new, on a phone of their own.
    pub async fn fan() -> Fan {
        Self::get().log_in(phone()).await
    }
}

impl Deployed {
    fn find(aws: String) -> Self {
        let file = std::env::var("TOUCHLINE_TEST_FUNCTIONS").expect("TOUCHLINE_TEST_FUNCTIONS");
        let text = std::fs::read_to_string(file).expect("the functions' names");
        Self { aws, functions: serde_json::from_str(&text).expect("a JSON object of names") }
    }

    fn invocation(&self, client: &Client, function: &str, payload: String) -> reqwest::RequestBuilder {
        let url = format!("{}/2015-03-31/functions/{}/invocations", self.aws, self.functions[function]);
        let identity = Credentials::new("test", "test", None, None, "tests").into();
        let how = v4::SigningParams::builder()
            .identity(&identity)
            .region("eu-west-1")
            .name("lambda")
            .time(SystemClock.now().into())
            .settings(SigningSettings::default())
            .build()
            .expect("all that signing needs");
        let body = SignableBody::Bytes(payload.as_bytes());
        let request = SignableRequest::new("POST", &url, std::iter::empty(), body).expect("a request");
        let (signature, _) = sign(request, &how.into()).expect("a signature").into_parts();
        let (headers, _) = signature.into_parts();
        let request = headers
            .into_iter()
            .fold(client.post(&url), |request, header| request.header(header.name(), header.value()));
        request.body(payload)
    }
}

impl Fan {
    pub async fn get(&self, path: &str) -> Answer {
        self.target.send(Method::GET, path, Some(&self.token), None).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.target.post_as(&self.token, path, body).await
    }

    pub fn target(&self) -> &Target {
        &self.target
    }

    pub fn id(&self) -> u64 {
        self.login["user"]["id"].as_u64().expect("a number")
    }

    /// `@<username>:<server>`.
    pub fn chat_id(&self) -> &str {
        self.login["matrix_credentials"]["user_id"].as_str().expect("chat credentials")
    }

    /// Asks the homeserver something, as this user's Matrix client does.
    pub async fn ask_homeserver(&self, method: Method, path: &str, body: Option<&Value>) -> Answer {
        let base = Target::homeserver().expect("TOUCHLINE_TEST_HOMESERVER: run tests/real-components");
        let token = self.login["matrix_credentials"]["access_token"].as_str().expect("chat credentials");
        let request = self.target.client.request(method, format!("{base}/_matrix/client/v3/{path}"));
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        Target::read(request.bearer_auth(token)).await
    }

    /// Does something in a room by another client than the app: by a Matrix client, where there is a
    /// homeserver; without one, by telling what it would tell.
    pub async fn elsewhere(&self, what: Elsewhere, room: &str) {
        if Target::homeserver().is_some() {
            let room = room.replace('!', "%21").replace(':', "%3A");
            let (method, path, body) = match what {
                Elsewhere::Joins => (Method::POST, format!("join/{room}"), json!({})),
                Elsewhere::Leaves => (Method::POST, format!("rooms/{room}/leave"), json!({})),
                Elsewhere::Writes => (
                    Method::PUT,
                    format!("rooms/{room}/send/m.room.message/{}", name()),
                    json!({ "msgtype": "m.text", "body": "Goal!" }),
                ),
            };
            self.ask_homeserver(method, &path, Some(&body)).await.expect(200);
            return;
        }
        let mut event = json!({
            "room_id": room, "sender": self.chat_id(), "state_key": self.chat_id(),
            // A little later than anything that was done so far.
            "origin_server_ts": (SystemClock.now() + TimeDelta::seconds(2)).timestamp_millis(),
        });
        let (kind, content) = match what {
            Elsewhere::Joins => ("m.room.member", json!({ "membership": "join" })),
            Elsewhere::Leaves => ("m.room.member", json!({ "membership": "leave" })),
            Elsewhere::Writes => ("m.room.message", json!({ "msgtype": "m.text", "body": "Goal!" })),
        };
        event["type"] = kind.into();
        event["content"] = content;
        self.target.push(&name(), &json!({ "events": [event] })).await.expect(200);
    }
}

/// What people do by other clients.
#[derive(Debug, Clone, Copy)]
pub enum Elsewhere {
    Joins,
    Leaves,
    Writes,
}

/// Asks until the answer is as wanted: a homeserver tells us in its own time.
pub async fn eventually<T: std::fmt::Debug>(ask: impl AsyncFn() -> T, wanted: impl Fn(&T) -> bool) -> T {
    let deadline = SystemClock.now() + TimeDelta::seconds(20);
    loop {
        let answer = ask().await;
        if wanted(&answer) {
            return answer;
        }
        assert!(SystemClock.now() < deadline, "still {answer:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A phone that no other test has: tests share the API.
pub fn phone() -> String {
    let random: &dyn Random = &SystemRandom;
    format!("+4479{:08}", random.below(100_000_000))
}

/// A name that no other test has.
pub fn name() -> String {
    let random: &dyn Random = &SystemRandom;
    format!("t{}", random.word(12).to_lowercase())
}

/// The local stack, on a thread of its own, because each test has its own runtime.
fn start_local() -> UnderTest {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async move {
            let sns = SnsStandIn::start().await;
            let given = |name: &str| std::env::var(name).ok();
            let mut arguments: Vec<String> =
                ["touchline", "--quiet", "--sns", sns.url(), "--parameter", "Environment=testing"]
                    .map(str::to_owned)
                    .into();
            match given("TOUCHLINE_TEST_DYNAMODB") {
                Some(url) => arguments.extend(["--dynamodb".into(), url, "--stack-name".into(), name()]),
                None => arguments.extend(["--memory".into(), "--dynamodb-port".into(), "0".into()]),
            }
            // A homeserver knows us by a file, which says on which port we are.
            let folder = tempfile::tempdir().expect("a folder");
            let file = if let Some(url) = Target::homeserver() {
                arguments.extend(["--homeserver".into(), url]);
                given("TOUCHLINE_TEST_REGISTRATION").expect("TOUCHLINE_TEST_REGISTRATION").into()
            } else {
                let file = folder.path().join("registration.yaml");
                let text = registration("touchline.local", "http://127.0.0.1", &SystemRandom);
                std::fs::write(&file, text).expect("a file");
                file
            };
            let text = std::fs::read_to_string(&file).expect("a registration file");
            let hs_token = text.lines().find_map(|line| line.strip_prefix("hs_token: ")).expect("a token");
            arguments.extend(["--registration".into(), file.to_str().expect("a path").into()]);
            arguments.extend(["--port".into(), given("TOUCHLINE_TEST_PORT").unwrap_or("0".into())]);
            if let Some(file) = given("TOUCHLINE_TEST_CALLS") {
                arguments.extend(["--note-calls".into(), file]);
            }
            let stack = LocalStack::start(&Options::parse_from(arguments)).await.expect("a local stack");
            let under_test = UnderTest {
                base: format!("http://{}", stack.api),
                hs_token: hs_token.to_owned(),
                dynamodb: Some(stack.dynamodb.clone()),
                deployed: None,
            };
            tell.send(under_test).expect("somebody waits");
            std::future::pending::<()>().await;
        });
    });
    told.recv().expect("the local stack starts")
}
