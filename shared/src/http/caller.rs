//! Identifies the caller of a request.

use std::future::Future;

use lambda_http::http::HeaderMap;
use lambda_http::http::header::AUTHORIZATION;
use subtle::ConstantTimeEq as _;

use crate::api::{Anyone, Caller, Developer, Homeserver, LOG_SECRET_HEADER, SignedIn};
use crate::config::Environment;
use crate::domain::Token;
use crate::domain::session::{self, Renewal, Unauthenticated};
use crate::{App, Error};

/// Identifies one kind of caller. The router calls `identify` before the handler runs, so no handler can
/// forget the check.
pub trait Identify: Caller {
    fn identify(app: &App, headers: &HeaderMap) -> impl Future<Output = Result<Self, Error>> + Send;
}

impl Identify for Anyone {
    async fn identify(_: &App, _: &HeaderMap) -> Result<Self, Error> {
        Ok(Self)
    }
}

impl Identify for Developer {
    async fn identify(app: &App, headers: &HeaderMap) -> Result<Self, Error> {
        let is_admitted = match app.config.environment {
            Environment::Local | Environment::Testing => true,
            Environment::Staging => match (headers.get(LOG_SECRET_HEADER), &app.config.log_secret) {
                (Some(given), Some(secret)) => given.as_bytes().ct_eq(secret.reveal().as_bytes()).into(),
                _ => false,
            },
            Environment::Production => false,
        };
        if is_admitted { Ok(Self) } else { Err(Error::NotFound) }
    }
}

impl Identify for SignedIn {
    async fn identify(app: &App, headers: &HeaderMap) -> Result<Self, Error> {
        let token = Token::parse(bearer(headers)?).ok_or(Unauthenticated::Unknown)?;
        let now = app.clock.now();
        let session = app.store.session(&token).await?.ok_or(Unauthenticated::Unknown)?;
        if session::check(session.renewed_at, session.expires_at, now)? == Renewal::Due
            && let Err(error) =
                app.store.renew_session(&token, app.config.sessions.end(session.created_at, now), now).await
        {
            // The session is valid, so the request goes on. The next request tries again.
            tracing::warn!(%error, "a session was not renewed");
        }
        Ok(Self { user: token.user(), token, device_id: session.device_id })
    }
}

impl Identify for Homeserver {
    async fn identify(app: &App, headers: &HeaderMap) -> Result<Self, Error> {
        let token = bearer(headers).map_err(|error| match error {
            Unauthenticated::Missing => error.into(),
            Unauthenticated::Unknown | Unauthenticated::Expired => Error::NotTheHomeserver,
        })?;
        let expected = app.config.chat.hs_token.as_ref().ok_or(Error::NotTheHomeserver)?;
        let is_equal: bool = token.as_bytes().ct_eq(expected.reveal().as_bytes()).into();
        if is_equal { Ok(Self) } else { Err(Error::NotTheHomeserver) }
    }
}

/// Reads the bearer token. A header with another scheme counts as a missing token.
fn bearer(headers: &HeaderMap) -> Result<&str, Unauthenticated> {
    let header = headers.get(AUTHORIZATION).ok_or(Unauthenticated::Missing)?;
    let text = header.to_str().map_err(|_| Unauthenticated::Unknown)?;
    let (scheme, token) = text.trim().split_once(' ').ok_or(Unauthenticated::Unknown)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Unauthenticated::Missing);
    }
    Ok(token.trim())
}
