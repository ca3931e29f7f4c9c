//! Runs many schedules of the bank test: `bank [schedules] [first seed]`, by default 100,000 schedules
//! from seed 0.
//!
//! A seed determines a schedule: the clients' requests to move coins, the faults and the crashes. The program
//! prints the seed of the first schedule that fails. `bank 1 <seed>` runs only the schedule with this seed.
//!
//! If all schedules pass, the program removes one safeguard of the product at a time and runs schedules without it.
//! Each time, at least one schedule must fail.

#![expect(clippy::print_stdout, reason = "prints its results")]
#![expect(clippy::disallowed_methods, reason = "measures time")]

use std::process::ExitCode;
use std::time::Instant;

use touchline_simulation::bank::{Failure, Played, Sabotage, play};

/// How many schedules run between two progress lines.
const BATCH: u64 = 5_000;

fn main() -> ExitCode {
    let number = |at: usize, default: u64| {
        std::env::args().nth(at).map_or(default, |text| text.parse().expect("arguments are whole numbers"))
    };
    let (schedules, first) = (number(1, 100_000), number(2, 0));
    let started = Instant::now();
    let mut total = Played::default();
    let mut from = first;
    while from < first + schedules {
        let to = (from + BATCH).min(first + schedules);
        match run_batch(from, to) {
            Ok(played) => total += played,
            Err(failure) => {
                for line in &failure.trace {
                    println!("{line}");
                }
                println!("FAILED: {failure}\nTo run only this schedule: bank 1 {}", failure.seed);
                return ExitCode::FAILURE;
            }
        }
        let Played { schedules, calls, faults, crashes, entries, .. } = total;
        let seconds = started.elapsed().as_secs();
        println!(
            "{schedules} schedules, {calls} calls, {faults} faults, {crashes} crashes, {entries} ledger entries, no errors ({seconds} s)"
        );
        from = to;
    }
    for sabotage in [Sabotage::BalanceCondition, Sabotage::EntryCondition, Sabotage::Atomicity] {
        match play(0..20_000, sabotage) {
            Ok(_) => {
                println!(
                    "FAILED: without {sabotage:?} every schedule still passes, so the test cannot detect its loss"
                );
                return ExitCode::FAILURE;
            }
            Err(failure) => println!("without {sabotage:?}, as expected: {failure}"),
        }
    }
    ExitCode::SUCCESS
}

/// Runs the two halves of a batch in parallel.
fn run_batch(from: u64, to: u64) -> Result<Played, Failure> {
    let middle = from.midpoint(to);
    let other = std::thread::spawn(move || play(middle..to, Sabotage::None));
    let mut played = play(from..middle, Sabotage::None)?;
    played += other.join().expect("the other thread does not panic")?;
    Ok(played)
}
