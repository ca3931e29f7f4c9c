use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use touchline::App;
use touchline::storage::users::{DeleteAccount, DeletionCode, ReserveError, Which};

use crate::action::{Action, Beginning};
use crate::error::ModerationError;
use crate::suspend::UserSubject;

/// Deletes the account of a user who cannot do it, for example because the phone is lost. `erasure` deletes the rest of the
/// data within a minute.
pub async fn delete_account(app: &App, order: Action<UserSubject>) -> Result<Value, ModerationError> {
    let user = order.subject.user(app).await?;
    let begun = match order.begin(app, "delete_account", format!("user {}", user.id)).await? {
        Beginning::New(begun) => begun,
        Beginning::Replay(result) => return Ok(result),
    };
    let now = app.clock.now();
    let deletion = DeleteAccount { user: &user, code: DeletionCode::Operator, nonce: "" };
    match app.store.delete_account(&deletion, now).await {
        Ok(()) => {}
        Err(ReserveError::Store(error)) => return Err(error.into()),
        Err(_) => return Err(ModerationError::UnknownUser(user.id.0)),
    }
    let all = Which::All { until: DateTime::<Utc>::MAX_UTC, except: None };
    let sessions_ended = app.store.end_sessions(user.id, all, now).await?;
    begun.finish(app, json!({ "user_id": user.id, "sessions_ended": sessions_ended })).await
}
