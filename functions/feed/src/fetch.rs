//! Fetches the document that a scheduled run imports.

use serde_json::{Value, json};
use touchline::App;
use touchline::config::FeedSettings;

use crate::FeedError;

pub async fn fetch(app: &App, settings: &FeedSettings) -> Result<Value, FeedError> {
    let headers: Vec<(&str, &str)> =
        settings.token.iter().map(|token| (settings.token_header.as_str(), token.reveal())).collect();
    let bytes =
        app.web.get(&settings.url, &headers).await.map_err(|error| FeedError::Fetch(error.to_string()))?;
    let document: Value =
        serde_json::from_slice(&bytes).map_err(|error| FeedError::NotJson(error.to_string()))?;
    // A document in our own format has a `format` field. A document in another format is wrapped in an object
    // that has this field.
    Ok(match settings.format.as_str() {
        "touchline" => document,
        format => json!({ "format": format, "timezone": settings.timezone, "document": document }),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use serde_json::{Value, json};
    use touchline_testing::{TestApp, WebStandIn};

    async fn app(web: &WebStandIn, format: &str) -> TestApp {
        TestApp::serving(&[])
            .variable("FEED_URL", &format!("{}/matches", web.url()))
            .variable("FEED_FORMAT", format)
            .variable("FEED_TIMEZONE", "Europe/London")
            .variable("FEED_TOKEN", "secret")
            .start()
            .await
    }

    async fn run(app: &TestApp) -> Result<Value, String> {
        app.try_invoke(crate::handle, json!({})).await.map_err(|error| error.to_string())
    }

    fn document(text: &str) -> String {
        serde_json::from_str::<Value>(text).unwrap()["document"].to_string()
    }

    #[tokio::test]
    async fn documents_of_every_format_are_fetched_with_the_token() {
        let ours = include_str!("../../../events/feed/touchline.json").to_owned();
        for (format, body) in [
            ("touchline", ours),
            ("football-data.org/v4", document(include_str!("../../../events/feed/football-data.json"))),
            ("openfootball", document(include_str!("../../../events/feed/openfootball.json"))),
        ] {
            let web = WebStandIn::start(move |headers| {
                assert_eq!(headers["x-auth-token"], "secret");
                (200, body.clone())
            })
            .await;
            let report = run(&app(&web, format).await).await.unwrap();
            assert!(report["created"].as_u64().unwrap() > 5, "{format}: {report}");
        }
    }

    #[tokio::test]
    async fn a_fetch_that_fails_with_503_is_retried() {
        let requests = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&requests);
        let web = WebStandIn::start(move |_| {
            let status = if counter.fetch_add(1, Ordering::Relaxed) < 2 { 503 } else { 200 };
            (status, include_str!("../../../events/feed/touchline.json").to_owned())
        })
        .await;
        assert!(run(&app(&web, "touchline").await).await.is_ok());
        assert_eq!(requests.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn a_fetch_with_an_error_status_or_an_invalid_body_imports_nothing() {
        for (status, body, word) in [
            (404, String::new(), "404"),
            (200, "<html>".to_owned(), "not JSON"),
            (200, format!("\"{}\"", "x".repeat(20 * 1024 * 1024)), "larger than 10 MB"),
        ] {
            let web = WebStandIn::start(move |_| (status, body.clone())).await;
            let app = app(&web, "touchline").await;
            let error = run(&app).await.unwrap_err();
            assert!(error.contains(word), "{error}");
            assert!(touchline::storage::catalog::load_latest(&app.store, None).await.unwrap().is_none());
        }
    }
}
