use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use aws_sdk_dynamodb::Client;
use chrono::TimeDelta;
use lambda_http::Body;
use lambda_http::http::{HeaderMap, Method, Response, StatusCode};
use serde_json::{Map, Value, json};
use touchline::config::{Config, SmsSettings};
use touchline::domain::{Phone, Token, UserId, Username};
use touchline::ports::clock::Clock;
use touchline::ports::random::Random;
use touchline::ports::sms::Sns;
use touchline::ports::web::{HyperWeb, NoWeb, Web};
use touchline::storage::users::{NewUser, Session};
use touchline::storage::{self, Store};
use touchline::{App, Router};
use touchline_stack::event::{HttpRequest, http_event};
use touchline_stack::streams::{StreamReader, sequence};
use touchline_stack::{EmbeddedStore, TEMPLATE, Template, tables};

use crate::chat::NoChat;
use crate::{Faults, SeededRandom, SnsStandIn, TestClock};

/// What the homeserver shows when it tells a [`TestApp`] something.
pub const HS_TOKEN: &str = "hs-token-of-the-tests";

/// Functions on a store of their own. Requests pass through the same events as in Lambda.
#[derive(Debug)]
pub struct TestApp {
    pub app: App,
    pub clock: Arc<TestClock>,
    pub sns: SnsStandIn,
    pub faults: Faults,
    _store: EmbeddedStore,
    routers: Vec<Router>,
}

/// How a [`TestApp`] is made up.
#[derive(Debug)]
pub struct Builder {
    routers: Vec<fn(App) -> Router>,
    variables: BTreeMap<String, String>,
    chat_is_down: bool,
    has_streams: bool,
}

/// A response, read.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Value,
}

impl Answer {
    /// The body, after checking the status.
    #[must_use]
    #[track_caller]
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        self.body
    }

    /// Checks the status and the error's code.
    #[track_caller]
    pub fn expect_error(&self, status: u16, code: &str) {
        assert_eq!((self.status.as_u16(), self.body["code"].as_str()), (status, Some(code)), "{}", self.body);
        assert!(self.body["message"].as_str().is_some_and(|message| message.len() > 10), "{}", self.body);
    }
}

impl Builder {
    /// Sets one of the functions' variables.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// Lets the chat network be away.
    #[must_use]
    pub fn without_chat(mut self) -> Self {
        self.chat_is_down = true;
        self
    }

    /// Leaves the tables' streams out. The embedded engine looks at all records of a stream before it adds
    /// one, which takes its time where there are many.
    #[must_use]
    pub fn without_streams(mut self) -> Self {
        self.has_streams = false;
        self
    }

    pub async fn start(self) -> TestApp {
        let store = EmbeddedStore::in_memory().await.expect("a store in memory");
        let sns = SnsStandIn::start().await;
        let mut stack = Template::parse(TEMPLATE)
            .and_then(|template| {
                template.resolve(&BTreeMap::from([("AWS::StackName".into(), "test".into())]))
            })
            .expect("the template reads");
        if !self.has_streams {
            for properties in stack.tables.iter_mut().filter_map(|table| table.properties.as_object_mut()) {
                properties.remove("StreamSpecification");
            }
        }
        let mut variables = stack.functions[0].environment.clone();
        variables.extend(
            [
                ("ENVIRONMENT", "testing"),
                ("LOG_LEVEL", "trace"),
                ("AWS_REGION", "eu-west-1"),
                ("AWS_ACCESS_KEY_ID", "test"),
                ("AWS_SECRET_ACCESS_KEY", "test"),
                ("CODE_PEPPER", "a pepper for the tests"),
                ("CHAT_AS_TOKEN", ""),
                ("CHAT_HS_TOKEN", HS_TOKEN),
                ("AWS_ENDPOINT_URL_DYNAMODB", &store.url()),
                ("AWS_ENDPOINT_URL_SNS", sns.url()),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
        variables.extend(self.variables);
        let config = Config::read(|name| variables.get(name).cloned()).expect("the variables are complete");

        let faults = Faults::none();
        let client = storage::connect(&config.aws, faults.clone());
        tables::create(&client, &stack.tables).await.expect("the template's tables");
        let SmsSettings::Sns(settings) = config.sms.clone() else { panic!("tests send through SNS") };
        let plain_http = aws_smithy_http_client::Builder::new().build_http();
        let clock = Arc::new(TestClock::default());
        let random: Arc<dyn Random> = Arc::new(SeededRandom::default());
        let app = App {
            store: Store::new(client, config.tables.clone()),
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            sms: Arc::new(Sns::new(&config.aws, settings, plain_http)),
            chat: if self.chat_is_down {
                Arc::new(NoChat)
            } else {
                touchline::app::chat(&config.chat, &random)
            },
            random,
            web: HyperWeb::new().map_or_else(|| Arc::new(NoWeb) as Arc<dyn Web>, |web| Arc::new(web)),
            catalog_cache: Arc::default(),
            config: Arc::new(config),
        };
        let routers = self.routers.iter().map(|router| router(app.clone())).collect();
        TestApp { app, clock, sns, faults, _store: store, routers }
    }
}

impl TestApp {
    #[must_use]
    pub fn serving(routers: &[fn(App) -> Router]) -> Builder {
        Builder {
            routers: routers.to_vec(),
            variables: BTreeMap::new(),
            chat_is_down: false,
            has_streams: true,
        }
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.send("POST", path, &[], body.to_string().as_bytes()).await
    }

    pub async fn post_as(&self, token: &str, path: &str, body: Value) -> Answer {
        self.send("POST", path, &[("authorization", &format!("Bearer {token}"))], body.to_string().as_bytes())
            .await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], b"").await
    }

