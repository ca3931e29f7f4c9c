use std::collections::BTreeMap;
use std::fmt::{Debug, Write as _};
use std::future::{Future, IntoFuture};
use std::ops::Deref;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};

use aws_sdk_dynamodb::Client;
use chrono::TimeDelta;
use serde_json::{Map, Value, json};
use touchline::config::{Config, SmsSettings};
use touchline::domain::room::{Membership, Room, RoomId, member_shards};
use touchline::domain::{Phone, Token, UserId, Username};
use touchline::ports::clock::Clock;
use touchline::ports::random::Random;
use touchline::ports::sms::Sns;
use touchline::storage::users::{NewUser, Session};
use touchline::storage::{self, Store};
use touchline::{App, Router};
use touchline_stack::event::{HttpRequest, http_event};
use touchline_stack::streams::{StreamReader, event, sequence};
use touchline_stack::{EmbeddedStore, Stack, TEMPLATE, Template, gzip, tables};

use crate::chat::NoChat;
use crate::persona::{Persona, SignIn, User};
use crate::{
    Api, Faults, Function, RawRequest, Response, SeededRandom, SnsStandIn, TestClock, next_position,
};

/// The token that the homeserver sends to a [`TestApp`].
pub const HS_TOKEN: &str = "hs-token-of-the-tests";

/// Parsing the template takes a large part of a short test, so all tests of a process share one stack.
static STACK: LazyLock<Stack> = LazyLock::new(|| {
    Template::parse(TEMPLATE)
        .and_then(|template| template.resolve(&BTreeMap::from([("AWS::StackName".into(), "test".into())])))
        .expect("the template is valid")
});

/// The Lambda functions under test, with their own store. Each request becomes the event that a function would
/// receive from API Gateway.
///
/// A `TestApp` derefs to the [`App`] that the functions get, so `app.store` and `app.config` work. All clones
/// share the same store, clock and faults.
#[derive(Debug, Clone)]
pub struct TestApp {
    app: App,
    pub clock: Arc<TestClock>,
    pub sns: SnsStandIn,
    pub faults: Faults,
    engine: Arc<EmbeddedStore>,
    routers: Arc<[Router]>,
}

impl Deref for TestApp {
    type Target = App;

    fn deref(&self) -> &App {
        &self.app
    }
}

/// Builds a [`TestApp`].
#[derive(Debug)]
pub struct Builder {
    routers: Vec<fn(App) -> Router>,
    variables: BTreeMap<String, String>,
    chat_is_down: bool,
    has_streams: bool,
}

impl Builder {
    /// Sets an environment variable of the functions.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// Starts the app with a homeserver that does not respond.
    #[must_use]
    pub fn with_chat_down(mut self) -> Self {
        self.chat_is_down = true;
        self
    }

    /// Creates the tables without streams, for tests that make many writes and read no stream.
    #[must_use]
    pub fn without_streams(mut self) -> Self {
        self.has_streams = false;
        self
    }

    pub async fn start(self) -> TestApp {
        let store = EmbeddedStore::open(None).expect("the embedded store starts");
        let sns = SnsStandIn::start().await;
        let mut stack = STACK.clone();
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
                ("AWS_ENDPOINT_URL_DYNAMODB", touchline_stack::direct::ENDPOINT),
                ("AWS_ENDPOINT_URL_SNS", sns.url()),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
        variables.extend(self.variables);
        let config = Config::read(|name| variables.get(name).cloned()).expect("the variables are complete");

        let faults = Faults::none(store.http_client());
        let client = storage::connect(&config.aws, faults.clone());
        tables::create(&client, &stack.tables).await.expect("the store creates the tables");
        let SmsSettings::Sns(settings) = config.sms.clone() else { panic!("tests send through SNS") };
        let plain_http = touchline::ports::aws_http::client();
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
            web: touchline::app::web(&config),
            catalog_cache: Arc::default(),
            config: Arc::new(config),
        };
        let routers = self.routers.iter().map(|router| router(app.clone())).collect();
        TestApp { app, clock, sns, faults, engine: Arc::new(store), routers }
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

