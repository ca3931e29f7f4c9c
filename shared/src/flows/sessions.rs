//! The caller's sessions.

use std::cmp::Reverse;

use crate::api::SignedIn;
use crate::api::login::SessionView;
use crate::domain::session::SessionId;
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
