//! The API under test, over HTTP. Implements [`Api`], so the personas and verbs of `touchline_testing` work on it.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, OnceLock, mpsc};
use std::time::Duration;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use chrono::TimeDelta;
use clap::Parser as _;
use reqwest::{Client, RequestBuilder};
use serde_json::Value;
use touchline::ports::clock::{Clock as _, SystemClock};
use touchline::ports::random::{Random, SystemRandom};
use touchline_local::{LocalStack, Options, registration};
use touchline_stack::gzip;
use touchline_testing::{Api, Persona, RawRequest, Response, SignIn, SnsStandIn, User};

use crate::openapi;
use crate::store::StoreUnderTest;

static UNDER_TEST: OnceLock<UnderTest> = OnceLock::new();

/// The addresses and the token of the API under test. All tests of one run share them.
#[derive(Debug)]
struct UnderTest {
    /// The URL of the API.
    base: String,
    /// The token with which the homeserver calls the API.
    hs_token: String,
    /// The address of the store behind the API, if tests can reach it.
    dynamodb: Option<String>,
    deployed: Option<Deployed>,
}

/// A deployed stack. Tests invoke its functions by their deployed names, with signed requests to the Lambda API.
#[derive(Debug)]
struct Deployed {
    /// The URL of the AWS APIs.
    aws: String,
    /// The deployed name of each function.
    functions: HashMap<String, String>,
}

/// The API under test. Most tests share one API, so no test may depend on the data of another test.
#[derive(Debug, Clone)]
pub struct HttpApi {
    base: String,
    client: Client,
    deployed: Option<&'static Deployed>,
}

impl Api for HttpApi {
    async fn send(&self, request: RawRequest) -> Response {
        let RawRequest { method, target, headers, body, address } = request;
        assert_eq!(address, None, "a client cannot choose its address over HTTP");
        let mut http = self.client.request(method.clone(), format!("{}{target}", self.base));
        if !headers.iter().any(|(name, _)| name == "accept-encoding") {
            // As most clients do.
            http = http.header("accept-encoding", "gzip");
        }
        for (name, value) in headers {
            http = http.header(name, value);
        }
        if let Some(body) = body {
            http = http.body(body);
        }
        let response = read(format!("{method} {target}"), http).await;
        openapi::check(method.as_str(), &target, response.status.as_u16(), &response.body);
        response
    }

    /// Reads the code from the development log of SMS messages.
    async fn last_code(&self, phone: &str) -> String {
        let log = self.anonymous().lists_sms_logs().phone(phone).per_page(1).await.expect_data(200);
        log[0]["code"].as_str().expect("the log has the code").to_owned()
    }
}

/// Sends any HTTP request and reads the response. A body that is not JSON becomes a string.
pub async fn read(request: String, http: RequestBuilder) -> Response {
    let response = http.send().await.expect("the server responds");
    let (status, headers) = (response.status(), response.headers().clone());
    let bytes = response.bytes().await.expect("the server sends the whole body");
    let bytes = gzip::decoded(&headers, bytes).expect("the body can be decompressed");
    let text = String::from_utf8(bytes.into()).expect("the body is text");
    let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
    Response { request, status, headers, body }
}

impl HttpApi {
    /// Returns the API that all tests share.
    pub fn under_test() -> Self {
        let UnderTest { base, deployed, .. } = under_test();
        Self { deployed: deployed.as_ref(), ..Self::at(base) }
    }

    /// Returns the API at `base`: a local stack that only the calling test uses.
    pub fn at(base: &str) -> Self {
        Self { base: base.to_owned(), client: Client::new(), deployed: None }
    }

    /// Returns the URL of the chat network's homeserver, if there is one.
    pub fn homeserver_url() -> Option<String> {
        std::env::var("TOUCHLINE_TEST_HOMESERVER").ok()
    }

    /// Returns whether the tests run on a deployed stack. Its gateway can treat requests differently from the
    /// local stack's gateway.
    pub fn is_deployed() -> bool {
        under_test().deployed.is_some()
    }

    /// Connects to the store behind the API.
    ///
    /// # Panics
    ///
    /// If tests cannot reach the store.
    pub fn store() -> StoreUnderTest {
        let url = under_test().dynamodb.as_deref().expect(
            "this test needs the store behind the API: unset TOUCHLINE_TEST_URL to run it on the local stack, \
             or set TOUCHLINE_TEST_AWS and TOUCHLINE_TEST_FUNCTIONS as tests/deployed does",
        );
        StoreUnderTest::connect(url)
    }

    pub fn anonymous(&self) -> Persona<Self> {
        Persona::anonymous(self)
    }

    pub fn with_token(&self, token: &str) -> Persona<Self> {
        Persona::with_token(self, token)
    }

    /// Returns the chat network's homeserver as a caller of the API.
    pub fn homeserver(&self) -> Persona<Self> {
        self.with_token(&under_test().hs_token)
    }

    pub fn sign_in(&self, phone: &str) -> SignIn<Self> {
        SignIn::new(self, phone)
    }

    /// Creates a user and logs them in. The username starts with `name`; the rest makes it unique.
    pub async fn user(&self, name: &str) -> User<Self> {
        self.sign_in(&unique_phone()).username(&format!("{name}.{}", unique_name())).await
    }

    /// Invokes a Lambda function with a payload, as `aws lambda invoke` does.
    pub async fn invoke(&self, function: &str, payload: &Value) -> Value {
        let http = if let Some(deployed) = self.deployed {
            deployed.invocation(&self.client, function, payload.to_string())
        } else {
            let url = format!("{}/2015-03-31/functions/{function}/invocations", self.base);
            self.client.post(url).body(payload.to_string())
        };
        let response = read(format!("invoke {function}"), http).await;
        assert_eq!(response.header("x-amz-function-error"), None, "{}", response.body);
        response.expect(200)
    }
}

