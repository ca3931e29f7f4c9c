use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::{Value, json};
use touchline::App;
use touchline::domain::{Timestamp, User, UserId};
use touchline::storage::users::Which;
use touchline::storage::{Reads, StoreError};

use crate::action::{Action, Beginning};
use crate::error::ModerationError;
use crate::longest_request::LONGEST_REQUEST;

#[derive(Debug, Deserialize)]
pub struct UserSubject {
    user_id: u32,
}

impl UserSubject {
    /// Reads the user.
    pub async fn user(&self, app: &App) -> Result<User, ModerationError> {
        let user = app.store.user(UserId(self.user_id), Reads::Consistent).await?;
        user.ok_or(ModerationError::UnknownUser(self.user_id))
    }
}

/// Suspends a user: rejects logins, ends all sessions, logs the user out of chat and takes the user off all boards.
///
/// A login that read the phone's owner before the suspension can store its session after the sessions were ended, and can
/// get chat credentials after the logout. It ends within [`LONGEST_REQUEST`], so both are done again after that time.
pub async fn suspend(app: &App, order: Action<UserSubject>) -> Result<Value, ModerationError> {
    let user = order.subject.user(app).await?.id;
    let begun = match order.begin(app, "suspend", format!("user {user}")).await? {
        Beginning::New(begun) => begun,
        Beginning::Replay(result) => return Ok(result),
    };
    let suspension = app.store.suspend_user(user, app.clock.now()).await?;
    let suspension = suspension.ok_or(ModerationError::UnknownUser(user.0))?;
    app.store.sync_ranked(user).await?;
    let mut sessions_ended = end_all(app, user).await?;
    if let Err(error) = app.chat.log_out_everywhere(&suspension.username).await {
        tracing::warn!(%error, "a suspended user is still logged in to chat");
    }
    tokio::time::sleep(LONGEST_REQUEST).await;
    sessions_ended += end_all(app, user).await?;
    let chat = app.chat.log_out_everywhere(&suspension.username).await;
    let mut result = json!({
        "user_id": user,
        "suspended_at": suspension.suspended_at.map(Timestamp::from),
        "was_suspended": !suspension.has_changed,
        "sessions_ended": sessions_ended,
        "complete": chat.is_ok(),
    });
    if let Err(error) = chat {
        result["chat"] = format!("{error}. Invoke this again to log the user out of chat.").into();
        return Ok(begun.pause(result));
    }
    begun.finish(app, result).await
}

/// Ends all sessions of a user. Returns how many were active.
async fn end_all(app: &App, user: UserId) -> Result<usize, StoreError> {
    let all = Which::All { until: DateTime::<Utc>::MAX_UTC, except: None };
    app.store.end_sessions(user, all, app.clock.now()).await
}

/// Ends a suspension. The user can log in again and is back on the boards.
pub async fn restore(app: &App, order: Action<UserSubject>) -> Result<Value, ModerationError> {
    let user = order.subject.user(app).await?.id;
    let begun = match order.begin(app, "restore", format!("user {user}")).await? {
        Beginning::New(begun) => begun,
        Beginning::Replay(result) => return Ok(result),
    };
    let restored = app.store.restore_user(user).await?.ok_or(ModerationError::UnknownUser(user.0))?;
    app.store.sync_ranked(user).await?;
    begun.finish(app, json!({ "user_id": user, "was_suspended": restored.has_changed })).await
}