    pub async fn get_as(&self, token: &str, path: &str) -> Answer {
        self.send("GET", path, &[("authorization", &format!("Bearer {token}"))], b"").await
    }

    /// Any request at all, from loopback.
    pub async fn send(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.send_from("127.0.0.1", method, target, headers, body).await
    }

    pub async fn send_from(
        &self,
        source: &str,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let event = http_event(&HttpRequest {
            method,
            path,
            query,
            headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            body,
            source,
            id: "test-request",
            at: self.clock.now(),
            route: path,
            path_parameters: Map::new(),
        });
        let verb = Method::from_bytes(method.as_bytes()).expect("a method");
        let serves = |router: &&Router| router.serves(&verb, path);
        let router = self.routers.iter().find(serves).unwrap_or(&self.routers[0]);
        let request =
            lambda_http::request::from_str(&event.to_string()).expect("an event that lambda_http reads");
        read(&router.respond(request).await)
    }

    /// Asks for a code and returns it from the message.
    pub async fn request_code(&self, phone: &str) -> String {
        let _ = self.post("/api/code/request", json!({ "phone": phone })).await.expect(200);
        self.sns.last_code(phone)
    }

    /// Logs a phone in; returns `data` of the answer.
    pub async fn log_in(&self, phone: &str) -> Value {
        let code = self.request_code(phone).await;
        let answer = self.post("/api/code/verify", json!({ "phone": phone, "code": code })).await;
        answer.expect(200)["data"].clone()
    }

    /// Logs a phone in; returns the token.
    pub async fn token(&self, phone: &str) -> String {
        self.log_in(phone).await["token"].as_str().expect("a token").to_owned()
    }

    /// Makes a user without the trouble of logging in, as `fan.<number>`; returns their token.
    pub async fn register(&self, user: u32) -> String {
        let (id, now) = (UserId(user), self.clock.now());
        let token = Token::new(id, [0; 32]);
        let new = NewUser {
            id,
            phone: &Phone::parse(&format!("+4477009{user:05}")).expect("a phone"),
            username: &Username::parse(&format!("fan.{user}")).expect("a username"),
            token: &token,
            session: &Session::starting(format!("DEVICE{user}"), TimeDelta::days(30), now),
        };
        self.app.store.register(&new, now).await.expect("a new user");
        token.as_str().to_owned()
    }

    /// A client of the store that meets no faults.
    #[must_use]
    pub fn client(&self) -> Client {
        storage::connect(&self.app.config.aws, aws_smithy_http_client::Builder::new().build_http())
    }

    /// Everything that has changed in a table so far, as a stream mapping would deliver it at once.
    pub async fn changes(&self, table: &str) -> Value {
        let aws = &self.app.config.aws;
        let http = aws_smithy_http_client::Builder::new().build_http();
        let reader =
            StreamReader::new(&aws.region, aws.credentials.clone(), aws.dynamodb_endpoint.as_ref(), http);
        let described = self.client().describe_table().table_name(table).send().await.expect("a table");
        let stream = described.table().and_then(|table| table.latest_stream_arn()).expect("a stream");
        let shards = reader.shards(stream).await.expect("shards");
        let [shard] = shards.as_slice() else { panic!("the embedded store has one shard: {shards:?}") };
        let mut records = Vec::new();
        loop {
            let after = records.last().map(|record| sequence(record).to_owned());
            let page = reader.records(stream, shard, after.as_ref(), 1_000).await.expect("records");
            if page.is_empty() {
                return reader.event(stream, shard, &records);
            }
            records.extend(page);
        }
    }

    /// Every item of every table, as one text to search in.
    pub async fn dump(&self) -> String {
        let client = self.client();
        let mut text = String::new();
        for table in client.list_tables().send().await.expect("tables").table_names() {
            let page = client.scan().table_name(table).send().await.expect("a scan");
            for item in page.items() {
                let _ = writeln!(text, "{table} {item:?}");
            }
        }
        text
    }
}

fn read(response: &Response<Body>) -> Answer {
    let body = match response.body() {
        Body::Text(text) => serde_json::from_str(text).expect("a JSON body"),
        other => panic!("a body of another kind: {other:?}"),
    };
    Answer { status: response.status(), headers: response.headers().clone(), body }
}
