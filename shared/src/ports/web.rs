//! Fetching documents from the web.

use std::fmt::{self, Debug};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use lambda_http::http::{Request, StatusCode};
use rustls::ClientConfig;
use tokio::time::{sleep, timeout};

/// The maximum size of a response: larger than any feed, smaller than a function's memory.
const MAX_BYTES: usize = 10 * 1024 * 1024;
const TIMEOUT: Duration = Duration::from_secs(10);
const ATTEMPTS: u32 = 3;

/// A failed fetch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WebError {
    #[error("the URL is invalid")]
    BadAddress,
    #[error("the server did not respond within {} s", TIMEOUT.as_secs())]
    TimedOut,
    #[error("the response is larger than {} MB", MAX_BYTES / 1024 / 1024)]
    TooLarge,
    #[error("the server responded with status {0} instead of 200")]
    Status(u16),
    #[error("the server cannot be reached")]
    Unreachable,
}

impl WebError {
    fn is_transient(&self) -> bool {
        match self {
            Self::TimedOut | Self::Unreachable => true,
            Self::Status(status) => *status >= 500 || *status == 429,
            Self::BadAddress | Self::TooLarge => false,
        }
    }
}

/// Fetches documents from the web.
pub trait Web: Debug + Send + Sync {
    /// Fetches a document and returns its body. Retries transient failures.
    fn get<'a>(
        &'a self,
        url: &'a str,
        headers: &'a [(&'a str, &'a str)],
    ) -> BoxFuture<'a, Result<Vec<u8>, WebError>>;
}

/// The same TLS library as in the AWS SDK, and the system's root certificates. Loading these takes longer than the rest of
/// a cold start, so a process loads them once. `None` if the system has none.
static TLS: LazyLock<Option<ClientConfig>> = LazyLock::new(|| {
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().ok()?;
    Some(builder.with_native_roots().ok()?.with_no_client_auth())
});

/// Builds a connector for HTTP and HTTPS. Returns `None` if the system has no root certificates.
pub(super) fn connector() -> Option<HttpsConnector<HttpConnector>> {
    let builder = HttpsConnectorBuilder::new().with_tls_config(TLS.clone()?);
    Some(builder.https_or_http().enable_http1().build())
}

/// Fetches documents over HTTP and HTTPS.
pub struct HyperWeb(Client<HttpsConnector<HttpConnector>, Empty<&'static [u8]>>);

impl Debug for HyperWeb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HyperWeb")
    }
}

impl HyperWeb {
    /// Creates a client. Returns `None` if the system has no root certificates.
    #[must_use]
    pub fn new() -> Option<Self> {
        Some(Self(Client::builder(TokioExecutor::new()).build(connector()?)))
    }

    async fn fetch(&self, url: &str, headers: &[(&str, &str)]) -> Result<Vec<u8>, WebError> {
        let mut request = Request::get(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Empty::new()).map_err(|_| WebError::BadAddress)?;
        let fetched = timeout(TIMEOUT, async {
            let response = self.0.request(request).await.map_err(|_| WebError::Unreachable)?;
            if response.status() != StatusCode::OK {
                return Err(WebError::Status(response.status().as_u16()));
            }
            match Limited::new(response.into_body(), MAX_BYTES).collect().await {
                Ok(body) => Ok(body.to_bytes().to_vec()),
                Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(WebError::TooLarge),
                Err(_) => Err(WebError::Unreachable),
            }
        });
        fetched.await.unwrap_or(Err(WebError::TimedOut))
    }
}

impl Web for HyperWeb {
    fn get<'a>(
        &'a self,
        url: &'a str,
        headers: &'a [(&'a str, &'a str)],
    ) -> BoxFuture<'a, Result<Vec<u8>, WebError>> {
        Box::pin(async move {
            let mut attempt = 1;
            loop {
                match self.fetch(url, headers).await {
                    Err(error) if error.is_transient() && attempt < ATTEMPTS => {
                        sleep(Duration::from_millis(200 << attempt)).await;
                        attempt += 1;
                    }
                    result => return result,
                }
            }
        })
    }
}

/// Fails every fetch. An app uses it if it has no feed settings, or if the system has no root certificates.
#[derive(Debug)]
pub struct NoWeb;

impl Web for NoWeb {
    fn get<'a>(
        &'a self,
        _: &'a str,
        _: &'a [(&'a str, &'a str)],
    ) -> BoxFuture<'a, Result<Vec<u8>, WebError>> {
        Box::pin(async { Err(WebError::Unreachable) })
    }
}
