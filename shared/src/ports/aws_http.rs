//! The HTTP client of the AWS SDK.
//!
//! The SDK's own client always includes HTTP/2, which DynamoDB, SNS and Secrets Manager do not use. With it,
//! `login` is 16 % larger.

use std::time::Duration;

use aws_smithy_runtime_api::client::connection::{CaptureSmithyConnection, ConnectionMetadata};
pub use aws_smithy_runtime_api::client::http::SharedHttpClient;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::retry::ErrorKind;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{HttpConnector as TcpConnector, capture_connection};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

/// How long a TCP connection may take to open. The clients set the time limits of requests.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// How long an unused connection is kept. Lambda freezes an environment between requests, and AWS can close connections
/// during that time. A request on a closed connection fails. If it was to send an SMS, we do not repeat it, so the SMS would
/// be lost.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

/// Amazon's root certificates. AWS uses no others.
const ROOTS: &[u8] = include_bytes!("../amazon-roots.pem");

/// Creates a client for HTTP and HTTPS that trusts only Amazon's root certificates.
#[must_use]
pub fn client() -> SharedHttpClient {
    SharedHttpClient::new(AwsHttp::new())
}

#[derive(Debug, Clone)]
struct AwsHttp(Client<HttpsConnector<TcpConnector>, SdkBody>);

impl AwsHttp {
    fn new() -> Self {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(CertificateDer::pem_slice_iter(ROOTS).filter_map(Result::ok));
        let tls = ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
            .with_safe_default_protocol_versions()
            .expect("ring supports the default versions of TLS")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut tcp = TcpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1();
        let mut client = Client::builder(TokioExecutor::new());
        client.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE_TIMEOUT);
        Self(client.build(connector.wrap_connector(tcp)))
    }
}

impl HttpClient for AwsHttp {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for AwsHttp {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let client = self.0.clone();
        HttpConnectorFuture::new(async move {
            let mut request =
                request.try_into_http1x().map_err(|error| ConnectorError::user(error.into()))?;
            let connection = capture_connection(&mut request);
            // After an error of the service, the SDK asks to close the connection, so that a retry reaches another host.
            if let Some(capture) = request.extensions().get::<CaptureSmithyConnection>() {
                capture.set_connection_retriever(move || {
                    let connection = connection.clone();
                    let poison = move || {
                        if let Some(connection) = connection.connection_metadata().as_ref() {
                            connection.poison();
                        }
                    };
                    Some(ConnectionMetadata::builder().proxied(false).poison_fn(poison).build())
                });
            }
            let response = client.request(request).await.map_err(|error| {
                if error.is_connect() {
                    ConnectorError::io(error.into())
                } else {
                    // The service may have carried the request out.
                    ConnectorError::other(error.into(), Some(ErrorKind::TransientError))
                }
            })?;
            let response = response.map(SdkBody::from_body_1_x);
            HttpResponse::try_from(response).map_err(|error| ConnectorError::other(error.into(), None))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use http_body_util::BodyExt as _;

    use super::*;

    /// Starts a server that handles one connection, and returns its address.
    fn serve_once(handle: impl FnOnce(TcpStream) + Send + 'static) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || handle(listener.accept().unwrap().0));
        format!("http://{address}/")
    }

    fn read_request(connection: &mut TcpStream) {
        let mut read = Vec::new();
        while !read.ends_with(b"{}") {
            let mut part = [0; 1_024];
            let length = connection.read(&mut part).unwrap();
            assert!(length > 0, "the request ended early");
            read.extend_from_slice(&part[..length]);
        }
    }

    async fn send(http: &AwsHttp, url: &str) -> Result<HttpResponse, ConnectorError> {
        let mut request = HttpRequest::new(SdkBody::from("{}"));
        request.set_method("POST").unwrap();
        request.set_uri(url).unwrap();
        http.call(request).await
    }

    #[test]
    fn all_root_certificates_are_read() {
        let certificates: Vec<_> = CertificateDer::pem_slice_iter(ROOTS).collect::<Result<_, _>>().unwrap();
        let mut roots = RootCertStore::empty();
        let (added, ignored) = roots.add_parsable_certificates(certificates);
        assert!(added > 0 && ignored == 0, "{added} {ignored}");
    }

    #[tokio::test]
    async fn a_connection_is_used_again() {
        let url = serve_once(|mut connection| {
            for _ in 0..2 {
                read_request(&mut connection);
                connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").unwrap();
            }
        });
        let http = AwsHttp::new();
        for _ in 0..2 {
            let response = send(&http, &url).await.unwrap();
            assert_eq!(response.status().as_u16(), 200);
            assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "ok");
        }
    }

    #[tokio::test]
    async fn a_connection_that_the_sdk_rejects_is_not_used_again() {
        let url = serve_once(|mut connection| {
            read_request(&mut connection);
            connection.write_all(b"HTTP/1.1 500 Oh\r\ncontent-length: 2\r\n\r\n{}").unwrap();
            assert_eq!(connection.read(&mut [0; 1]).unwrap(), 0, "another request");
        });
        let (http, capture) = (AwsHttp::new(), CaptureSmithyConnection::new());
        let mut request = HttpRequest::new(SdkBody::from("{}"));
        request.set_method("POST").unwrap();
        request.set_uri(url.as_str()).unwrap();
        request.add_extension(capture.clone());
        let response = http.call(request).await.unwrap();
        capture.get().unwrap().poison();
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "{}");
        // The server does not accept another connection.
        send(&http, &url).await.unwrap_err();
    }

    /// SNS sends the same message twice if a request that it has carried out is repeated.
    #[tokio::test]
    async fn an_error_before_the_request_was_sent_differs_from_one_afterwards() {
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = send(&AwsHttp::new(), &format!("http://{nobody}/")).await.unwrap_err();
        assert!(error.is_io(), "{error:?}");
        let url = serve_once(|mut connection| read_request(&mut connection));
        let error = send(&AwsHttp::new(), &url).await.unwrap_err();
        assert!(!error.is_io(), "{error:?}");
        assert_eq!(error.as_other(), Some(ErrorKind::TransientError));
    }
}
