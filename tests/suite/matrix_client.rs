//! A user's Matrix client. If there is no real homeserver, the client itself pushes the Matrix events to our
//! API.

use chrono::TimeDelta;
use reqwest::{Client, Method};
use serde_json::{Value, json};
use touchline::ports::clock::{Clock as _, SystemClock};
use touchline_testing::{Response, User};

use crate::target::{HttpApi, read, unique_name};

#[derive(Debug)]
pub struct MatrixClient<'a>(pub &'a User<HttpApi>);

impl MatrixClient<'_> {
    pub async fn joins(&self, room: &str) {
        if HttpApi::homeserver_url().is_some() {
            self.post(&format!("join/{}", encoded(room)), &json!({})).await.expect(200);
        } else {
            self.pushes(room, "m.room.member", json!({ "membership": "join" })).await;
        }
    }

    pub async fn leaves(&self, room: &str) {
        if HttpApi::homeserver_url().is_some() {
            self.post(&format!("rooms/{}/leave", encoded(room)), &json!({})).await.expect(200);
        } else {
            self.pushes(room, "m.room.member", json!({ "membership": "leave" })).await;
        }
    }

    /// Sends a message to a room.
    pub async fn writes(&self, room: &str, text: &str) {
        let message = json!({ "msgtype": "m.text", "body": text });
        if HttpApi::homeserver_url().is_some() {
            let path = format!("rooms/{}/send/m.room.message/{}", encoded(room), unique_name());
            self.request(Method::PUT, &path, Some(&message)).await.expect(200);
        } else {
            self.pushes(room, "m.room.message", message).await;
        }
    }

    pub async fn get(&self, path: &str) -> Response {
        self.request(Method::GET, path, None).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Response {
        self.request(Method::POST, path, Some(body)).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Response {
        self.request(Method::PUT, path, Some(body)).await
    }

    /// Sends a request to the homeserver's client API.
    async fn request(&self, method: Method, path: &str, body: Option<&Value>) -> Response {
        let base =
            HttpApi::homeserver_url().expect("this test needs a homeserver: run tests/real-components");
        let token = self.0.credentials["access_token"].as_str().expect("the login returned chat credentials");
        let mut http = Client::new().request(method.clone(), format!("{base}/_matrix/client/v3/{path}"));
        if let Some(body) = body {
            http = http.json(body);
        }
        read(format!("{method} {path}"), http.bearer_auth(token)).await
    }

    async fn pushes(&self, room: &str, kind: &str, content: Value) {
        let event = json!({
            "type": kind, "room_id": room, "sender": self.0.chat_id(), "state_key": self.0.chat_id(),
            "content": content,
            // This time is after every request of the test so far. The API ignores a membership event that is
            // older than the last change of the membership.
            "origin_server_ts": (SystemClock.now() + TimeDelta::seconds(2)).timestamp_millis(),
        });
        self.0.api().homeserver().pushes(&unique_name(), [event]).await.expect(200);
    }
}

fn encoded(room: &str) -> String {
    room.replace('!', "%21").replace(':', "%3A")
}
