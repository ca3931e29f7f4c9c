use touchline::domain::promotion::NotPromoted;
use touchline::storage::StoreError;

/// Why a run failed. After a failure of the store, a part of the document may be applied. After any other
/// failure, nothing is applied.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    #[error("the document is not JSON: {0}")]
    NotJson(String),
    #[error("the format is {0}; it must be touchline, football-data.org/v4 or openfootball")]
    UnknownFormat(String),
    #[error("the document does not have the format {0}: {1}")]
    WrongShape(&'static str, String),
    #[error("the time zone {0:?} is unknown; use one such as Europe/London")]
    UnknownTimeZone(String),
    #[error("as_of must be a timestamp such as 2026-11-15T12:00:00Z, and not in the future")]
    BadAsOf,
    #[error("the feed could not be fetched: {0}")]
    Fetch(String),
    #[error("promote must be the id of a match, such as {{\"promote\": 9}}")]
    BadPromotion,
    #[error("there is no match {0}")]
    UnknownEvent(u32),
    #[error("match {0} cannot be promoted: {1}")]
    NotPromoted(u32, NotPromoted),
    #[error(
        "another run of feed is working, so nothing was done; invoke feed again with the same payload in a minute"
    )]
    Running,
    #[error("the store failed: {0}")]
    Store(#[from] StoreError),
}
