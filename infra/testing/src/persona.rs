use std::future::{Future, IntoFuture};
use std::ops::Deref;
use std::pin::Pin;

use lambda_http::http::Method;
use serde::Serialize;
use serde_json::Value;

use crate::{Api, Request};

/// A caller of the API, with a token or without. The verbs in [`crate::verbs`] are its methods.
#[derive(Debug, Clone)]
pub struct Persona<A> {
    api: A,
    token: Option<String>,
}

impl<A: Api> Persona<A> {
    /// Returns a caller without a token.
    pub fn anonymous(api: &A) -> Self {
        Self { api: api.clone(), token: None }
    }

    /// Returns a caller with this token, which may be invalid.
    pub fn with_token(api: &A, token: &str) -> Self {
        Self { api: api.clone(), token: Some(token.into()) }
    }

    pub fn api(&self) -> &A {
        &self.api
    }

    pub fn get(&self, path: impl Into<String>) -> Request<A> {
        self.request(Method::GET, path)
    }

    pub fn post(&self, path: impl Into<String>, body: impl Serialize) -> Request<A> {
        self.request(Method::POST, path).body(json(body))
    }

    pub fn put(&self, path: impl Into<String>, body: impl Serialize) -> Request<A> {
        self.request(Method::PUT, path).body(json(body))
    }

    /// Builds a request without a body.
    pub fn request(&self, method: Method, path: impl Into<String>) -> Request<A> {
        self.verb(method, path)
    }

    pub(crate) fn verb<V>(&self, method: Method, path: impl Into<String>) -> Request<A, V> {
        Request::new(&self.api, self.token.as_deref(), method, path)
    }
}

fn json(body: impl Serialize) -> Value {
    serde_json::to_value(body).expect("the body can be written as JSON")
}

/// A persona with an account, such as alice or bob.
#[derive(Debug, Clone)]
pub struct User<A> {
    persona: Persona<A>,
    pub id: u32,
    pub username: String,
    pub phone: String,
    pub token: String,
    /// The `matrix_credentials` of the login response. A user whom the test stored without a login has the same
    /// fields, except for the access token.
    pub credentials: Value,
}

impl<A> Deref for User<A> {
    type Target = Persona<A>;

    fn deref(&self) -> &Persona<A> {
        &self.persona
    }
}

impl<A: Api> User<A> {
    /// Reads the user from the `data` of a login response.
    #[must_use]
    pub fn from_login(api: &A, data: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("not a login: {data}")).to_owned();
        let (user, token) = (&data["user"], text(&data["token"]));
        let id = user["id"].as_u64().and_then(|id| u32::try_from(id).ok());
        Self {
            persona: Persona::with_token(api, &token),
            id: id.unwrap_or_else(|| panic!("not a login: {data}")),
            username: text(&user["username"]),
            phone: text(&user["phone"]),
            token,
            credentials: data["matrix_credentials"].clone(),
        }
    }

    /// Returns the user's Matrix id: `@<username>:<server>`.
    #[must_use]
    pub fn chat_id(&self) -> &str {
        self.credentials["user_id"].as_str().expect("the login returned chat credentials")
    }
}

/// A login that has not started yet. Awaiting it requests a code, reads the code from the text message, logs in
/// and returns the [`User`].
#[derive(Debug)]
#[must_use = "nobody signs in until this is awaited"]
pub struct SignIn<A> {
    api: A,
    phone: String,
    username: Option<String>,
}

impl<A: Api> SignIn<A> {
    pub fn new(api: &A, phone: &str) -> Self {
        Self { api: api.clone(), phone: phone.into(), username: None }
    }

    /// Sets the username that a new user wants.
    pub fn username(mut self, username: &str) -> Self {
        self.username = Some(username.into());
        self
    }
}

impl<A: Api> IntoFuture for SignIn<A> {
    type Output = User<A>;
    type IntoFuture = Pin<Box<dyn Future<Output = User<A>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let anonymous = Persona::anonymous(&self.api);
            let code = anonymous.receives_code(&self.phone).await;
            let mut verification = anonymous.verifies_code(&self.phone, &code);
            if let Some(username) = &self.username {
                verification = verification.username(username);
            }
            User::from_login(&self.api, &verification.await.expect_data(200))
        })
    }
}
