//! The rate limits of [`crate::domain::limit`] as DynamoDB expressions. The attributes `m0` (newest), `m1`
//! and so on hold the ids of the latest admitted requests.
//!
//! An update expression reads the item as it was before the update, so `SET m0 = :new, m1 = m0, m2 = m1`
//! shifts all ids in one write.

use std::collections::HashMap;
use std::fmt::Write as _;

use aws_sdk_dynamodb::types::AttributeValue;
use chrono::{DateTime, Utc};

use super::item::{Item, text};
use crate::domain::limit::{self, Limit};

/// The value of an attribute that holds no request id. It sorts before every request id, so it counts as older than
/// every request.
const NEVER: &str = "0";

/// A change of the recorded ids: the parts of a conditional update.
#[derive(Debug, PartialEq)]
pub(super) struct Shift {
    pub set: String,
    pub condition: String,
    pub values: HashMap<String, AttributeValue>,
}

/// Builds an update that inserts `request_id` as the newest of `depth` ids, if every limit admits the request. The
/// condition also fails if the id is already recorded, so a retried write does not insert it twice.
pub(super) fn admit(limits: &[Limit], depth: usize, request_id: &str, now: DateTime<Utc>) -> Shift {
    let mut values = HashMap::from([(":request".into(), text(request_id))]);
    let mut set = "m0 = :request".to_owned();
    for position in 1..depth {
        // DynamoDB rejects values that no expression uses, so `:never` is added with its first use.
        values.insert(":never".into(), text(NEVER));
        let _ = write!(set, ", m{position} = if_not_exists(m{}, :never)", position - 1);
    }
    let mut conditions = Vec::new();
    for position in 0..depth {
        conditions.push(format!("(attribute_not_exists(m{position}) OR m{position} <> :request)"));
    }
    for (at, limit) in limits.iter().enumerate() {
        let position = limit.count - 1;
        conditions.push(format!("(attribute_not_exists(m{position}) OR m{position} <= :outside{at})"));
        values.insert(format!(":outside{at}"), text(limit::outside(limit.window, now)));
    }
    let condition = conditions.join(" AND ");
    Shift { set, condition, values }
}

/// Builds an update that removes `request_id` from `position` and moves each older one of `depth` ids one position closer
/// to `m0`.
pub(super) fn release(depth: usize, position: usize, request_id: &str) -> Shift {
    let mut set = String::new();
    for to in position..depth - 1 {
        let _ = write!(set, "m{to} = if_not_exists(m{}, :never), ", to + 1);
    }
    let _ = write!(set, "m{} = :never", depth - 1);
    Shift {
        set,
        condition: format!("m{position} = :request"),
        values: HashMap::from([(":request".into(), text(request_id)), (":never".into(), text(NEVER))]),
    }
}

/// Returns the maximum number of attempts to release an id. An attempt fails if the id is no longer at the expected
/// position: each concurrent admission or release can move the id by one position. The maximum allows for twice as
/// many moves as there are positions.
pub(super) fn release_attempts(depth: usize) -> u32 {
    u32::try_from(2 * depth + 1).unwrap_or(u32::MAX)
}

/// Returns the request ids that an item holds, newest first. An attribute without a request id appears as
/// `NEVER`.
pub(super) fn request_ids(item: &Item) -> Vec<String> {
    (0..).map_while(|position| item.get(&format!("m{position}"))?.as_s().ok().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    const LIMITS: [Limit; 2] =
        [Limit { count: 2, window: TimeDelta::minutes(10) }, Limit { count: 3, window: TimeDelta::days(1) }];

    #[test]
    fn an_admission_shifts_the_recorded_requests_and_checks_each_limit() {
        let shift = admit(&LIMITS, 3, "x", DateTime::from_timestamp(1_763_000_000, 0).unwrap());
        assert_eq!(
            shift.set,
            "m0 = :request, m1 = if_not_exists(m0, :never), m2 = if_not_exists(m1, :never)"
        );
        assert_eq!(
            shift.condition,
            "(attribute_not_exists(m0) OR m0 <> :request) \
             AND (attribute_not_exists(m1) OR m1 <> :request) \
             AND (attribute_not_exists(m2) OR m2 <> :request) \
             AND (attribute_not_exists(m1) OR m1 <= :outside0) \
             AND (attribute_not_exists(m2) OR m2 <= :outside1)"
        );
    }

    #[test]
    fn a_release_fills_the_gap_with_the_next_older_id() {
        assert_eq!(release(3, 1, "x").set, "m1 = if_not_exists(m2, :never), m2 = :never");
        assert_eq!(release(3, 2, "x").set, "m2 = :never");
    }
}
