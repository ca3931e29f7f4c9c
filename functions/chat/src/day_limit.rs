//! Counts what the caller does against the limits per UTC day.

use touchline::domain::UserId;
use touchline::domain::limit::{DailyAction, DayLimitReached};
use touchline::storage::day_limit::{Counted, CountedAction};
use touchline::{App, Error};

/// An action of the caller that is counted, but not done yet.
#[derive(Debug)]
pub struct Pending {
    counted: CountedAction,
    /// The ids of the actions that were counted before on this day. `None` if an earlier attempt counted this action.
    before: Option<Vec<u64>>,
}

/// Counts an action. A retry of the action must have the same `id`, so that it is not counted again.
///
/// The homeserver cannot undo an action, so the action is counted before the homeserver is called.
pub async fn count(app: &App, user: UserId, action: DailyAction, id: u64) -> Result<Pending, Error> {
    let now = app.clock.now();
    let limit = app.config.chat.limits.per_day(action);
    let counted = CountedAction { user, action, day: now.date_naive(), id };
    match app.store.count_action(&counted, limit).await? {
        Counted::LimitReached => Err(DayLimitReached::new(action, limit, now).into()),
        Counted::Now(before) => Ok(Pending { counted, before: Some(before) }),
        Counted::Before => Ok(Pending { counted, before: None }),
    }
}

impl Pending {
    /// Returns the ids of the actions that count with a new one. Without a new one, there are none.
    pub fn before(&self) -> impl Iterator<Item = u64> + '_ {
        self.before.iter().flatten().copied()
    }

    /// Ends the action with its result. A failed action is not counted, with two exceptions. An earlier attempt that
    /// counted the action may have succeeded. After an error of the store, the action may be done; its retry is not
    /// counted again.
    pub async fn end<T>(self, app: &App, result: Result<T, Error>) -> Result<T, Error> {
        let has_failed = result.as_ref().is_err_and(|error| !matches!(error, Error::Store(_)));
        if has_failed
            && self.before.is_some()
            && let Err(error) = app.store.release_action(&self.counted).await
        {
            tracing::warn!(%error, "a failed action stays counted for the rest of the day");
        }
        result
    }
}

#[cfg(test)]
mod tests;
