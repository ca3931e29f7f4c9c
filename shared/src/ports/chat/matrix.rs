//! A Matrix homeserver, through the client-server API. All requests use our application service's token. A
//! request on behalf of a user names the user in `?user_id=`.

use std::fmt;
use std::io::Cursor;
use std::time::Duration;

use futures_util::future::BoxFuture;
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

use super::{Chat, ChatError, Closed, NewRoom};
use crate::config::{Homeserver, Secret};
use crate::domain::chat::Credentials;
use crate::domain::room::{Room, RoomId};
use crate::domain::{Username, digest};
use crate::ports::web::connector;

/// The maximum size of a response. Most responses that we need are small. A page of messages can have 6.5 MB.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// The Matrix room version of new rooms: the last version whose room ids end in `:server`, as our API
/// promises.
const ROOM_VERSION: &str = "11";

/// The most messages of a user that Synapse deletes in each room.
const MOST_MESSAGES: u32 = 1_000_000;

/// How many messages of a user are deleted in one call.
const REDACTIONS: usize = 200;

/// The number of messages in a page. A message has at most 64 KB, so that a page is smaller than [`MAX_BYTES`].
const PAGE: usize = 100;

/// How many pages of messages are read in one call.
const PAGES: usize = 300;

/// Which messages of a user were deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Redacted {
    All,
    /// Messages are left that Synapse's admin API can delete.
    MessagesLeft,
    /// Others are left, such as reactions, or not all pages were read.
    OthersLeft,
}

type Body = Full<Cursor<Vec<u8>>>;

const APPLICATION_SERVICE: &str = "m.login.application_service";

/// A homeserver on which we are registered as an application service.
pub struct MatrixChat {
    /// `None` if the system has no root certificates. Then every request fails.
    client: Option<Client<HttpsConnector<HttpConnector>, Body>>,
    url: String,
    server: String,
    token: Secret,
    /// The token of an administrator of a Synapse, to delete rooms.
    admin_token: Option<Secret>,
    timeout: Duration,
}

impl fmt::Debug for MatrixChat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MatrixChat({}, {})", self.url, self.server)
    }
}

/// An error response of the homeserver.
#[derive(Debug)]
struct ErrorResponse {
    status: StatusCode,
    code: String,
}

impl ErrorResponse {
    fn is(&self, code: &str) -> bool {
        self.code == code
    }

    /// Returns whether the error may mean that the user does not exist on the homeserver.
    fn may_mean_unknown_user(&self) -> bool {
        self.status == StatusCode::FORBIDDEN || self.status == StatusCode::NOT_FOUND
    }
}

impl From<ErrorResponse> for ChatError {
    fn from(response: ErrorResponse) -> Self {
        match response.status {
            _ if response.is("M_APPSERVICE_LOGIN_UNSUPPORTED") => Self::LoginUnsupported,
            StatusCode::FORBIDDEN => Self::Forbidden,
            StatusCode::NOT_FOUND => Self::NotFound,
            StatusCode::UNAUTHORIZED => Self::Unavailable("the homeserver rejects our token".into()),
            status => Self::Unavailable(format!("status {} {}", status.as_u16(), response.code)),
        }
    }
}

/// The inner result is the homeserver's response: the body, or an error response. The outer error says why
/// there is no response.
type Response = Result<Result<Value, ErrorResponse>, ChatError>;

impl MatrixChat {
    /// Creates a client of `homeserver`, whose server name is `server`.
    #[must_use]
    pub fn new(homeserver: &Homeserver, server: &str) -> Self {
        Self {
            client: connector().map(|connector| Client::builder(TokioExecutor::new()).build(connector)),
            url: homeserver.url.trim_end_matches('/').to_owned(),
            server: server.to_owned(),
            token: homeserver.as_token.clone(),
            admin_token: homeserver.admin_token.clone(),
            timeout: homeserver.timeout,
        }
    }

    fn full_id(&self, username: &Username) -> String {
        format!("@{}:{}", username.as_str(), self.server)
    }

    /// Sends a request on behalf of `user`, or of the application service itself if `user` is `None`.
    async fn request(&self, method: Method, path: &str, user: Option<&Username>, body: Value) -> Response {
        let separator = if path.contains('?') { '&' } else { '?' };
        let query = user.map(|user| format!("{separator}user_id={}", encoded(&self.full_id(user))));
        let url = format!("{}/_matrix/client/v3/{path}{}", self.url, query.unwrap_or_default());
        self.send(&method, &url, &self.token, &body).await
    }

