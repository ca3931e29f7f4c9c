use std::fmt::Debug;
use std::future::Future;

use lambda_http::http::Method;

use crate::Response;

/// The API under test. [`Persona`](crate::Persona)s send their requests through it.
///
/// [`TestApp`](crate::TestApp) calls the functions' routers in this process; the HTTP suite sends real requests.
pub trait Api: Clone + Debug + Send + Sync + 'static {
    fn send(&self, request: RawRequest) -> impl Future<Output = Response> + Send;

    /// Returns the code in the last text message to a phone.
    fn last_code(&self, phone: &str) -> impl Future<Output = String> + Send;
}

/// A request as it goes over the wire.
#[derive(Debug, Clone)]
pub struct RawRequest {
    pub method: Method,
    /// The path, and the query after a `?`.
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Option<Vec<u8>>,
    /// The client's IP address. `None` means loopback. Only a [`TestApp`](crate::TestApp)
    /// supports other addresses.
    pub address: Option<String>,
}
