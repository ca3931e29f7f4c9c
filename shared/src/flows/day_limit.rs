//! Limits per UTC day for requests that have no effect outside of our tables.

use crate::domain::UserId;
use crate::domain::limit::{DailyAction, DayLimitReached};
use crate::storage::day_limit::{Counted, CountedAction};
use crate::{App, Error};

/// Counts a request against the limit of the user and the day. A retry of the request counts, too.
pub async fn count_request(app: &App, user: UserId, action: DailyAction) -> Result<(), Error> {
    let (now, limit) = (app.clock.now(), app.config.chat.limits.per_day(action));
    let counted = CountedAction { user, action, day: now.date_naive(), id: app.random.number().into() };
    match app.store.count_action(&counted, limit).await? {
        Counted::LimitReached => Err(DayLimitReached::new(action, limit, now).into()),
        Counted::Now(_) | Counted::Before => Ok(()),
    }
}
