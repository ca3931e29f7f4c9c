use std::time::Duration;

/// How long a request of the API can be under way: Lambda ends it after this time. A login or a join that began before a
/// suspension or a removal can store its result afterwards, so these actions make a second pass after this time.
pub const LONGEST_REQUEST: Duration = Duration::from_secs(if cfg!(test) { 0 } else { 10 });
