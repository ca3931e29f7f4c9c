use std::fmt::{self, Display};
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;

use lambda_http::http::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::{Api, RawRequest, Response};

/// The marker type of requests that have no builder methods of their own.
#[derive(Debug, Clone, Copy)]
pub struct Plain;

/// A request that a persona is about to send. Awaiting it sends the request and returns the [`Response`].
///
/// `V` is a marker type, such as `CreateRoom`. It selects the builder methods that only some requests have, such as
/// `topic`. The builder methods below exist for every `V`.
#[must_use = "a request is sent when it is awaited"]
pub struct Request<A, V = Plain> {
    api: A,
    method: Method,
    path: String,
    query: String,
    headers: Vec<(String, String)>,
    body: Body,
    address: Option<String>,
    verb: PhantomData<V>,
}

#[derive(Debug, Clone)]
enum Body {
    None,
    Json(Value),
    Bytes(Vec<u8>),
}

impl<A: Api, V> Request<A, V> {
    pub(crate) fn new(api: &A, token: Option<&str>, method: Method, path: impl Into<String>) -> Self {
        let bearer = token.map(|token| ("authorization".into(), format!("Bearer {token}")));
        Self {
            api: api.clone(),
            method,
            path: path.into(),
            query: String::new(),
            headers: bearer.into_iter().collect(),
            body: Body::None,
            address: None,
            verb: PhantomData,
        }
    }

    /// Sets a field of the body.
    pub fn field(mut self, name: &str, value: impl Into<Value>) -> Self {
        if matches!(self.body, Body::None) {
            self.body = Body::Json(Value::Object(serde_json::Map::new()));
        }
        let Body::Json(body) = &mut self.body else { panic!("the body is not JSON: {:?}", self.body) };
        body[name] = value.into();
        self
    }

    /// Removes a field from the body.
    pub fn without(mut self, name: &str) -> Self {
        if let Body::Json(Value::Object(body)) = &mut self.body {
            body.remove(name);
        }
        self
    }

    /// Replaces the whole body.
    pub fn body(mut self, body: Value) -> Self {
        self.body = Body::Json(body);
        self
    }

    /// Replaces the whole body with bytes that need not be JSON.
    pub fn bytes(mut self, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        self.body = Body::Bytes(body.into());
        self.header("content-type", content_type)
    }

    /// Adds a query parameter, percent-encoded.
    pub fn query(mut self, name: &str, value: impl Display) -> Self {
        let separator = if self.query.is_empty() && !self.path.contains('?') { '?' } else { '&' };
        let value = utf8_percent_encode(&value.to_string(), NON_ALPHANUMERIC).to_string();
        self.query.extend([&separator.to_string(), name, "=", &value]);
        self
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the header `Idempotency-Key`.
    pub fn idempotency_key(self, key: &str) -> Self {
        self.header("idempotency-key", key)
    }

    /// Sets the IP address that the request comes from.
    pub fn from_address(mut self, address: &str) -> Self {
        self.address = Some(address.into());
        self
    }
}

impl<A: Api, V> IntoFuture for Request<A, V> {
    type Output = Response;
    type IntoFuture = Pin<Box<dyn Future<Output = Response> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { api, method, path, query, mut headers, body, address, verb: _ } = self;
        let body = match body {
            Body::None => None,
            Body::Json(body) => {
                headers.push(("content-type".into(), "application/json".into()));
                Some(body.to_string().into_bytes())
            }
            Body::Bytes(body) => Some(body),
        };
        let request = RawRequest { method, target: path + query.as_str(), headers, body, address };
        Box::pin(async move { api.send(request).await })
    }
}

impl<A: Clone, V> Clone for Request<A, V> {
    fn clone(&self) -> Self {
        Self {
            api: self.api.clone(),
            method: self.method.clone(),
            path: self.path.clone(),
            query: self.query.clone(),
            headers: self.headers.clone(),
            body: self.body.clone(),
            address: self.address.clone(),
            verb: PhantomData,
        }
    }
}

impl<A, V> fmt::Debug for Request<A, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}{} {:?}", self.method, self.path, self.query, self.body)
    }
}
