//! Matrix, through the application-service API, which every homeserver speaks: we act in our users' names by
//! `?user_id=`, with one token of our own.

use std::fmt;
use std::io::Cursor;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use lambda_http::http::header::{AUTHORIZATION, CONTENT_TYPE};
use lambda_http::http::{Method, Request, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{Answer, Chat, ChatError, NewRoom};
use crate::config::{Homeserver, Secret};
use crate::domain::Username;
use crate::domain::chat::Credentials;
use crate::domain::room::{Room, RoomId};
use crate::ports::web::connector;

/// How long a person waits for the chat network, at most, before we go on without it.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Answers to what we ask are small.
const MAX_BYTES: usize = 1024 * 1024;

/// The last version whose room ids end in `:server`, which the interface promises.
const ROOM_VERSION: &str = "11";

type Body = Full<Cursor<Vec<u8>>>;

const APPLICATION_SERVICE: &str = "m.login.application_service";

/// A homeserver that knows us as one of its application services.
pub struct MatrixChat {
    /// `None` where the system has no root certificates: then nothing can be reached.
    client: Option<Client<HttpsConnector<HttpConnector>, Body>>,
    url: String,
    server: String,
    token: Secret,
}

impl fmt::Debug for MatrixChat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MatrixChat({}, {})", self.url, self.server)
    }
}

/// What the homeserver answered, other than success.
#[derive(Debug)]
struct Refusal {
    status: StatusCode,
    code: String,
}

impl Refusal {
    fn is(&self, code: &str) -> bool {
        self.code == code
    }

    /// Whether the homeserver may mean that it does not know the user in whose name we asked.
    fn may_be_about_the_user(&self) -> bool {
        self.status == StatusCode::FORBIDDEN || self.status == StatusCode::NOT_FOUND
    }
}

impl From<Refusal> for ChatError {
    fn from(refusal: Refusal) -> Self {
        match refusal.status {
            _ if refusal.is("M_APPSERVICE_LOGIN_UNSUPPORTED") => Self::LoginUnsupported,
            StatusCode::FORBIDDEN => Self::Forbidden,
            StatusCode::NOT_FOUND => Self::NotFound,
            StatusCode::UNAUTHORIZED => Self::Unavailable("it does not take our token".into()),
            status => Self::Unavailable(format!("it said {} {}", status.as_u16(), refusal.code)),
        }
    }
}

type Asked = Result<Result<Value, Refusal>, ChatError>;

impl MatrixChat {
    #[must_use]
    pub fn new(homeserver: &Homeserver, server: &str) -> Self {
        Self {
            client: connector().map(|connector| Client::builder(TokioExecutor::new()).build(connector)),
            url: homeserver.url.trim_end_matches('/').to_owned(),
            server: server.to_owned(),
            token: homeserver.as_token.clone(),
        }
    }

    fn full_id(&self, username: &Username) -> String {
        format!("@{}:{}", username.as_str(), self.server)
    }

    /// One request, in somebody's name or in our own.
    async fn ask(&self, method: Method, path: &str, user: Option<&Username>, body: Value) -> Asked {
        let name = user.map(|user| format!("?user_id={}", encoded(&self.full_id(user)))).unwrap_or_default();
        let url = format!("{}/_matrix/client/v3/{path}{name}", self.url);
        let mut again = true;
        loop {
            let body = if method == Method::GET { Vec::new() } else { body.to_string().into_bytes() };
            let request = Request::builder()
                .method(&method)
                .uri(&url)
                .header(AUTHORIZATION, format!("Bearer {}", self.token.reveal()))
                .header(CONTENT_TYPE, "application/json")
                .body(Full::new(Cursor::new(body)))
                .map_err(|_| ChatError::Unavailable("its address is not usable".into()))?;
            match timeout(TIMEOUT, self.answered(request)).await {
                Err(_) => {
                    let patience = format!("no answer within {} s", TIMEOUT.as_secs());
                    return Err(ChatError::Unavailable(patience));
                }
                // A connection that had gone stale. Everything that we ask can be asked twice.
                Ok(None) if again => again = false,
                Ok(None) => return Err(ChatError::Unavailable("it cannot be reached".into())),
                Ok(Some((StatusCode::OK, body))) => return Ok(Ok(body)),
                Ok(Some((status, body))) => {
                    let code = body["errcode"].as_str().unwrap_or_default().to_owned();
                    return Ok(Err(Refusal { status, code }));
                }
            }
        }
    }

