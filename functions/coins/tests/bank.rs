//! The bank under faults: some schedules on every run. `cargo run --profile bench -p touchline-bench --bin bank` plays
//! a hundred thousand.

use touchline_testing::bank::{Sabotage, play};

#[test]
fn no_schedule_loses_doubles_or_overdraws() {
    let played = play(0..1_500, Sabotage::None).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(played.faults > 1_000 && played.deaths > 300 && played.entries > 3_000, "{played:?}");
}

#[test]
fn the_same_seed_plays_the_same_schedule() {
    let once = play(7..40, Sabotage::None).unwrap();
    assert_eq!(play(7..40, Sabotage::None).unwrap(), once);
    let (all, one) = (play(0..2_000, Sabotage::BalanceCondition).unwrap_err(), |seed| {
        play(seed..seed + 1, Sabotage::BalanceCondition).unwrap_err()
    });
    assert_eq!(one(all.seed), all, "a failure is replayed by its seed");
}

/// With any one of its safeguards taken away the bank is broken, and the simulation says so.
#[test]
fn each_safeguard_is_missed() {
    for sabotage in [Sabotage::BalanceCondition, Sabotage::EntryCondition, Sabotage::Atomicity] {
        assert!(play(0..2_000, sabotage).is_err(), "{sabotage:?} goes unnoticed");
    }
}