    /// Sends a request with a token.
    async fn send(&self, method: &Method, url: &str, token: &Secret, body: &Value) -> Response {
        let mut can_retry = true;
        loop {
            let body = if method == Method::GET { Vec::new() } else { body.to_string().into_bytes() };
            let request = Request::builder()
                .method(method)
                .uri(url)
                .header(AUTHORIZATION, format!("Bearer {}", token.reveal()))
                .header(CONTENT_TYPE, "application/json")
                .body(Full::new(Cursor::new(body)))
                .map_err(|_| ChatError::Unavailable("the homeserver's URL is invalid".into()))?;
            match timeout(self.timeout, self.exchange(request)).await {
                Err(_) => {
                    let reason = format!("no response within {} s", self.timeout.as_secs());
                    return Err(ChatError::Unavailable(reason));
                }
                // The pooled connection may have been stale. A retry is safe, because all requests are
                // idempotent.
                Ok(None) if can_retry => can_retry = false,
                Ok(None) => return Err(ChatError::Unavailable("the homeserver is unreachable".into())),
                Ok(Some((StatusCode::OK, body))) => return Ok(Ok(body)),
                Ok(Some((status, body))) => {
                    let code = body["errcode"].as_str().unwrap_or_default().to_owned();
                    return Ok(Err(ErrorResponse { status, code }));
                }
            }
        }
    }

