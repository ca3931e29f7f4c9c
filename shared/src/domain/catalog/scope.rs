use chrono::{DateTime, Datelike as _, Utc};

use super::ChunkName;

/// Which matches of the catalog a request needs. Sports, teams and tournaments are always part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// No matches.
    Teams,
    /// The matches of the month of this time, of the month before it and of the month after it, in UTC. Most requests are
    /// about these.
    Around(DateTime<Utc>),
    /// All matches.
    All,
}

impl Scope {
    #[must_use]
    pub fn includes(self, chunk: ChunkName) -> bool {
        match (self, chunk) {
            (_, ChunkName::Base) | (Self::All, _) => true,
            (Self::Teams, ChunkName::Month { .. }) => false,
            (Self::Around(time), ChunkName::Month { year, month }) => {
                let number = |year: i32, month: u32| i64::from(year) * 12 + i64::from(month);
                number(year, month).abs_diff(number(time.year(), time.month())) <= 1
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_months_are_around_a_time() {
        let december = DateTime::parse_from_rfc3339("2026-12-31T23:59:59Z").unwrap().to_utc();
        let included = |scope: Scope, year, month| scope.includes(ChunkName::Month { year, month });
        for (year, month) in [(2026, 11), (2026, 12), (2027, 1)] {
            assert!(included(Scope::Around(december), year, month));
            assert!(!included(Scope::Teams, year, month));
        }
        for (year, month) in [(2026, 10), (2027, 2), (2025, 12), (2027, 12)] {
            assert!(!included(Scope::Around(december), year, month));
            assert!(included(Scope::All, year, month));
        }
        assert!(Scope::Teams.includes(ChunkName::Base));
    }
}
