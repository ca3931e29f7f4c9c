use std::future::Future;

use lambda_http::http::HeaderMap;
use lambda_http::http::header::AUTHORIZATION;
use subtle::ConstantTimeEq as _;

use super::Error;
use crate::App;
use crate::domain::session::{self, Renewal, Unauthenticated};
use crate::domain::{Token, UserId};

/// Who may call an endpoint. The router makes one before the handler runs, so a handler cannot forget.
pub trait Caller: Sized + Send {
    /// Whether a user's token is needed.
    const NEEDS_TOKEN: bool;
    /// How errors are told.
    const DIALECT: Dialect = Dialect::Own;
    /// The largest body. This much is more than any request of ours needs, and less than a nuisance.
    const MAX_BODY: usize = 64 * 1024;

    fn identify(app: &App, headers: &HeaderMap) -> impl Future<Output = Result<Self, Error>> + Send;
}

/// In whose words errors are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    Own,
    /// As the Matrix specification has it.
    Matrix,
}

/// No token needed; one that is sent is not looked at.
#[derive(Debug, Clone, Copy)]
pub struct Anyone;

impl Caller for Anyone {
    const NEEDS_TOKEN: bool = false;

    async fn identify(_: &App, _: &HeaderMap) -> Result<Self, Error> {
        Ok(Self)
    }
}

/// A user with a session that lasts.
#[derive(Debug, Clone)]
pub struct SignedIn {
    pub user: UserId,
    pub token: Token,
    pub device_id: String,
}

impl Caller for SignedIn {
    const NEEDS_TOKEN: bool = true;

    async fn identify(app: &App, headers: &HeaderMap) -> Result<Self, Error> {
        let token = Token::parse(bearer(headers)?).ok_or(Unauthenticated::Unknown)?;
        let now = app.clock.now();
        let session = app.store.session(&token).await?.ok_or(Unauthenticated::Unknown)?;
        if session::check(session.renewed_at, session.expires_at, now)? == Renewal::Due {
            app.store.renew_session(&token, now + app.config.session_length, now).await?;
        }
        Ok(Self { user: token.user(), token, device_id: session.device_id })
    }
}

/// The homeserver, which tells us what happened on the chat network.
#[derive(Debug, Clone, Copy)]
pub struct Homeserver;

impl Caller for Homeserver {
    const NEEDS_TOKEN: bool = false;
    const DIALECT: Dialect = Dialect::Matrix;
    // A hundred events of its own largest size; Lambda takes 6 MB.
    const MAX_BODY: usize = 6 * 1024 * 1024;

    async fn identify(app: &App, headers: &HeaderMap) -> Result<Self, Error> {
        let shown = bearer(headers).map_err(|error| match error {
            Unauthenticated::Missing => error.into(),
            Unauthenticated::Unknown | Unauthenticated::Expired => Error::NotTheHomeserver,
        })?;
        let expected = app.config.chat.hs_token.as_ref().ok_or(Error::NotTheHomeserver)?;
        let same: bool = shown.as_bytes().ct_eq(expected.reveal().as_bytes()).into();
        if same { Ok(Self) } else { Err(Error::NotTheHomeserver) }
    }
}

fn bearer(headers: &HeaderMap) -> Result<&str, Unauthenticated> {
    let header = headers.get(AUTHORIZATION).ok_or(Unauthenticated::Missing)?;
    let text = header.to_str().map_err(|_| Unauthenticated::Unknown)?;
    let (scheme, token) = text.trim().split_once(' ').ok_or(Unauthenticated::Unknown)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Unauthenticated::Missing);
    }
    Ok(token.trim())
}
