//! The caller's sessions, and their logins to chat.

use std::cmp::Reverse;

use crate::api::SignedIn;
use crate::api::login::SessionView;
use crate::domain::chat::Credentials;
use crate::domain::session::{SessionId, Unauthenticated};
use crate::domain::{Token, Username};
use crate::{App, Error};

/// Lists the caller's sessions that have not ended. The one that was used last comes first.
pub async fn active(app: &App, caller: &SignedIn) -> Result<Vec<SessionView>, Error> {
    let now = app.clock.now();
    let mut sessions = app.store.sessions(caller.user).await?;
    sessions.retain(|session| session.is_active(now));
    sessions.sort_by_key(|session| Reverse((session.renewed_at, session.created_at)));
    let views = sessions.into_iter().map(|session| SessionView {
        current: session.device_id == caller.device_id,
        id: SessionId(session.device_id),
        device_name: session.device_name,
        created_at: session.created_at.into(),
        last_used_at: session.renewed_at.into(),
    });
    Ok(views.collect())
}

/// Logs the chat device of a session in to the homeserver. If the session ends meanwhile, deletes the device again and fails:
/// otherwise a stolen token could keep a chat device for good.
pub async fn log_in_to_chat(
    app: &App,
    token: &Token,
    username: &Username,
    device_id: &str,
) -> Result<Credentials, Error> {
    let credentials = app.chat.log_in(username, device_id).await?;
    if app.store.is_session_open(token).await? {
        return Ok(credentials);
    }
    // If this fails, `erasure` deletes the device.
    if let Err(error) = app.chat.log_out(username, device_id).await {
        tracing::warn!(%error, "the chat device of an ended session is still logged in");
    }
    Err(Unauthenticated::Unknown.into())
}
