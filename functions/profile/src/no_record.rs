use touchline::Error;

/// A session whose user has no record. The record is written with the first session and never deleted.
pub const NO_RECORD: Error = Error::Broken("a session's user has no record");
