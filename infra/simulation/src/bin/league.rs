//! Plays many small worlds of leaderboards: `league [worlds] [first seed]`, by default 100,000 worlds from seed 0.
//!
//! A seed determines a world: the predictions, the results, the faults and the crashes. The program prints the trace
//! and the seed of the first world that fails. `league 1 <seed>` plays only the world with this seed.
//!
//! After 10,000 worlds or more without a failure, the program removes one safeguard of the product at a time and
//! plays worlds without it. Each time, at least one world must fail.

#![expect(clippy::print_stdout, reason = "prints its results")]
#![expect(clippy::disallowed_methods, reason = "measures time")]

use std::process::ExitCode;
use std::time::Instant;

use touchline_simulation::league::{Failure, Played, Sabotage, play};

/// How many worlds are played between two progress lines.
const BATCH: u64 = 500;

/// A run of fewer worlds removes no safeguards, because that takes minutes.
const WORLDS_BEFORE_SABOTAGE: u64 = 10_000;

/// How many worlds are played without a safeguard. One of them must fail.
const SABOTAGED: u64 = 2_000;

fn main() -> ExitCode {
    let number = |at: usize, default: u64| {
        std::env::args().nth(at).map_or(default, |text| text.parse().expect("arguments are whole numbers"))
    };
    let (worlds, first) = (number(1, 100_000), number(2, 0));
    let started = Instant::now();
    let mut total = Played::default();
    let mut from = first;
    while from < first + worlds {
        let to = (from + BATCH).min(first + worlds);
        match play_batch(from, to) {
            Ok(played) => total += played,
            Err(failure) => {
                for line in &failure.trace {
                    println!("{line}");
                }
                println!("FAILED: {failure}\nTo play only this world: league 1 {}", failure.seed);
                return ExitCode::FAILURE;
            }
        }
        println!("{total}, no difference ({} s)", started.elapsed().as_secs());
        from = to;
    }
    if worlds < WORLDS_BEFORE_SABOTAGE {
        return ExitCode::SUCCESS;
    }
    for sabotage in Sabotage::ALL {
        match play(0..SABOTAGED, sabotage) {
            Ok(_) => {
                println!(
                    "FAILED: without {sabotage:?} every world still passes, so the test cannot detect its loss"
                );
                return ExitCode::FAILURE;
            }
            Err(failure) => println!("without {sabotage:?}, as expected: {failure}"),
        }
    }
    ExitCode::SUCCESS
}

/// Plays the two halves of a batch in parallel.
fn play_batch(from: u64, to: u64) -> Result<Played, Box<Failure>> {
    let middle = from.midpoint(to);
    let other = std::thread::spawn(move || play(middle..to, Sabotage::None));
    let mut played = play(from..middle, Sabotage::None)?;
    played += other.join().expect("the other thread does not panic")?;
    Ok(played)
}
