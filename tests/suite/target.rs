//! What the HTTP suite talks to, and who talks.

use std::sync::OnceLock;
use std::sync::mpsc;

use clap::Parser as _;
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use touchline::ports::random::{Random, SystemRandom};
use touchline_local::{LocalStack, Options};
use touchline_testing::SnsStandIn;

static BASE: OnceLock<String> = OnceLock::new();

/// The API under test: one for all tests of the run.
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
        let base = BASE.get_or_init(|| std::env::var("TOUCHLINE_TEST_URL").unwrap_or_else(|_| start_local()));
        Self { base, client: Client::new() }
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
        let mut request = self.client.request(method, format!("{}{path}", self.base));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if let Some((kind, body)) = body {
            request = request.header("content-type", kind).body(body);
        }
        Self::read(request).await
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
        let path = format!("/2015-03-31/functions/{function}/invocations");
        let answer = self.post(&path, payload).await;
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
fn start_local() -> String {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async move {
            let sns = SnsStandIn::start().await;
            let mut arguments: Vec<String> = ["touchline", "--quiet", "--port", "0", "--sns", sns.url()]
                .into_iter()
                .chain(["--parameter", "Environment=testing"])
                .map(str::to_owned)
                .collect();
            match std::env::var("TOUCHLINE_TEST_DYNAMODB") {
                Ok(url) => arguments.extend(["--dynamodb".into(), url, "--stack-name".into(), name()]),
                Err(_) => arguments.extend(["--memory".into(), "--dynamodb-port".into(), "0".into()]),
            }
            let stack = LocalStack::start(&Options::parse_from(arguments)).await.expect("a local stack");
            tell.send(format!("http://{}", stack.api)).expect("somebody waits");
            std::future::pending::<()>().await;
        });
    });
    told.recv().expect("the local stack starts")
}
