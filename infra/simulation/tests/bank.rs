//! Simulates the wallet in 200 random schedules of requests and faults. CI simulates 30,000, and these are among them.
//! `cargo run --profile bench -p touchline-simulation --bin bank` simulates 100,000.

use touchline_simulation::bank::{Played, Sabotage, play};

#[test]
fn no_schedule_loses_or_duplicates_coins_or_overdraws_a_wallet() {
    let played = play(0..200, Sabotage::None).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(played.faults > 200 && played.crashes > 40 && played.entries > 400, "{played:?}");
}

#[test]
fn the_same_seed_plays_the_same_schedule() {
    let together = play(7..40, Sabotage::None).unwrap();
    let mut one_by_one = Played::default();
    for seed in 7..40 {
        one_by_one += play(seed..seed + 1, Sabotage::None).unwrap();
    }
    assert_eq!(one_by_one, together);
    let found = play(0..2_000, Sabotage::BalanceCondition).unwrap_err();
    let again = play(found.seed..found.seed + 1, Sabotage::BalanceCondition).unwrap_err();
    assert_eq!(again, found, "the seed replays the failure");
}

/// Each sabotage removes one safeguard of the wallet. The checks of the simulation must then fail.
#[test]
fn the_simulation_detects_each_missing_safeguard() {
    for sabotage in [Sabotage::BalanceCondition, Sabotage::EntryCondition, Sabotage::Atomicity] {
        assert!(play(0..2_000, sabotage).is_err(), "the checks do not notice {sabotage:?}");
    }
}
