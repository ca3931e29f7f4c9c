//! Plays a few small worlds of leaderboards with faults and crashes.
//! `cargo run --profile bench -p touchline-simulation --bin league` plays 100,000.

use touchline_simulation::league::{Played, Sabotage, play};

#[test]
fn every_leaderboard_equals_a_full_sort_after_every_settlement() {
    let played = play(0..4, Sabotage::None).unwrap_or_else(|failure| panic!("{failure}"));
    let Played { settlements, boards, rows, faults, crashes, .. } = played;
    assert!(settlements > 4 && boards > 30 && rows > 60, "{played:?}");
    assert!(faults > 10 && crashes > 0, "{played:?}");
}

#[test]
fn the_same_seed_plays_the_same_world() {
    let together = play(7..9, Sabotage::None).unwrap();
    let mut one_by_one = Played::default();
    for seed in 7..9 {
        one_by_one += play(seed..seed + 1, Sabotage::None).unwrap();
    }
    assert_eq!(one_by_one, together);
}

/// Without the condition, a redelivered record is counted again. `league` removes more safeguards.
#[test]
fn the_worlds_detect_a_missing_safeguard() {
    let found = play(0..50, Sabotage::CountedOnce).unwrap_err();
    let again = play(found.seed..found.seed + 1, Sabotage::CountedOnce).unwrap_err();
    assert_eq!(again, found, "the seed replays the failure");
}
