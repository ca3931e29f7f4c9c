use touchline::Error;
use touchline::domain::session::Unauthenticated;

/// The error for a session whose user has no profile: the user has just deleted the account, and the session is about to end.
pub const NO_PROFILE: Error = Error::Unauthenticated(Unauthenticated::Unknown);