    /// Returns a caller without a token.
    #[must_use]
    pub fn anonymous(&self) -> Persona<Self> {
        Persona::anonymous(self)
    }

    /// Returns a caller with this token, which may be invalid.
    #[must_use]
    pub fn with_token(&self, token: &str) -> Persona<Self> {
        Persona::with_token(self, token)
    }

    /// Returns a caller that acts as the homeserver of the chat network.
    #[must_use]
    pub fn homeserver(&self) -> Persona<Self> {
        self.with_token(HS_TOKEN)
    }

    /// Prepares a new user, who is written straight to the store: no login, no text message.
    pub fn user(&self, username: &str) -> NewUserBuilder {
        NewUserBuilder { app: self.clone(), username: username.into(), id: None }
    }

    /// Stores rooms and a membership of the user in each of them, without the requests to create and join them. The rooms
    /// have other ids if they are private, so both kinds can be stored for the same user.
    ///
    /// # Panics
    ///
    /// When the store fails.
    pub async fn store_rooms(
        &self,
        user: u32,
        count: u32,
        is_private: bool,
        membership: Membership,
    ) -> Vec<Room> {
        let (now, kind) = (self.clock.now(), if is_private { "den" } else { "stand" });
        let mut rooms = Vec::new();
        for n in 0..count {
            let room = Room {
                room_id: RoomId::parse(&format!("!{n:04}{kind}:touchline.local")).expect("a room id"),
                name: format!("{kind}{n}"),
                topic: String::new(),
                event_id: None,
                creator_id: Some(UserId(2)),
                is_private,
                shards: member_shards(is_private),
                created_at: now,
                last_activity: now,
                league: None,
                removed_at: None,
            };
            self.store.put_room(&room).await.expect("the room is stored");
            let stored = self
                .store
                .apply_homeserver_membership(&room, UserId(user), (membership, now), next_position())
                .await;
            stored.expect("the membership is stored");
            rooms.push(room);
        }
        rooms
    }

    /// Prepares a login through the API. The app must serve `login::router`.
    pub fn sign_in(&self, phone: &str) -> SignIn<Self> {
        SignIn::new(self, phone)
    }

    /// Invokes a function with a payload and returns the function's result. The function's deadline is in
    /// five minutes.
    ///
    /// # Panics
    ///
    /// When the function fails.
    pub async fn invoke<Arguments, F>(&self, function: F, payload: Value) -> Value
    where
        F: Function<Arguments, Error: Debug>,
    {
        self.try_invoke(function, payload).await.expect("the function succeeds")
    }

    /// Invokes a function that may fail.
    pub async fn try_invoke<Arguments, F>(&self, function: F, payload: Value) -> Result<Value, F::Error>
    where
        F: Function<Arguments>,
    {
        let deadline = self.clock.now() + TimeDelta::minutes(5);
        function.invoke(self.app.clone(), payload, deadline).await
    }

    /// Returns a client of the store without injected faults.
    #[must_use]
    pub fn client(&self) -> Client {
        storage::connect(&self.app.config.aws, self.engine.http_client())
    }

    /// Returns every change of a table so far, as one stream event.
    pub async fn changes(&self, table: &str) -> Value {
        self.changes_after(table, None).await
    }

    /// Returns the changes of a table after the one with the sequence number `after`, as one stream event.
    pub async fn changes_after(&self, table: &str, after: Option<&str>) -> Value {
        let reader = StreamReader::Embedded(self.engine.streams());
        let described =
            self.client().describe_table().table_name(table).send().await.expect("the table exists");
        let stream =
            described.table().and_then(|table| table.latest_stream_arn()).expect("the table has a stream");
        let shards = reader.shards(stream).await.expect("the stream has shards");
        let [shard] = shards.as_slice() else {
            panic!("a stream of the embedded store has one shard: {shards:?}")
        };
        let mut records: Vec<Value> = Vec::new();
        loop {
            let last = records.last().map(|record| sequence(record).to_owned());
            let after = last.as_deref().or(after);
            let page = reader.records(stream, shard, after, 1_000).await.expect("the stream can be read");
            if page.is_empty() {
                // The engine stamps changes with the system's time, and the app runs on the test's clock.
                for record in &mut records {
                    record["dynamodb"]["ApproximateCreationDateTime"] = self.clock.now().timestamp().into();
                }
                return event(stream, shard, &records);
            }
            records.extend(page);
        }
    }

