use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use tokio::net::TcpListener;

type Responder = Arc<dyn Fn(&HeaderMap) -> (u16, String) + Send + Sync>;

/// A web server that computes each response from the headers of the request.
#[derive(Debug)]
pub struct WebStandIn(String);

impl WebStandIn {
    pub async fn start(respond: impl Fn(&HeaderMap) -> (u16, String) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
        let url = format!("http://{}", listener.local_addr().expect("the listener has an address"));
        let responder: Responder = Arc::new(respond);
        let router = Router::new().fallback(respond_to).with_state(responder);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self(url)
    }

    #[must_use]
    pub fn url(&self) -> &str {
        &self.0
    }
}

async fn respond_to(State(responder): State<Responder>, headers: HeaderMap) -> (StatusCode, String) {
    let (status, body) = responder(&headers);
    (StatusCode::from_u16(status).expect("the status is valid"), body)
}
