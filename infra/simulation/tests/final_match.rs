//! Small finals. `cargo run --profile bench -p touchline-bench --bin final-bench` plays the large ones.

use std::time::Duration;

use touchline::domain::promotion::{FEATURED_SHARDS, SHARDS};
use touchline_simulation::final_match::storm::{self, Storm, StormOutcome};
use touchline_simulation::final_match::{Arrivals, Outcome, PREPARATIONS, Setup, play};
use touchline_simulation::limits::{Affected, Cause, NEW_TABLE, Settings, Throughput, Warmth};
use touchline_stack::resources::Throttle;

const FANS: u64 = 60;

const PLENTY: Throughput = Throughput { reads: 1e6, writes: 1e6 };

/// An account that has more of everything than a small final needs.
fn ample(scale: u32) -> Settings {
    let throttle = Throttle { rate: 1e6, burst: 1e6 };
    Settings {
        scale,
        table: Warmth { warm: Throughput { reads: 12_000.0, writes: 8_000.0 }, quota: PLENTY },
        route: throttle,
        account: throttle,
        concurrency: 100_000,
        tally_memory: None,
        stored_progress: 1,
    }
}

fn setup(settings: Settings) -> Setup {
    Setup {
        seed: 1,
        fans: FANS.try_into().unwrap(),
        shards: FEATURED_SHARDS,
        arrivals: Arrivals::Late,
        settings,
    }
}

#[test]
fn with_ample_limits_every_prediction_is_accepted_counted_and_settled() {
    let outcome = play(&setup(ample(10)));
    assert_eq!(outcome.inexact, [""; 0]);
    assert_eq!((outcome.accepted, outcome.requests), (FANS, FANS), "{outcome:?}");
    assert!(outcome.observed.throttles.is_empty(), "{outcome:?}");
    assert!(outcome.counts_after.is_some() && outcome.points_after < outcome.stats_after, "{outcome:?}");
    let (table, busiest) = outcome.observed.busiest.clone().unwrap();
    assert!(busiest.rate > 0.0 && busiest.share() < 1.0 && !table.is_empty(), "{outcome:?}");
    assert!(outcome.observed.concurrency["predictions"] >= 10, "{outcome:?}");
    assert_eq!(play(&setup(ample(10))).hash, outcome.hash, "the same seed gives the same trace");
}

/// Plays a final of 1,000,000 fans at 1:2,000, with the values of `docs/operations.md` except for the warm throughput.
/// The template says which tables and indexes get the warm throughput. The model is too coarse for the points, which
/// `final-bench` measures.
fn final_of_a_million(warm: Throughput) -> (u64, Outcome) {
    let (scale, prepared) = (2_000, PREPARATIONS[1]);
    let mut settings = prepared.settings(scale);
    settings.table.warm = warm;
    let fans = prepared.fans / scale;
    (fans.into(), play(&Setup { fans, shards: prepared.shards, ..setup(settings) }))
}

#[test]
fn tables_that_were_warmed_for_a_final_accept_every_prediction() {
    let (fans, outcome) = final_of_a_million(PREPARATIONS[1].warm);
    assert_eq!((outcome.accepted, outcome.requests), (fans, fans), "{outcome:?}");
    assert_eq!(outcome.inexact, [""; 0]);
    assert!(outcome.counts_after.is_some_and(|after| after <= Duration::from_mins(1)), "{outcome:?}");
}

#[test]
fn tables_that_were_not_warmed_for_a_final_reject_predictions() {
    let (fans, outcome) = final_of_a_million(NEW_TABLE);
    assert!(outcome.accepted < fans, "{outcome:?}");
    assert!(outcome.observed.throttles.contains_key(&(Cause::Partition, Affected::Fan)), "{outcome:?}");
    assert_eq!(outcome.inexact, [""; 0]);
}

/// A new table gives 12,000 read units a second.
#[test]
fn a_hundred_cold_starts_at_once_load_a_large_catalog_from_a_new_table() {
    let mut settings = ample(1);
    settings.table.warm = NEW_TABLE;
    let storm = Storm { seed: 1, environments: 100, matches: 1_000, settings };
    let StormOutcome { outcome, lasted } = storm::play(&storm);
    assert_eq!((outcome.accepted, outcome.requests), (100, 100), "{outcome:?}");
    assert!(lasted < Duration::from_secs(4), "{lasted:?}, {outcome:?}");
}

#[test]
fn low_limits_throttle_for_their_cause_and_what_was_accepted_is_exact() {
    // At 1:10,000, the fans are 600,000. A third of them arrives within 30 seconds: 6,700 requests a second.
    let scale = 10_000;
    let one_partition = Throughput { reads: 3_000.0, writes: 1_000.0 };
    let mut partition = setup(ample(scale));
    partition.settings.table.warm = one_partition;
    partition.shards = SHARDS;
    let mut table = setup(ample(scale));
    table.settings.table.quota = Throughput { reads: 1e6, writes: 1_000.0 };
    let mut gateway = setup(ample(scale));
    gateway.settings.route = Throttle { rate: 2_000.0, burst: 1_000.0 };
    let mut concurrency = setup(ample(scale));
    // Too few for one request of the model.
    concurrency.settings.concurrency = scale - 1;
    for (setup, cause) in [
        (partition, Cause::Partition),
        (table, Cause::Table),
        (gateway, Cause::Gateway),
        (concurrency, Cause::Concurrency),
    ] {
        let outcome = play(&setup);
        assert!(outcome.observed.throttles.contains_key(&(cause, Affected::Fan)), "{cause:?}: {outcome:?}");
        assert_eq!(outcome.inexact, [""; 0], "{cause:?}");
        assert_eq!(outcome.accepted + outcome.lost.values().sum::<u64>(), FANS, "{cause:?}: {outcome:?}");
    }
}
