//! Small worlds. `cargo run --profile bench -p touchline-simulation -- --worlds 1000` plays larger ones.

use touchline_simulation::{Plan, play};

fn small(seed: u64) -> Plan {
    Plan { people: 3, requests: 60, matches: 1, faults: 30, ..Plan::of(seed) }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let (one, other) = (play(small(1), true), play(small(1), true));
    let difference = one.trace.iter().zip(&other.trace).find(|(one, other)| one != other);
    assert_eq!(difference, None);
    assert_eq!(one.hash, other.hash);
    assert!(one.requests > 30, "{} requests", one.requests);
}

#[test]
fn small_worlds_with_faults_have_no_violations() {
    for seed in 10..12 {
        let report = play(small(seed), false);
        assert_eq!(report.violations, Vec::<String>::new(), "seed {seed}");
        assert!(report.faults.values().sum::<u64>() > 0, "seed {seed}: {:?}", report.faults);
    }
}
