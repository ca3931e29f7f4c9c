use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use tokio::net::TcpListener;

type Answers = Arc<dyn Fn(&HeaderMap) -> (u16, String) + Send + Sync>;

/// A web server that answers every request as told.
#[derive(Debug)]
pub struct WebStandIn(String);

impl WebStandIn {
    pub async fn start(answers: impl Fn(&HeaderMap) -> (u16, String) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let answers: Answers = Arc::new(answers);
        let router = Router::new().fallback(answer).with_state(answers);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self(url)
    }

    #[must_use]
    pub fn url(&self) -> &str {
        &self.0
    }
}

async fn answer(State(answers): State<Answers>, headers: HeaderMap) -> (StatusCode, String) {
    let (status, body) = answers(&headers);
    (StatusCode::from_u16(status).expect("a status"), body)
}
