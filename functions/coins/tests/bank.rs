//! The bank under faults: some schedules on every run. `cargo run --profile bench -p touchline-bench --bin bank` plays
//! a hundred thousand.

use touchline_testing::bank::{Sabotage, play};

#[test]
fn no_schedule_loses_doubles_or_overdraws() {
    let played = play(0..1_000, Sabotage::None).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(played.faults > 1_000 && played.deaths > 200 && played.entries > 2_000, "{played:?}");
}

#[test]
fn the_same_seed_plays_the_same_schedule() {
    let first = play(7..40, Sabotage::None).unwrap();
    assert_eq!(play(7..40, Sabotage::None).unwrap(), first);
    let found = play(0..2_000, Sabotage::BalanceCondition).unwrap_err();
    let again = play(found.seed..found.seed + 1, Sabotage::BalanceCondition).unwrap_err();
    assert_eq!(again, found, "a failure is replayed by its seed");
}

/// With any one of its safeguards taken away the bank is broken, and the simulation says so.
#[test]
fn each_safeguard_is_missed() {
    for sabotage in [Sabotage::BalanceCondition, Sabotage::EntryCondition, Sabotage::Atomicity] {
        assert!(play(0..2_000, sabotage).is_err(), "{sabotage:?} goes unnoticed");
    }
}