    /// `None` where there is no whole answer.
    async fn answered(&self, request: Request<Body>) -> Option<(StatusCode, Value)> {
        let response = self.client.as_ref()?.request(request).await.ok()?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_BYTES).collect().await.ok()?;
        Some((status, serde_json::from_slice(&body.to_bytes()).unwrap_or_default()))
    }

    /// Makes a user; false where there is one of that name.
    async fn register(&self, username: &Username) -> Result<bool, ChatError> {
        let body =
            json!({ "type": APPLICATION_SERVICE, "username": username.as_str(), "inhibit_login": true });
        match self.ask(Method::POST, "register", None, body).await? {
            Ok(_) => Ok(true),
            Err(refusal) if refusal.is("M_USER_IN_USE") => Ok(false),
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// One request in a user's name, who is made where the homeserver does not know them yet.
    async fn ask_as(&self, user: &Username, method: Method, path: &str, body: Value) -> Asked {
        match self.ask(method.clone(), path, Some(user), body.clone()).await? {
            Err(refusal) if refusal.may_be_about_the_user() => {
                if self.register(user).await? {
                    self.ask(method, path, Some(user), body).await
                } else {
                    Ok(Err(refusal))
                }
            }
            answer => Ok(answer),
        }
    }

    /// As [`Self::ask_as`], where only success matters.
    async fn tell_as(
        &self,
        user: &Username,
        method: Method,
        path: &str,
        body: Value,
    ) -> Result<(), ChatError> {
        self.ask_as(user, method, path, body).await?.map(|_| ()).map_err(ChatError::from)
    }

    async fn credentials(&self, username: &Username, device_id: &str) -> Result<Credentials, ChatError> {
        let body = json!({
            "type": APPLICATION_SERVICE,
            "identifier": { "type": "m.id.user", "user": username.as_str() },
            "device_id": device_id,
        });
        let mut answer = self.ask(Method::POST, "login", None, body.clone()).await?;
        if let Err(refusal) = &answer
            && refusal.may_be_about_the_user()
            && self.register(username).await?
        {
            answer = self.ask(Method::POST, "login", None, body).await?;
        }
        let answer = answer?;
        let text = |field: &str| answer[field].as_str().map(str::to_owned);
        text("user_id")
            .zip(text("access_token"))
            .zip(text("device_id"))
            .map(|((user_id, access_token), device_id)| Credentials { user_id, access_token, device_id })
            .ok_or_else(|| ChatError::Unavailable("its answer to a login makes no sense".into()))
    }

    /// Makes a room under an alias of its own, or finds it where an earlier try made it.
    async fn make(&self, creator: Option<&Username>, alias: &str, room: Value) -> Result<RoomId, ChatError> {
        let mut body = room;
        body["room_alias_name"] = alias.into();
        body["room_version"] = ROOM_VERSION.into();
        let made = match creator {
            Some(creator) => self.ask_as(creator, Method::POST, "createRoom", body).await,
            None => self.ask(Method::POST, "createRoom", None, body).await,
        };
        let made = match made {
            Ok(Ok(answer)) => room_id(&answer),
            Ok(Err(refusal)) if refusal.is("M_ROOM_IN_USE") => self.under_alias(creator, alias).await,
            Ok(Err(refusal)) => Err(refusal.into()),
            // The answer may be all that was lost.
            Err(error) => self.under_alias(creator, alias).await.map_err(|_| error),
        };
        made.map_err(not_now)
    }

    /// The room that an earlier try made. The alias comes first of all, and the name among the last things:
    /// a room without one is still being made.
    async fn under_alias(&self, creator: Option<&Username>, alias: &str) -> Result<RoomId, ChatError> {
        let alias = format!("#{alias}:{}", self.server);
        let path = format!("directory/room/{}", encoded(&alias));
        let id = room_id(&self.ask(Method::GET, &path, None, Value::Null).await??)?;
        let path = format!("rooms/{}/state/m.room.name", encoded(id.as_str()));
        match self.ask(Method::GET, &path, creator, Value::Null).await? {
            Ok(_) => Ok(id),
            Err(_) => Err(ChatError::Unavailable("the room is still being made".into())),
        }
    }
}

/// A refusal that is about no room: whoever asked can do nothing about it but ask again.
fn not_now(error: ChatError) -> ChatError {
    match error {
        ChatError::Forbidden | ChatError::NotFound => ChatError::Unavailable("it does not do it".into()),
        error => error,
    }
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

fn room_id(answer: &Value) -> Result<RoomId, ChatError> {
    let id = answer["room_id"].as_str().and_then(RoomId::parse);
    id.ok_or_else(|| ChatError::Unavailable("its answer names no room".into()))
}

impl Chat for MatrixChat {
    fn log_in<'a>(
        &'a self,
        username: &'a Username,
        device_id: &'a str,
    ) -> Answer<'a, Result<Credentials, ChatError>> {
        // A first login asks three times; somebody waits for all of it.
        let in_time = timeout(TIMEOUT, self.credentials(username, device_id));
        Box::pin(async {
            let late = |_| ChatError::Unavailable("it takes too long".into());
            match in_time.await.map_err(late)? {
                Err(ChatError::Forbidden | ChatError::NotFound) => {
                    Err(ChatError::Unavailable("it does not let the user in".into()))
                }
                result => result,
            }
        })
    }

    fn log_out<'a>(
        &'a self,
        username: &'a Username,
        device_id: &'a str,
    ) -> Answer<'a, Result<(), ChatError>> {
        Box::pin(async move {
            let path = format!("devices/{}", encoded(device_id));
            match self.ask(Method::DELETE, &path, Some(username), json!({})).await? {
                // Nobody there of that name: no device either.
                Err(refusal) if refusal.may_be_about_the_user() => Ok(()),
                answer => answer.map(|_| ()).map_err(ChatError::from),
            }
        })
    }

    fn forget<'a>(&'a self, username: &'a Username) -> Answer<'a, Result<(), ChatError>> {
        Box::pin(async move {
            match self.ask(Method::POST, "logout/all", Some(username), json!({})).await? {
                Err(refusal) if refusal.may_be_about_the_user() => Ok(()),
                answer => answer.map(|_| ()).map_err(ChatError::from),
            }
        })
    }

    fn introduce<'a>(&'a self, username: &'a Username) -> Answer<'a, Result<(), ChatError>> {
        Box::pin(async move { self.register(username).await.map(|_| ()).map_err(not_now) })
    }

    fn match_room<'a>(&'a self, event: u32, name: &'a str) -> Answer<'a, Result<RoomId, ChatError>> {
        Box::pin(async move {
            let room = json!({ "name": name, "preset": "public_chat", "visibility": "public" });
            self.make(None, &format!("touchline-match-{event}"), room).await
        })
    }

    fn create_room<'a>(&'a self, new: NewRoom<'a>) -> Answer<'a, Result<RoomId, ChatError>> {
        Box::pin(async move {
            let mut room = if new.is_private {
                let encryption = json!({
                    "type": "m.room.encryption",
                    "state_key": "",
                    "content": { "algorithm": "m.megolm.v1.aes-sha2" },
                });
                json!({ "preset": "private_chat", "visibility": "private", "initial_state": [encryption] })
            } else {
                json!({ "preset": "public_chat", "visibility": "public" })
            };
            room["name"] = new.name.into();
            if !new.topic.is_empty() {
                room["topic"] = new.topic.into();
            }
            // Every member may invite, as in the app.
            room["power_level_content_override"] = json!({ "invite": 0 });
            self.make(Some(new.creator), &format!("touchline-{}", new.nonce), room).await
        })
    }

    fn join<'a>(
        &'a self,
        room: &'a Room,
        username: &'a Username,
        _: bool,
    ) -> Answer<'a, Result<(), ChatError>> {
        Box::pin(async move {
            let path = format!("join/{}", encoded(room.room_id.as_str()));
            self.tell_as(username, Method::POST, &path, json!({})).await
        })
    }

    fn leave<'a>(&'a self, room: &'a RoomId, username: &'a Username) -> Answer<'a, Result<(), ChatError>> {
        Box::pin(async move {
            let path = format!("rooms/{}/leave", encoded(room.as_str()));
            self.tell_as(username, Method::POST, &path, json!({})).await
        })
    }

    fn invite<'a>(
        &'a self,
        room: &'a RoomId,
        by: &'a Username,
        whom: &'a Username,
    ) -> Answer<'a, Result<(), ChatError>> {
        Box::pin(async move {
            self.register(whom).await?;
            let path = format!("rooms/{}/invite", encoded(room.as_str()));
            self.tell_as(by, Method::POST, &path, json!({ "user_id": self.full_id(whom) })).await
        })
    }
}
