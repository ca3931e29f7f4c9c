//! Counts what the caller does against the limits per UTC day.

use touchline::domain::UserId;
use touchline::domain::limit::{DailyAction, DayLimitReached};
use touchline::storage::day_limit::{Counted, CountedAction};
use touchline::{App, Error};

/// An action of the caller that is counted, but not done yet.
#[derive(Debug)]
pub struct Pending {
    counted: CountedAction,
    /// Whether this request counted the action. Otherwise an earlier attempt did.
    is_new: bool,
}

/// Counts an action. A retry of the action must have the same `id`, so that it is not counted again.
///
/// The homeserver cannot undo an action, so the action is counted before the homeserver is called.
pub async fn count(app: &App, user: UserId, action: DailyAction, id: u32) -> Result<Pending, Error> {
    let now = app.clock.now();
    let limit = app.config.chat.limits.per_day(action);
    let counted = CountedAction { user, action, day: now.date_naive(), id };
    match app.store.count_action(&counted, limit).await? {
        Counted::LimitReached => Err(DayLimitReached::new(action, limit, now).into()),
        Counted::Now => Ok(Pending { counted, is_new: true }),
        Counted::Before => Ok(Pending { counted, is_new: false }),
    }
}

impl Pending {
    /// Ends the action with its result. A failed action is not counted, with two exceptions. An earlier attempt that
    /// counted the action may have succeeded. After an error of the store, the action may be done; its retry is not
    /// counted again.
    pub async fn end<T>(self, app: &App, result: Result<T, Error>) -> Result<T, Error> {
        let has_failed = result.as_ref().is_err_and(|error| !matches!(error, Error::Store(_)));
        if has_failed
            && self.is_new
            && let Err(error) = app.store.release_action(&self.counted).await
        {
            tracing::warn!(%error, "a failed action stays counted for the rest of the day");
        }
        result
    }
}

#[cfg(test)]
mod tests;