    /// Returns every item of every table, as text that a test can search.
    pub async fn dump(&self) -> String {
        let client = self.client();
        let mut text = String::new();
        for table in client.list_tables().send().await.expect("the store lists its tables").table_names() {
            let page = client.scan().table_name(table).send().await.expect("the table can be read");
            for item in page.items() {
                let _ = writeln!(text, "{table} {item:?}");
            }
        }
        text
    }
}

impl Api for TestApp {
    async fn send(&self, request: RawRequest) -> Response {
        let RawRequest { method, target, headers, body, address } = request;
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let event = http_event(&HttpRequest {
            method: method.as_str(),
            path,
            query,
            headers,
            body: body.as_deref().unwrap_or_default(),
            source: address.as_deref().unwrap_or("127.0.0.1"),
            id: "test-request",
            at: self.clock.now(),
            route: path,
            path_parameters: Map::new(),
        });
        let router = self.routers.iter().find(|router| router.serves(&method, path));
        let request =
            lambda_http::request::from_str(&event.to_string()).expect("lambda_http can read the event");
        let response = router.unwrap_or(&self.routers[0]).respond(request).await;
        let (head, body) = response.into_parts();
        let bytes = gzip::decoded(&head.headers, body.to_vec().into()).expect("the body can be decompressed");
        let text = String::from_utf8(bytes.into()).expect("the body is text");
        // A page is one text.
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        let (status, headers) = (head.status, head.headers);
        Response { request: format!("{method} {target}"), status, headers, body }
    }

    async fn last_code(&self, phone: &str) -> String {
        self.sns.last_code(phone)
    }
}

/// A user who is not stored yet. Awaiting it writes the user to the store and returns the [`User`].
#[derive(Debug)]
#[must_use = "the user is not stored until this is awaited"]
pub struct NewUserBuilder {
    app: TestApp,
    username: String,
    id: Option<u32>,
}

impl NewUserBuilder {
    /// Sets the user's id. Otherwise the store assigns the next id: 1, 2, 3, …
    pub fn id(mut self, id: u32) -> Self {
        self.id = Some(id);
        self
    }

    async fn store(self) -> User<TestApp> {
        let (app, now) = (&self.app, self.app.clock.now());
        let id = match self.id {
            Some(id) => UserId(id),
            None => app.store.draw_user_id().await.expect("the store assigns an id"),
        };
        let phone = format!("+4477009{:05}", id.0);
        let token = Token::new(id, [0; 32]);
        let device = format!("DEVICE{}", id.0);
        let new = NewUser {
            id,
            phone: &Phone::parse(&phone).expect("the id makes a valid phone"),
            username: &Username::parse(&self.username).expect("the username is valid"),
            token: &token,
            session: &Session::starting(device.clone(), TimeDelta::days(30), now),
            network: None,
            date_of_birth: None,
        };
        app.store.register(&new, now).await.expect("the id and the username are free");
        let chat_id = format!("@{}:{}", self.username, app.config.chat.server);
        let login = json!({
            "user": { "id": id, "username": self.username, "phone": phone },
            "token": token.as_str(),
            "matrix_credentials": { "user_id": chat_id, "device_id": device },
        });
        User::from_login(app, &login)
    }
}

impl IntoFuture for NewUserBuilder {
    type Output = User<TestApp>;
    type IntoFuture = Pin<Box<dyn Future<Output = User<TestApp>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.store())
    }
}
