use touchline::Error;

/// The error for a session whose user has no profile. It should never occur: a user's profile is written
/// together with their first session and is never deleted.
pub const NO_PROFILE: Error = Error::Broken("a session's user has no profile");
