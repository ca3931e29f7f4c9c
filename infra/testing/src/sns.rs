use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::extract::{self, Form};
use axum::http::StatusCode;
use tokio::net::TcpListener;

/// How the stand-in responds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Accept,
    Reject,
    /// Throttle this many requests, then accept.
    Throttle(u32),
}

/// The fields of a request, as the SDK sent them.
type Message = HashMap<String, String>;

#[derive(Debug)]
struct State {
    mode: Mode,
    messages: Vec<Message>,
}

/// A server that replaces SNS in tests. The code under test calls it through the real SDK. It stores the
/// messages that it accepts. A test can make it reject or throttle messages.
#[derive(Debug, Clone)]
pub struct SnsStandIn {
    url: String,
    state: Arc<Mutex<State>>,
}

impl SnsStandIn {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
        let url = format!("http://{}", listener.local_addr().expect("the listener has an address"));
        let state = Arc::new(Mutex::new(State { mode: Mode::Accept, messages: Vec::new() }));
        let stand_in = Self { url, state };
        let router = Router::new().fallback(publish).with_state(stand_in.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        stand_in
    }

    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Rejects every message from now on.
    pub fn reject(&self) {
        self.lock().mode = Mode::Reject;
    }

    /// Throttles the next `times` requests and accepts those after them.
    pub fn throttle(&self, times: u32) {
        self.lock().mode = Mode::Throttle(times);
    }

    /// Accepts every message from now on. This is the initial mode.
    pub fn accept(&self) {
        self.lock().mode = Mode::Accept;
    }

    /// Returns the accepted messages. Each one maps the parameter names of the SDK's request to their values.
    #[must_use]
    pub fn messages(&self) -> Vec<Message> {
        self.lock().messages.clone()
    }

    /// Returns the code in the last message to a phone.
    #[must_use]
    pub fn last_code(&self, phone: &str) -> String {
        let messages = self.messages();
        let message = messages
            .iter()
            .rev()
            .find(|message| message.get("PhoneNumber").is_some_and(|to| to == phone))
            .unwrap_or_else(|| panic!("no message was sent to {phone}"));
        message["Message"]
            .split(|c: char| !c.is_ascii_digit())
            .find(|word| word.len() == 6)
            .expect("the message has a code")
            .to_owned()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the lock is not poisoned")
    }
}

async fn publish(
    extract::State(sns): extract::State<SnsStandIn>,
    Form(fields): Form<Message>,
) -> (StatusCode, String) {
    const NS: &str = "http://sns.amazonaws.com/doc/2010-03-31/";
    let error = |code: &str| {
        format!(
            "<ErrorResponse xmlns=\"{NS}\"><Error><Type>Sender</Type><Code>{code}</Code>\
             <Message>rejected for {}</Message></Error><RequestId>r</RequestId></ErrorResponse>",
            fields.get("PhoneNumber").map_or("", String::as_str)
        )
    };
    let mut state = sns.lock();
    match state.mode {
        Mode::Reject => (StatusCode::BAD_REQUEST, error("OptedOut")),
        Mode::Throttle(left) => {
            state.mode = if left <= 1 { Mode::Accept } else { Mode::Throttle(left - 1) };
            (StatusCode::BAD_REQUEST, error("Throttled"))
        }
        Mode::Accept => {
            state.messages.push(fields);
            let body = format!(
                "<PublishResponse xmlns=\"{NS}\"><PublishResult><MessageId>m</MessageId></PublishResult>\
                 <ResponseMetadata><RequestId>r</RequestId></ResponseMetadata></PublishResponse>"
            );
            (StatusCode::OK, body)
        }
    }
}