    /// Sends a request and returns the status and the body of the response. Returns `None` if no complete
    /// response arrives.
    async fn exchange(&self, request: Request<Body>) -> Option<(StatusCode, Value)> {
        let response = self.client.as_ref()?.request(request).await.ok()?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_BYTES).collect().await.ok()?;
        Some((status, serde_json::from_slice(&body.to_bytes()).unwrap_or_default()))
    }

    /// Creates a user on the homeserver. Returns false if the user exists already.
    async fn register(&self, username: &Username) -> Result<bool, ChatError> {
        let body =
            json!({ "type": APPLICATION_SERVICE, "username": username.as_str(), "inhibit_login": true });
        match self.request(Method::POST, "register", None, body).await? {
            Ok(_) => Ok(true),
            Err(error) if error.is("M_USER_IN_USE") => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends a request on behalf of a user. If the user does not exist on the homeserver, creates the user
    /// and retries.
    async fn request_as(&self, user: &Username, method: Method, path: &str, body: Value) -> Response {
        match self.request(method.clone(), path, Some(user), body.clone()).await? {
            Err(error) if error.may_mean_unknown_user() => {
                if self.register(user).await? {
                    self.request(method, path, Some(user), body).await
                } else {
                    Ok(Err(error))
                }
            }
            response => Ok(response),
        }
    }

    /// Does the same as [`Self::request_as`], but ignores the body of the response.
    async fn send_as(
        &self,
        user: &Username,
        method: Method,
        path: &str,
        body: Value,
    ) -> Result<(), ChatError> {
        self.request_as(user, method, path, body).await?.map(|_| ()).map_err(ChatError::from)
    }

    async fn credentials(&self, username: &Username, device_id: &str) -> Result<Credentials, ChatError> {
        let body = json!({
            "type": APPLICATION_SERVICE,
            "identifier": { "type": "m.id.user", "user": username.as_str() },
            "device_id": device_id,
        });
        let mut response = self.request(Method::POST, "login", None, body.clone()).await?;
        if let Err(error) = &response
            && error.may_mean_unknown_user()
            && self.register(username).await?
        {
            response = self.request(Method::POST, "login", None, body).await?;
        }
        let response = response?;
        let text = |field: &str| response[field].as_str().map(str::to_owned);
        text("user_id")
            .zip(text("access_token"))
            .zip(text("device_id"))
            .map(|((user_id, access_token), device_id)| Credentials {
                user_id,
                access_token,
                device_id,
                homeserver_url: Some(self.url.clone()),
            })
            .ok_or_else(|| ChatError::Unavailable("the login response is malformed".into()))
    }

    /// Creates a room with an alias. If an earlier attempt created the room, returns the id of that room.
    async fn create(
        &self,
        creator: Option<&Username>,
        alias: &str,
        name: &str,
        room: Value,
    ) -> Result<RoomId, ChatError> {
        let mut body = room;
        body["name"] = name.into();
        body["room_alias_name"] = alias.into();
        body["room_version"] = ROOM_VERSION.into();
        let response = match creator {
            Some(creator) => self.request_as(creator, Method::POST, "createRoom", body).await,
            None => self.request(Method::POST, "createRoom", None, body).await,
        };
        let created = match response {
            Ok(Ok(response)) => room_id(&response),
            Ok(Err(error)) if error.is("M_ROOM_IN_USE") => self.room_with_alias(creator, alias, name).await,
            Ok(Err(error)) => Err(error.into()),
            // The homeserver may have created the room although its response was lost.
            Err(error) => self.room_with_alias(creator, alias, name).await.map_err(|_| error),
        };
        created.map_err(unavailable)
    }

    /// Finds the room that an earlier attempt created, by its alias. Renames the room if its name is not
    /// `name`.
    ///
    /// Fails if the room has no name. The homeserver sets the alias of a new room before the name, so such a
    /// room is incomplete.
    async fn room_with_alias(
        &self,
        creator: Option<&Username>,
        alias: &str,
        name: &str,
    ) -> Result<RoomId, ChatError> {
        let alias = format!("#{alias}:{}", self.server);
        let path = format!("directory/room/{}", encoded(&alias));
        let id = room_id(&self.request(Method::GET, &path, None, Value::Null).await??)?;
        let Ok(state) = self.request(Method::GET, &name_path(&id), creator, Value::Null).await? else {
            return Err(ChatError::Unavailable("the room is still being created".into()));
        };
        if state["name"] != name {
            self.set_name(&id, creator, name).await?;
        }
        Ok(id)
    }

    /// Deletes a room with Synapse's admin API. Synapse removes the members in the background.
    async fn delete_room(&self, room: &RoomId, token: &Secret) -> Result<(), ChatError> {
        let url = format!("{}/_synapse/admin/v2/rooms/{}", self.url, encoded(room.as_str()));
        let body = json!({ "block": true, "purge": true });
        match self.send(&Method::DELETE, &url, token, &body).await? {
            // Synapse does not know the room, for example because it has deleted it already.
            Err(error) if error.status == StatusCode::NOT_FOUND => Ok(()),
            // An earlier request is still under way: "Purge already in progress".
            Err(error) if error.status == StatusCode::BAD_REQUEST => Ok(()),
            Err(error)
                if error.status == StatusCode::UNAUTHORIZED || error.status == StatusCode::FORBIDDEN =>
            {
                Err(ChatError::Unavailable("the homeserver rejects the admin token".into()))
            }
            response => response.map(|_| ()).map_err(ChatError::from),
        }
    }

    /// Makes a room invite-only, forbids messages and invitations, and removes the room from the homeserver's directory.
    async fn lock_room(&self, room: &RoomId, creator: &Username) -> Result<(), ChatError> {
        let id = encoded(room.as_str());
        // The creator may have left the room. They keep their power in it.
        self.send_as(creator, Method::POST, &format!("join/{id}"), json!({})).await?;
        let levels = format!("rooms/{id}/state/m.room.power_levels");
        let mut power = self.request(Method::GET, &levels, Some(creator), Value::Null).await??;
        for action in ["invite", "events_default"] {
            power[action] = 100.into();
        }
        self.send_as(creator, Method::PUT, &levels, power).await?;
        let rules = format!("rooms/{id}/state/m.room.join_rules");
        self.send_as(creator, Method::PUT, &rules, json!({ "join_rule": "invite" })).await?;
        let listing = format!("directory/list/room/{id}");
        self.send_as(creator, Method::PUT, &listing, json!({ "visibility": "private" })).await?;
        let aliases = format!("rooms/{id}/aliases");
        let aliases = self.request(Method::GET, &aliases, Some(creator), Value::Null).await??;
        for alias in aliases["aliases"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let path = format!("directory/room/{}", encoded(alias));
            match self.request(Method::DELETE, &path, Some(creator), json!({})).await? {
                Err(error) if error.status != StatusCode::NOT_FOUND => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }

    async fn kick_id(&self, room: &RoomId, creator: &Username, whom: &str) -> Result<(), ChatError> {
        let path = format!("rooms/{}/kick", encoded(room.as_str()));
        let body = json!({ "user_id": whom, "reason": "This room was removed." });
        match self.request(Method::POST, &path, Some(creator), body).await? {
            // The homeserver forbids to kick a user who is not in the room.
            Err(error) if error.status == StatusCode::FORBIDDEN => Ok(()),
            response => response.map(|_| ()).map_err(ChatError::from),
        }
    }

    /// Lets Synapse delete all messages of a user in the background, with its admin API.
    async fn redact_as_admin(&self, username: &Username, token: &Secret) -> Result<(), ChatError> {
        let user = encoded(&self.full_id(username));
        let url = format!("{}/_synapse/admin/v1/user/{user}/redact", self.url);
        // An empty list means all rooms.
        let body = json!({ "rooms": [], "limit": MOST_MESSAGES });
        match self.send(&Method::POST, &url, token, &body).await? {
            // An earlier request is still under way: "Redact already in progress". Or the homeserver lacks this API.
            Err(error) if [StatusCode::BAD_REQUEST, StatusCode::NOT_FOUND].contains(&error.status) => Ok(()),
            response => response.map(|_| ()).map_err(ChatError::from),
        }
    }

    /// Deletes the messages of a user in all rooms that they have joined, on their own behalf, but not more than fit into one
    /// call.
    async fn redact_own(&self, username: &Username) -> Result<Redacted, ChatError> {
        let joined = match self.request(Method::GET, "joined_rooms", Some(username), Value::Null).await? {
            // The user does not exist on the homeserver, or the account is deleted already.
            Err(error) if error.may_mean_unknown_user() => return Ok(Redacted::All),
            response => response?,
        };
        let (mut redactions, mut pages) = (REDACTIONS, PAGES);
        for room in joined["joined_rooms"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            match self.redact_in(room, username, &mut redactions, &mut pages).await? {
                Redacted::All => {}
                part => return Ok(part),
            }
        }
        Ok(Redacted::All)
    }

    /// Deletes messages of a user in a room. Reads at most `pages` pages and deletes at most `redactions` messages.
    async fn redact_in(
        &self,
        room: &str,
        username: &Username,
        redactions: &mut usize,
        pages: &mut usize,
    ) -> Result<Redacted, ChatError> {
        let room = encoded(room);
        let filter = json!({
            "senders": [self.full_id(username)], "not_types": ["m.room.redaction", "m.room.member"],
        });
        let filter = encoded(&filter.to_string());
        let mut from = String::new();
        while *pages > 0 {
            *pages -= 1;
            let path = format!("rooms/{room}/messages?dir=b&limit={PAGE}&filter={filter}{from}");
            let page = match self.request(Method::GET, &path, Some(username), Value::Null).await? {
                // The user is no longer in the room.
                Err(error) if error.may_mean_unknown_user() => return Ok(Redacted::All),
                response => response?,
            };
            for event in page["chunk"].as_array().into_iter().flatten().filter(|event| has_content(event)) {
                if *redactions == 0 {
                    let is_message = event["type"] == "m.room.message" || event["type"] == "m.room.encrypted";
                    return Ok(if is_message { Redacted::MessagesLeft } else { Redacted::OthersLeft });
                }
                *redactions -= 1;
                let id = event["event_id"].as_str().unwrap_or_default();
                // The same transaction id for each attempt, so that a message is redacted once.
                let path = format!("rooms/{room}/redact/{}/{}", encoded(id), digest(&[id]));
                match self.request(Method::PUT, &path, Some(username), json!({})).await? {
                    // The room forbids it, for example because the user was muted.
                    Err(error) if error.may_mean_unknown_user() => {}
                    response => {
                        response?;
                    }
                }
            }
            match page["end"].as_str() {
                Some(end) => from = format!("&from={}", encoded(end)),
                None => return Ok(Redacted::All),
            }
        }
        Ok(Redacted::OthersLeft)
    }

    /// Deletes a user's account with its devices, and makes them leave all rooms.
    async fn deactivate(&self, username: &Username) -> Result<(), ChatError> {
        let body = json!({ "erase": true });
        match self.request(Method::POST, "account/deactivate", Some(username), body).await? {
            // The user does not exist on the homeserver, or the account is deleted already.
            Err(error) if error.may_mean_unknown_user() => Ok(()),
            response => response.map(|_| ()).map_err(ChatError::from),
        }
    }

    async fn set_name(&self, room: &RoomId, user: Option<&Username>, name: &str) -> Result<(), ChatError> {
        let response = self.request(Method::PUT, &name_path(room), user, json!({ "name": name })).await?;
        response.map(|_| ()).map_err(ChatError::from)
    }
}

/// Returns the path of the Matrix state event that holds a room's name.
fn name_path(room: &RoomId) -> String {
    format!("rooms/{}/state/m.room.name", encoded(room.as_str()))
}

/// Returns whether an event has content that can be deleted. State events, such as memberships, and redactions have none.
fn has_content(event: &Value) -> bool {
    let is_redacted = event["unsigned"]["redacted_because"].is_object();
    event["state_key"].is_null() && event["type"] != "m.room.redaction" && !is_redacted
}

/// Turns errors that the caller cannot correct into [`ChatError::Unavailable`].
fn unavailable(error: ChatError) -> ChatError {
    match error {
        ChatError::Forbidden | ChatError::NotFound => {
            ChatError::Unavailable("the homeserver rejects the request".into())
        }
        error => error,
    }
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

fn room_id(response: &Value) -> Result<RoomId, ChatError> {
    let id = response["room_id"].as_str().and_then(RoomId::parse);
    id.ok_or_else(|| ChatError::Unavailable("the response has no room id".into()))
}

impl Chat for MatrixChat {
    fn log_in<'a>(
        &'a self,
        username: &'a Username,
        device_id: &'a str,
    ) -> BoxFuture<'a, Result<Credentials, ChatError>> {
        // A user's first login takes three requests. This limit covers all of them together.
        let credentials = timeout(self.timeout, self.credentials(username, device_id));
        Box::pin(async {
            let late = |_| ChatError::Unavailable("the login takes too long".into());
            match credentials.await.map_err(late)? {
                Err(ChatError::Forbidden | ChatError::NotFound) => {
                    Err(ChatError::Unavailable("the homeserver rejects the login".into()))
                }
                result => result,
            }
        })
    }

    fn log_out<'a>(
        &'a self,
        username: &'a Username,
        device_id: &'a str,
    ) -> BoxFuture<'a, Result<(), ChatError>> {
        Box::pin(async move {
            let path = format!("devices/{}", encoded(device_id));
            match self.request(Method::DELETE, &path, Some(username), json!({})).await? {
                // A user who does not exist on the homeserver has no device to delete.
                Err(error) if error.may_mean_unknown_user() => Ok(()),
                response => response.map(|_| ()).map_err(ChatError::from),
            }
        })
    }

    fn log_out_everywhere<'a>(&'a self, username: &'a Username) -> BoxFuture<'a, Result<(), ChatError>> {
        Box::pin(async move {
            match self.request(Method::POST, "logout/all", Some(username), json!({})).await? {
                Err(error) if error.may_mean_unknown_user() => Ok(()),
                response => response.map(|_| ()).map_err(ChatError::from),
            }
        })
    }

    fn erase_user<'a>(&'a self, username: &'a Username) -> BoxFuture<'a, Result<bool, ChatError>> {
        Box::pin(async move {
            // The user must not write any more messages.
            self.log_out_everywhere(username).await?;
            let redacted = self.redact_own(username).await?;
            // Synapse redacts all messages again each time, so it is asked only if there are many.
            if let (Redacted::MessagesLeft, Some(token)) = (redacted, &self.admin_token) {
                self.redact_as_admin(username, token).await?;
            }
            // A user who has left a room cannot delete messages in it, so the account goes last.
            if redacted == Redacted::All {
                self.deactivate(username).await?;
            }
            Ok(redacted == Redacted::All)
        })
    }

    fn update_ignored_users<'a>(
        &'a self,
        username: &'a Username,
        ignored: &'a [Username],
        others: &'a [Username],
    ) -> BoxFuture<'a, Result<(), ChatError>> {
        Box::pin(async move {
            let path = format!("user/{}/account_data/m.ignored_user_list", encoded(&self.full_id(username)));
            let mut list = match self.request(Method::GET, &path, Some(username), Value::Null).await? {
                // The user has ignored nobody yet, or does not exist on the homeserver yet.
                Err(error) if error.may_mean_unknown_user() => json!({}),
                response => response?,
            };
            let before = list.clone();
            if !list["ignored_users"].is_object() {
                list["ignored_users"] = json!({});
            }
            if let Some(users) = list["ignored_users"].as_object_mut() {
                for other in others {
                    users.remove(&self.full_id(other));
                }
                for user in ignored {
                    users.entry(self.full_id(user)).or_insert_with(|| json!({}));
                }
            }
            if list == before {
                return Ok(());
            }
            self.send_as(username, Method::PUT, &path, list).await
        })
    }

    fn has_rooms<'a>(&'a self, username: &'a Username) -> BoxFuture<'a, Result<bool, ChatError>> {
        Box::pin(async move {
            match self.request(Method::GET, "joined_rooms", Some(username), Value::Null).await? {
                Ok(response) => {
                    let rooms = response["joined_rooms"].as_array();
                    let missing = || ChatError::Unavailable("the response has no joined_rooms".into());
                    rooms.map(|rooms| !rooms.is_empty()).ok_or_else(missing)
                }
                Err(error) if error.may_mean_unknown_user() => Ok(false),
                Err(error) => Err(error.into()),
            }
        })
    }

    fn ensure_user<'a>(&'a self, username: &'a Username) -> BoxFuture<'a, Result<(), ChatError>> {
        Box::pin(async move { self.register(username).await.map(|_| ()).map_err(unavailable) })
    }

    fn match_room<'a>(&'a self, event: u32, name: &'a str) -> BoxFuture<'a, Result<RoomId, ChatError>> {
        Box::pin(async move {
            let room = json!({ "preset": "public_chat", "visibility": "public" });
            self.create(None, &format!("touchline-match-{event}"), name, room).await
        })
    }

    fn rename_match_room<'a>(
        &'a self,
        room: &'a RoomId,
        name: &'a str,
    ) -> BoxFuture<'a, Result<(), ChatError>> {
        Box::pin(self.set_name(room, None, name))
    }

    fn create_room<'a>(&'a self, new: NewRoom<'a>) -> BoxFuture<'a, Result<RoomId, ChatError>> {
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
            if !new.topic.is_empty() {
                room["topic"] = new.topic.into();
            }
            // In a room that a user creates, every member may invite others.
            room["power_level_content_override"] = json!({ "invite": 0 });
            self.create(Some(new.creator), &format!("touchline-{}", new.nonce), new.name, room).await
        })
    }

    fn join<'a>(
        &'a self,
        room: &'a Room,
        username: &'a Username,
        _: bool,
    ) -> BoxFuture<'a, Result<(), ChatError>> {
        Box::pin(async move {
            let path = format!("join/{}", encoded(room.room_id.as_str()));
            self.send_as(username, Method::POST, &path, json!({})).await
        })
    }

    fn close_room<'a>(
        &'a self,
        room: &'a RoomId,
        creator: Option<&'a Username>,
    ) -> BoxFuture<'a, Result<Closed, ChatError>> {
        Box::pin(async move {
            if let Some(token) = &self.admin_token {
                return self.delete_room(room, token).await.map(|()| Closed::Deleted);
            }
            self.lock_room(room, creator.ok_or(ChatError::Forbidden)?).await.map(|()| Closed::Locked)
        })
    }

    fn kick<'a>(
        &'a self,
        room: &'a RoomId,
        creator: &'a Username,
        whom: &'a Username,
    ) -> BoxFuture<'a, Result<(), ChatError>> {
        Box::pin(async move { self.kick_id(room, creator, &self.full_id(whom)).await })
    }

    fn kick_others<'a>(
        &'a self,
        room: &'a RoomId,
        creator: &'a Username,
    ) -> BoxFuture<'a, Result<(), ChatError>> {
        Box::pin(async move {
            let path = format!("rooms/{}/joined_members", encoded(room.as_str()));
            let members = self.request(Method::GET, &path, Some(creator), Value::Null).await??;
            let own = self.full_id(creator);
            for (member, _) in members["joined"].as_object().into_iter().flatten() {
                if *member != own {
                    self.kick_id(room, creator, member).await?;
                }
            }
            Ok(())
        })
    }

    fn leave<'a>(&'a self, room: &'a RoomId, username: &'a Username) -> BoxFuture<'a, Result<(), ChatError>> {
        Box::pin(async move {
            let path = format!("rooms/{}/leave", encoded(room.as_str()));
            self.send_as(username, Method::POST, &path, json!({})).await
        })
    }

    fn invite<'a>(
        &'a self,
        room: &'a RoomId,
        by: &'a Username,
        whom: &'a Username,
    ) -> BoxFuture<'a, Result<(), ChatError>> {
        Box::pin(async move {
            self.register(whom).await?;
            let path = format!("rooms/{}/invite", encoded(room.as_str()));
            self.send_as(by, Method::POST, &path, json!({ "user_id": self.full_id(whom) })).await
        })
    }
}
