use touchline::Error;

/// The error for a session whose user has no record. It should never occur: a user's record is written
/// together with their first session and is never deleted.
pub const NO_RECORD: Error = Error::Broken("a session's user has no record");
