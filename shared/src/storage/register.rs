//! The register of [`crate::domain::limit`] as DynamoDB expressions: attributes `m0` (newest) to `mN`.
//!
//! An update expression reads the item as it was before, so `SET m0 = :new, m1 = m0, m2 = m1` shifts the
//! whole register in one write.

use std::collections::HashMap;
use std::fmt::Write as _;

use aws_sdk_dynamodb::types::AttributeValue;
use chrono::{DateTime, Utc};

use super::{Item, text};
use crate::domain::limit::{self, Limit};

/// A mark older than all others, for places never filled.
const NEVER: &str = "0";

/// Parts of an update expression.
#[derive(Debug, PartialEq)]
pub(super) struct Shift {
    pub set: String,
    pub condition: String,
    pub values: HashMap<String, AttributeValue>,
}

/// Puts `mark` in front, provided that every limit has room, and that it is not there already: a write
/// that arrives twice takes one place.
pub(super) fn admit(limits: &[Limit], mark: &str, now: DateTime<Utc>) -> Shift {
    let depth = limit::depth(limits);
    let mut values = HashMap::from([(":mark".into(), text(mark))]);
    let mut set = "m0 = :mark".to_owned();
    for place in 1..depth {
        // DynamoDB refuses values that no expression uses, so this one comes with its first use.
        values.insert(":never".into(), text(NEVER));
        let _ = write!(set, ", m{place} = if_not_exists(m{}, :never)", place - 1);
    }
    let mut conditions = Vec::new();
    for place in 0..depth {
        conditions.push(format!("(attribute_not_exists(m{place}) OR m{place} <> :mark)"));
    }
    for (at, limit) in limits.iter().enumerate() {
        let place = limit.count - 1;
        conditions.push(format!("(attribute_not_exists(m{place}) OR m{place} <= :outside{at})"));
        values.insert(format!(":outside{at}"), text(limit::outside(limit.window, now)));
    }
    let condition = conditions.join(" AND ");
    Shift { set, condition, values }
}

/// Takes the mark at `place` out again and closes the gap.
pub(super) fn give_back(limits: &[Limit], place: usize, mark: &str) -> Shift {
    let depth = limit::depth(limits);
    let mut set = String::new();
    for to in place..depth - 1 {
        let _ = write!(set, "m{to} = if_not_exists(m{}, :never), ", to + 1);
    }
    let _ = write!(set, "m{} = :never", depth - 1);
    Shift {
        set,
        condition: format!("m{place} = :mark"),
        values: HashMap::from([(":mark".into(), text(mark)), (":never".into(), text(NEVER))]),
    }
}

/// How many attempts a removal needs at most. Concurrent requests shift an entry by one position each, in
/// either direction.
pub(super) fn removal_attempts(limits: &[Limit]) -> u32 {
    u32::try_from(2 * limit::depth(limits) + 1).unwrap_or(u32::MAX)
}

/// The marks of an item, newest first.
pub(super) fn marks(item: &Item) -> Vec<String> {
    (0..).map_while(|place| item.get(&format!("m{place}"))?.as_s().ok().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    const LIMITS: [Limit; 2] =
        [Limit { count: 2, window: TimeDelta::minutes(10) }, Limit { count: 3, window: TimeDelta::days(1) }];

    #[test]
    fn admission_shifts_the_register_and_checks_each_limit() {
        let shift = admit(&LIMITS, "x", DateTime::from_timestamp(1_763_000_000, 0).unwrap());
        assert_eq!(shift.set, "m0 = :mark, m1 = if_not_exists(m0, :never), m2 = if_not_exists(m1, :never)");
        assert_eq!(
            shift.condition,
            "(attribute_not_exists(m0) OR m0 <> :mark) \
             AND (attribute_not_exists(m1) OR m1 <> :mark) \
             AND (attribute_not_exists(m2) OR m2 <> :mark) \
             AND (attribute_not_exists(m1) OR m1 <= :outside0) \
             AND (attribute_not_exists(m2) OR m2 <= :outside1)"
        );
    }

    #[test]
    fn giving_back_closes_the_gap() {
        assert_eq!(give_back(&LIMITS, 1, "x").set, "m1 = if_not_exists(m2, :never), m2 = :never");
        assert_eq!(give_back(&LIMITS, 2, "x").set, "m2 = :never");
    }
}
