//! The return of an account to its previous phone, after somebody else has changed the phone.

use chrono::{DateTime, TimeDelta, Utc};

use super::Phone;

/// How long the owner of an account's previous phone can undo a change of the phone.
pub const UNDO_FOR: TimeDelta = TimeDelta::hours(72);

/// Why a change of a phone cannot be undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UndoError {
    #[error("no account has changed from this phone")]
    NoChange,
    #[error("another user owns the previous phone")]
    PhoneInUse,
}

/// A previous phone of a user, whose owner can take the account back for some time. It is the phone before the first of
/// several changes: otherwise a thief could give the account two new phones, and the first would become the previous one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    pub phone: Phone,
    pub until: DateTime<Utc>,
}

impl Recovery {
    /// Returns the recovery after the phone of a user changes from `old` to `new` now. `current` is the recovery before.
    #[must_use]
    pub fn after_change(
        current: Option<&Self>,
        old: &Phone,
        new: &Phone,
        now: DateTime<Utc>,
    ) -> Option<Self> {
        let open = current.filter(|recovery| recovery.until > now).cloned();
        let recovery = open.unwrap_or_else(|| Self { phone: old.clone(), until: now + UNDO_FOR });
        Some(recovery).filter(|recovery| recovery.phone != *new)
    }

    /// Returns whether the owner of `phone` can take the account back now.
    #[must_use]
    pub fn allows(&self, phone: &Phone, now: DateTime<Utc>) -> bool {
        self.phone == *phone && self.until > now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_phone_before_the_first_of_several_changes_can_take_the_account_back() {
        let [p, q, r] =
            ["+447700900001", "+447700900002", "+447700900003"].map(|text| Phone::parse(text).unwrap());
        let now = DateTime::from_timestamp(1_763_000_000, 0).unwrap();
        let first = Recovery::after_change(None, &p, &q, now);
        assert_eq!(first, Some(Recovery { phone: p.clone(), until: now + UNDO_FOR }));
        let hour = TimeDelta::hours(1);
        assert_eq!(Recovery::after_change(first.as_ref(), &q, &r, now + hour), first);
        assert_eq!(Recovery::after_change(first.as_ref(), &q, &p, now + hour), None);
        let later = now + UNDO_FOR;
        let second = Recovery::after_change(first.as_ref(), &q, &r, later).unwrap();
        assert_eq!(second, Recovery { phone: q.clone(), until: later + UNDO_FOR });
        assert!(second.allows(&q, later) && !second.allows(&p, later) && !second.allows(&q, second.until));
    }
}
