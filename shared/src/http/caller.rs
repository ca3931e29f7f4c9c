use std::future::Future;

use lambda_http::http::HeaderMap;
use lambda_http::http::header::AUTHORIZATION;

use super::Error;
use crate::App;
use crate::domain::session::{self, Renewal, Unauthenticated};
use crate::domain::{Token, UserId};

/// Who may call an endpoint. The router makes one before the handler runs, so a handler cannot forget.
pub trait Caller: Sized + Send {
    const NEEDS_TOKEN: bool;

    fn identify(app: &App, headers: &HeaderMap) -> impl Future<Output = Result<Self, Error>> + Send;
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
        let token = bearer(headers)?;
        let now = app.clock.now();
        let session = app.store.session(&token).await?.ok_or(Unauthenticated::Unknown)?;
        if session::check(session.renewed_at, session.expires_at, now)? == Renewal::Due {
            app.store.renew_session(&token, now + app.config.session_length, now).await?;
        }
        Ok(Self { user: token.user(), token, device_id: session.device_id })
    }
}

fn bearer(headers: &HeaderMap) -> Result<Token, Unauthenticated> {
    let header = headers.get(AUTHORIZATION).ok_or(Unauthenticated::Missing)?;
    let text = header.to_str().map_err(|_| Unauthenticated::Unknown)?;
    let (scheme, token) = text.trim().split_once(' ').ok_or(Unauthenticated::Unknown)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Unauthenticated::Missing);
    }
    Token::parse(token.trim()).ok_or(Unauthenticated::Unknown)
}
