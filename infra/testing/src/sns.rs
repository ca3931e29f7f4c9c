use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Form, State};
use axum::http::StatusCode;
use tokio::net::TcpListener;

/// What the stand-in answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    Takes,
    Refuses,
    Throttles(u32),
}

/// Stands in for SNS behind the real SDK: keeps the messages, and refuses them when told to.
#[derive(Debug, Clone)]
pub struct SnsStandIn {
    url: String,
    state: Arc<Mutex<(Mood, Vec<HashMap<String, String>>)>>,
}

impl SnsStandIn {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let state = Arc::new(Mutex::new((Mood::Takes, Vec::new())));
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
        self.lock().0 = Mood::Refuses;
    }

    /// The next `times` requests are throttled.
    pub fn throttle(&self, times: u32) {
        self.lock().0 = Mood::Throttles(times);
    }

    pub fn accept(&self) {
        self.lock().0 = Mood::Takes;
    }

    /// The messages taken so far, as the fields that the SDK sent.
    #[must_use]
    pub fn messages(&self) -> Vec<HashMap<String, String>> {
        self.lock().1.clone()
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

    fn lock(&self) -> std::sync::MutexGuard<'_, (Mood, Vec<HashMap<String, String>>)> {
        self.state.lock().expect("no test panics while it holds the messages")
    }
}

async fn publish(
    State(sns): State<SnsStandIn>,
    Form(fields): Form<HashMap<String, String>>,
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
    match state.0 {
        Mood::Refuses => (StatusCode::BAD_REQUEST, error("OptedOut")),
        Mood::Throttles(left) => {
            state.0 = if left <= 1 { Mood::Takes } else { Mood::Throttles(left - 1) };
            (StatusCode::BAD_REQUEST, error("Throttled"))
        }
        Mood::Takes => {
            state.1.push(fields);
            let body = format!(
                "<PublishResponse xmlns=\"{NS}\"><PublishResult><MessageId>m</MessageId></PublishResult>\
                 <ResponseMetadata><RequestId>r</RequestId></ResponseMetadata></PublishResponse>"
            );
            (StatusCode::OK, body)
        }
    }
}