impl Deployed {
    fn find(aws: String) -> Self {
        let file = std::env::var("TOUCHLINE_TEST_FUNCTIONS").expect("TOUCHLINE_TEST_FUNCTIONS is set");
        let text = std::fs::read_to_string(file).expect("the file with the functions' names exists");
        Self { aws, functions: serde_json::from_str(&text).expect("the file is a JSON object of names") }
    }

    fn invocation(&self, client: &Client, function: &str, payload: String) -> RequestBuilder {
        let url = format!("{}/2015-03-31/functions/{}/invocations", self.aws, self.functions[function]);
        let identity = Credentials::new("test", "test", None, None, "tests").into();
        let parameters = v4::SigningParams::builder()
            .identity(&identity)
            .region("eu-west-1")
            .name("lambda")
            .time(SystemClock.now().into())
            .settings(SigningSettings::default())
            .build()
            .expect("the parameters are complete");
        let body = SignableBody::Bytes(payload.as_bytes());
        let request =
            SignableRequest::new("POST", &url, std::iter::empty(), body).expect("the request can be signed");
        let (signature, _) =
            sign(request, &parameters.into()).expect("the request can be signed").into_parts();
        let (headers, _) = signature.into_parts();
        let request = headers
            .into_iter()
            .fold(client.post(&url), |request, header| request.header(header.name(), header.value()));
        request.body(payload)
    }
}

/// Repeats a read until `wanted` accepts its result, because streams and homeservers are asynchronous.
pub async fn eventually<T: Debug>(read: impl AsyncFn() -> T, wanted: impl Fn(&T) -> bool) -> T {
    // An emulator that serves the whole suite at once reads its streams slowly.
    let deadline = SystemClock.now() + TimeDelta::minutes(2);
    loop {
        let result = read().await;
        if wanted(&result) {
            return result;
        }
        assert!(SystemClock.now() < deadline, "after two minutes still {result:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Returns a phone that no other test has. The first one is random: an earlier run may have used the same deployment.
pub fn unique_phone() -> String {
    static NEXT: LazyLock<AtomicU32> = LazyLock::new(|| {
        let random: &dyn Random = &SystemRandom;
        AtomicU32::new(random.below(99_000_000))
    });
    format!("+4479{:08}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Returns a name that no other test has, for rooms, transactions and usernames.
pub fn unique_name() -> String {
    let random: &dyn Random = &SystemRandom;
    // Without vowels, and without digits, which stand for letters: a random word can be an offensive one.
    (0..13).map(|_| char::from(b"bcdfghkmnpqstwxz"[random.below(16) as usize])).collect()
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

/// Starts the local stack on a thread of its own, because the runtime of a test ends with the test.
fn start_local() -> UnderTest {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("the runtime starts");
        runtime.block_on(async move {
            let sns = SnsStandIn::start().await;
            let variable = |name: &str| std::env::var(name).ok();
            let mut arguments: Vec<String> = [
                "touchline",
                "--quiet",
                "--no-crowd",
                "--sns",
                sns.url(),
                "--parameter",
                "Environment=testing",
            ]
            .map(str::to_owned)
            .into();
            match variable("TOUCHLINE_TEST_DYNAMODB") {
                Some(url) => {
                    arguments.extend(["--dynamodb".into(), url, "--stack-name".into(), unique_name()]);
                }
                None => arguments.extend(["--memory".into(), "--dynamodb-port".into(), "0".into()]),
            }
            // A homeserver reads our address and tokens from a registration file, so the stack must use the
            // same file. Without a homeserver, the stack gets a new file.
            let folder = tempfile::tempdir().expect("a temporary folder");
            let file = if let Some(url) = HttpApi::homeserver_url() {
                arguments.extend(["--homeserver".into(), url]);
                if let Some(seconds) = variable("TOUCHLINE_TEST_HOMESERVER_TIMEOUT") {
                    arguments.extend(["--homeserver-timeout".into(), seconds]);
                }
                variable("TOUCHLINE_TEST_REGISTRATION").expect("TOUCHLINE_TEST_REGISTRATION is set").into()
            } else {
                let file = folder.path().join("registration.yaml");
                let text = registration("touchline.local", "http://127.0.0.1", &SystemRandom);
                std::fs::write(&file, text).expect("the registration file can be written");
                file
            };
            let text = std::fs::read_to_string(&file).expect("the registration file exists");
            let hs_token =
                text.lines().find_map(|line| line.strip_prefix("hs_token: ")).expect("the file has a token");
            arguments.extend(["--registration".into(), file.to_str().expect("the path is UTF-8").into()]);
            arguments.extend(["--port".into(), variable("TOUCHLINE_TEST_PORT").unwrap_or("0".into())]);
            if let Some(file) = variable("TOUCHLINE_TEST_CALLS") {
                arguments.extend(["--note-calls".into(), file]);
            }
            let mut stack =
                LocalStack::start(&Options::parse_from(arguments)).await.expect("the local stack starts");
            stack.demo_league().await.expect("the demo league is imported");
            let under_test = UnderTest {
                base: format!("http://{}", stack.api),
                hs_token: hs_token.to_owned(),
                dynamodb: Some(stack.dynamodb.clone()),
                deployed: None,
            };
            sender.send(under_test).expect("the test still waits");
            std::future::pending::<()>().await;
        });
    });
    receiver.recv().expect("the local stack starts")
}
