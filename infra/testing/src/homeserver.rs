use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{Method, StatusCode, Uri};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use touchline::domain::room::StreamPosition;

/// Returns the position of an event that the homeserver sends after all earlier ones.
pub fn next_position() -> StreamPosition {
    static EVENTS: AtomicU64 = AtomicU64::new(1);
    StreamPosition(EVENTS.fetch_add(1, Ordering::Relaxed))
}

/// A fake homeserver with the endpoints for the rooms of matches and for devices: create a room, find a room by its alias,
/// read and set a room's name, join, invite and leave, log in and out, and delete an account. It also stores the account data of users. Set `CHAT_HOMESERVER_URL` and
/// `CHAT_AS_TOKEN` to connect a [`crate::TestApp`] to it.
#[derive(Debug, Clone)]
pub struct HomeserverStandIn {
    url: String,
    state: Arc<Mutex<Homeserver>>,
}

#[derive(Debug, Default)]
struct Homeserver {
    is_down: bool,
    /// Room ids by alias.
    aliases: BTreeMap<String, String>,
    /// Names by room id.
    names: BTreeMap<String, String>,
    /// The account data of users, by path.
    account_data: BTreeMap<String, Value>,
    requests: Vec<String>,
    hook: Option<Hook>,
}

/// A function that is called with each request.
struct Hook(Box<dyn FnMut(&str) + Send>);

impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hook")
    }
}

impl HomeserverStandIn {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
        let url = format!("http://{}", listener.local_addr().expect("the listener has an address"));
        let state = Arc::new(Mutex::new(Homeserver::default()));
        let router = Router::new().fallback(respond).with_state(Arc::clone(&state));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, state }
    }

    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Makes every request fail with 503 if `is_down` is true, and lets requests succeed again if it is
    /// false.
    pub fn set_down(&self, is_down: bool) {
        self.with(|homeserver| homeserver.is_down = is_down);
    }

    /// Calls `hook` with each request, such as `POST createRoom`, before the response. Tests use this to let time pass, or to
    /// notice that a request has arrived.
    pub fn on_request(&self, hook: impl FnMut(&str) + Send + 'static) {
        self.with(|homeserver| homeserver.hook = Some(Hook(Box::new(hook))));
    }

    /// Returns the name of a room, or `None` if the room does not exist.
    #[must_use]
    pub fn name(&self, room: &str) -> Option<String> {
        self.with(|homeserver| homeserver.names.get(room).cloned())
    }

    /// Changes a room's name. Tests use this to simulate a name that an older version of the service set.
    pub fn set_name(&self, room: &str, name: &str) {
        self.with(|homeserver| homeserver.names.insert(room.to_owned(), name.to_owned()));
    }

    /// Returns the account data of a user, such as `m.ignored_user_list`. It is null if there is none.
    #[must_use]
    pub fn account_data(&self, user: &str, kind: &str) -> Value {
        let path = account_data_path(user, kind);
        self.with(|homeserver| homeserver.account_data.get(&path).cloned().unwrap_or_default())
    }

    /// Sets the account data of a user, as a Matrix client does.
    pub fn set_account_data(&self, user: &str, kind: &str, data: Value) {
        self.with(|homeserver| homeserver.account_data.insert(account_data_path(user, kind), data));
    }

    /// Deletes a room, but not its alias.
    pub fn delete(&self, room: &str) {
        self.with(|homeserver| homeserver.names.remove(room));
    }

    /// Returns the requests since the last call of this method, such as `PUT rooms/!a:b/state/m.room.name`.
    #[must_use]
    pub fn take_requests(&self) -> Vec<String> {
        self.with(|homeserver| std::mem::take(&mut homeserver.requests))
    }

    fn with<T>(&self, action: impl FnOnce(&mut Homeserver) -> T) -> T {
        action(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn account_data_path(user: &str, kind: &str) -> String {
    format!("user/{user}/account_data/{kind}")
}

async fn respond(
    State(state): State<Arc<Mutex<Homeserver>>>,
    method: Method,
    uri: Uri,
    body: Bytes,
) -> (StatusCode, String) {
    let path = percent_decode_str(uri.path()).decode_utf8_lossy().into_owned();
    let path = path.strip_prefix("/_matrix/client/v3/").unwrap_or_default();
    let body = serde_json::from_slice(&body).unwrap_or_default();
    let mut homeserver = state.lock().unwrap_or_else(PoisonError::into_inner);
    let mut request = format!("{method} {path}");
    // A user's account is the subject of this request, and only the query has it.
    if path == "account/deactivate" {
        let query = percent_decode_str(uri.query().unwrap_or_default()).decode_utf8_lossy();
        request = format!("{request} {}", query.strip_prefix("user_id=").unwrap_or_default());
    }
    if let Some(Hook(hook)) = &mut homeserver.hook {
        hook(&request);
    }
    homeserver.requests.push(request);
    let (status, body) = match homeserver.respond(&method, path, &body) {
        Ok(body) => (StatusCode::OK, body),
        Err((status, code)) => (status, json!({ "errcode": code })),
    };
    (status, body.to_string())
}

type ErrorCode = (StatusCode, &'static str);

const NOT_FOUND: ErrorCode = (StatusCode::NOT_FOUND, "M_NOT_FOUND");

impl Homeserver {
    fn respond(&mut self, method: &Method, path: &str, body: &Value) -> Result<Value, ErrorCode> {
        if self.is_down {
            return Err((StatusCode::SERVICE_UNAVAILABLE, "M_UNKNOWN"));
        }
        let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
        if path == "login" {
            let user = body["identifier"]["user"].as_str().unwrap_or_default();
            let id = format!("@{user}:touchline.local");
            return Ok(json!({ "user_id": id, "access_token": "token", "device_id": body["device_id"] }));
        }
        if ["register", "logout/all", "account/deactivate"].contains(&path) || path.starts_with("devices/") {
            return Ok(json!({}));
        }
        if path == "joined_rooms" {
            return Ok(json!({ "joined_rooms": [] }));
        }
        if path.starts_with("join/") || path.ends_with("/invite") || path.ends_with("/leave") {
            return Ok(json!({}));
        }
        if path == "createRoom" {
            let alias = text("room_alias_name");
            if self.aliases.contains_key(&alias) {
                return Err((StatusCode::BAD_REQUEST, "M_ROOM_IN_USE"));
            }
            let id = format!("!{alias}:touchline.local");
            self.names.insert(id.clone(), text("name"));
            self.aliases.insert(alias, id.clone());
            return Ok(json!({ "room_id": id }));
        }
        if let Some(alias) = path.strip_prefix("directory/room/#") {
            let alias = alias.split(':').next().unwrap_or_default();
            return Ok(json!({ "room_id": self.aliases.get(alias).ok_or(NOT_FOUND)? }));
        }
        if path.starts_with("user/") {
            if method == Method::PUT {
                self.account_data.insert(path.to_owned(), body.clone());
                return Ok(json!({}));
            }
            return self.account_data.get(path).cloned().ok_or(NOT_FOUND);
        }
        let room = path.strip_prefix("rooms/").and_then(|path| path.strip_suffix("/state/m.room.name"));
        let name = room.and_then(|room| self.names.get_mut(room)).ok_or(NOT_FOUND)?;
        if method == Method::PUT {
            *name = text("name");
            return Ok(json!({ "event_id": "$name" }));
        }
        Ok(json!({ "name": name }))
    }
}
