use touchline::domain::promotion::FEATURED_SHARDS;
use touchline_stack::resources::Throttle;

use super::as_deployed;
use crate::limits::{ACCOUNT_REQUESTS, CONCURRENCY, NEW_TABLE, Settings, TABLE_QUOTA, Throughput, Warmth};

/// What `docs/operations.md` says to set before a final.
#[derive(Debug, Clone, Copy)]
pub struct Preparation {
    /// How many fans predict.
    pub fans: u32,
    /// The parameter `FeaturedShards`.
    pub shards: u8,
    /// The parameters `WarmReadsPerSecond` and `WarmWritesPerSecond`.
    pub warm: Throughput,
    /// The parameters `RequestsPerSecond` and `RequestsAtOnce`.
    pub route: Throttle,
    /// The parameter `TallyMemory`.
    pub tally_memory: u32,
    /// The quota of concurrent executions.
    pub concurrency: u32,
}

/// For 100,000 fans, only the quota of a new account must be raised to the usual one.
pub const PREPARATIONS: [Preparation; 3] = [
    Preparation {
        fans: 100_000,
        shards: FEATURED_SHARDS,
        warm: NEW_TABLE,
        route: Throttle { rate: 2_000.0, burst: 1_000.0 },
        tally_memory: 256,
        concurrency: CONCURRENCY,
    },
    Preparation {
        fans: 1_000_000,
        shards: 128,
        warm: Throughput { reads: 30_000.0, writes: 60_000.0 },
        route: Throttle { rate: 20_000.0, burst: 10_000.0 },
        tally_memory: 1_769,
        concurrency: 3_000,
    },
    Preparation {
        fans: 5_000_000,
        shards: 240,
        warm: Throughput { reads: 60_000.0, writes: 500_000.0 },
        route: Throttle { rate: 100_000.0, burst: 50_000.0 },
        tally_memory: 1_769,
        concurrency: 10_000,
    },
];

impl Preparation {
    /// Returns the settings of an account and a stack that were prepared so. The account's quotas are raised as far as the
    /// parameters need it.
    #[must_use]
    pub fn settings(&self, scale: u32) -> Settings {
        let quota = Throughput {
            reads: self.warm.reads.max(TABLE_QUOTA.reads),
            writes: self.warm.writes.max(TABLE_QUOTA.writes),
        };
        let account = Throttle {
            rate: self.route.rate.max(ACCOUNT_REQUESTS.rate),
            burst: self.route.burst.max(ACCOUNT_REQUESTS.burst),
        };
        Settings {
            table: Warmth { warm: self.warm, quota },
            route: self.route,
            account,
            concurrency: self.concurrency,
            tally_memory: Some(self.tally_memory),
            ..as_deployed(scale)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `docs/operations.md` shows the same values in a table.
    #[test]
    fn the_operations_guide_has_these_values() {
        let row = |name: &str, value: &dyn Fn(&Preparation) -> f64| {
            let values: Vec<String> = PREPARATIONS.iter().map(|one| value(one).to_string()).collect();
            format!("| {name} | {} |", values.join(" | "))
        };
        let guide = include_str!("../../../../docs/operations.md");
        for row in [
            row("`FeaturedShards`", &|one| one.shards.into()),
            row("`WarmReadsPerSecond`", &|one| one.warm.reads),
            row("`WarmWritesPerSecond`", &|one| one.warm.writes),
            row("`RequestsPerSecond`", &|one| one.route.rate),
            row("`RequestsAtOnce`", &|one| one.route.burst),
            row("`TallyMemory`", &|one| one.tally_memory.into()),
            row("quota: concurrent executions of Lambda", &|one| one.concurrency.into()),
        ] {
            assert!(guide.contains(&row), "docs/operations.md lacks {row}");
        }
    }
}
