//! Compares counters with their rows, and repairs them while rows change.

use std::future::Future;
use std::time::Duration;

use chrono::{DateTime, Utc};
use touchline::App;
use touchline::domain::marker::{MarkerId, Progress, Written};
use touchline::domain::tally::Counters;
use touchline::storage::recounts::{Differences, Stored};
use touchline::storage::tallies::Aggregate;
use touchline::storage::{Retry, StoreError};

use crate::report::OUT_OF_TIME;

/// Counters, and the rows that they count.
pub trait Counted {
    type Counts: Counters;

    fn aggregate(&self) -> Aggregate;

    /// Counts the rows, strongly consistent.
    fn count(&self, app: &App) -> impl Future<Output = Result<Self::Counts, StoreError>> + Send;

    /// Writes a marker among the rows.
    fn mark(&self, app: &App, marker: &MarkerId) -> impl Future<Output = Result<Written, StoreError>> + Send;
}

#[derive(Debug)]
pub enum Outcome {
    Right,
    Repaired(Differences),
    /// The counters differ from the rows and are unchanged, for this reason.
    Busy(&'static str),
}

/// How often the rows are counted. If they change each time, the counters are busy.
const MAX_COUNTS: u32 = 5;

/// How often, and with which first pause, to look whether a marker has passed. The pauses double, to 51 seconds in all.
const MAX_LOOKS: u32 = 10;
const FIRST_PAUSE: Duration = Duration::from_millis(if cfg!(test) { 2 } else { 100 });

/// Makes counters equal to a count of their rows. Changes nothing if they are equal already.
///
/// A difference alone does not show that counters are wrong: the last changes may not be counted yet. So a difference is
/// confirmed between two markers, as `Store::repair` describes.
pub async fn recount<S: Counted>(
    app: &App,
    subject: &S,
    until: DateTime<Utc>,
) -> Result<Outcome, StoreError> {
    // Reading all rows can take long, and the report must be returned before the deadline.
    if app.clock.now() >= until {
        return Ok(Outcome::Busy(OUT_OF_TIME));
    }
    let aggregate = subject.aggregate();
    let stored: Stored<S::Counts> = app.store.stored_counters(&aggregate).await?;
    let counted = subject.count(app).await?;
    if stored.differences(&counted, app.clock.now()).is_empty() {
        return Ok(Outcome::Right);
    }
    let mut markers = Vec::new();
    let mut before = match pass_marker(app, subject, &mut markers, until).await? {
        Ok(stored) => stored,
        Err(reason) => return Ok(Outcome::Busy(reason)),
    };
    for _ in 0..MAX_COUNTS {
        let counted = subject.count(app).await?;
        let after = match pass_marker(app, subject, &mut markers, until).await? {
            Ok(stored) => stored,
            Err(reason) => return Ok(Outcome::Busy(reason)),
        };
        if after.version == before.version {
            let differences = after.differences(&counted, app.clock.now());
            if differences.is_empty() {
                return Ok(Outcome::Right);
            }
            if app.store.repair(&aggregate, &after, &differences, &markers).await? {
                return Ok(Outcome::Repaired(differences));
            }
        }
        // Rows have changed. The second marker also serves as the first one of the next count.
        before = after;
    }
    Ok(Outcome::Busy("the rows change too often; invoke again when fewer people use them"))
}

/// Writes a marker and waits until it has passed. Returns the counters then, or the reason why it has not passed.
async fn pass_marker<S: Counted>(
    app: &App,
    subject: &S,
    markers: &mut Vec<MarkerId>,
    until: DateTime<Utc>,
) -> Result<Result<Stored<S::Counts>, &'static str>, StoreError> {
    let now = app.clock.now();
    if now >= until {
        return Ok(Err(OUT_OF_TIME));
    }
    let marker = MarkerId::new(now, app.random.below(u32::MAX));
    let written = subject.mark(app, &marker).await?;
    markers.push(marker.clone());
    let aggregate = subject.aggregate();
    let mut retry = Retry::doubling("a marker", MAX_LOOKS, FIRST_PAUSE);
    loop {
        let stored: Stored<S::Counts> = app.store.stored_counters(&aggregate).await?;
        match written.progress(&stored.places_of(&marker)) {
            Progress::Passed => return Ok(Ok(stored)),
            Progress::Spread => {
                return Ok(Err("the rows are in several shards of the stream; invoke again in some hours"));
            }
            Progress::UnderWay => {}
        }
        match retry.again().await {
            Err(StoreError::Contended { .. }) => {
                return Ok(Err("tally is behind the stream; invoke again when it has caught up"));
            }
            again => again?,
        }
    }
}
