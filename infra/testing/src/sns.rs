use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::extract::{self, Form};
use axum::http::StatusCode;
use tokio::net::TcpListener;

/// What the stand-in answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    Takes,
    Refuses,
    Throttles(u32),
}

/// The fields of a request, as the SDK sent them.
type Message = HashMap<String, String>;

#[derive(Debug)]
struct State {
    mood: Mood,
    messages: Vec<Message>,
}

/// Stands in for SNS behind the real SDK: keeps the messages, and refuses them when told to.
#[derive(Debug, Clone)]
pub struct SnsStandIn {
    url: String,
    state: Arc<Mutex<State>>,
}

impl SnsStandIn {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let state = Arc::new(Mutex::new(State { mood: Mood::Takes, messages: Vec::new() }));
        let stand_in = Self { url, state };
        let router = Router::new().fallback(publish).with_state(stand_in.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        stand_in
    }

    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// From now on every message is refused.
    pub fn refuse(&self) {
        self.lock().mood = Mood::Refuses;
    }

    /// The next `times` requests are throttled.
    pub fn throttle(&self, times: u32) {
        self.lock().mood = Mood::Throttles(times);
    }

    pub fn accept(&self) {
        self.lock().mood = Mood::Takes;
    }

    /// The messages taken so far, as the fields that the SDK sent.
    #[must_use]
    pub fn messages(&self) -> Vec<Message> {
        self.lock().messages.clone()
    }

    /// The code in the last message to a phone.
    #[must_use]
    pub fn last_code(&self, phone: &str) -> String {
        let messages = self.messages();
        let message = messages
            .iter()
            .rev()
            .find(|message| message.get("PhoneNumber").is_some_and(|to| to == phone))
            .expect("a message to the phone");
        message["Message"]
            .split(|c: char| !c.is_ascii_digit())
            .find(|word| word.len() == 6)
            .expect("a code")
            .to_owned()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics while it holds the messages")
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
             <Message>refused for {}</Message></Error><RequestId>r</RequestId></ErrorResponse>",
            fields.get("PhoneNumber").map_or("", String::as_str)
        )
    };
    let mut state = sns.lock();
    match state.mood {
        Mood::Refuses => (StatusCode::BAD_REQUEST, error("OptedOut")),
        Mood::Throttles(left) => {
            state.mood = if left <= 1 { Mood::Takes } else { Mood::Throttles(left - 1) };
            (StatusCode::BAD_REQUEST, error("Throttled"))
        }
        Mood::Takes => {
            state.messages.push(fields);
            let body = format!(
                "<PublishResponse xmlns=\"{NS}\"><PublishResult><MessageId>m</MessageId></PublishResult>\
                 <ResponseMetadata><RequestId>r</RequestId></ResponseMetadata></PublishResponse>"
            );
            (StatusCode::OK, body)
        }
    }
}
