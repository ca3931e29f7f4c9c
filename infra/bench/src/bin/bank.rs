//! The bank test at length: `bank [schedules] [first seed]`, 100,000 from 0 on. Prints the seed of a schedule that
//! fails; `bank 1 <seed>` plays that one alone. Ends with what each missing safeguard leads to.

#![expect(clippy::print_stdout, reason = "it prints what it finds")]
#![expect(clippy::disallowed_methods, reason = "it measures time")]

use std::process::ExitCode;
use std::time::Instant;

use touchline_testing::bank::{Failure, Played, Sabotage, play};

/// How many are played before the progress is told.
const PORTION: u64 = 5_000;

fn main() -> ExitCode {
    let number = |at: usize, default: u64| {
        std::env::args().nth(at).map_or(default, |text| text.parse().expect("a whole number"))
    };
    let (schedules, first) = (number(1, 100_000), number(2, 0));
    let started = Instant::now();
    let mut total = Played::default();
    let mut from = first;
    while from < first + schedules {
        let to = (from + PORTION).min(first + schedules);
        match portion(from, to) {
            Ok(played) => total += played,
            Err(failure) => {
                println!("FAILED, {failure}\nplay it alone with: bank 1 {}", failure.seed);
                return ExitCode::FAILURE;
            }
        }
        let Played { schedules, calls, faults, crashes, entries } = total;
        let seconds = started.elapsed().as_secs();
        println!(
            "{schedules} schedules, {calls} calls, {faults} faults, {crashes} crashes, {entries} entries: sound ({seconds} s)"
        );
        from = to;
    }
    for sabotage in [Sabotage::BalanceCondition, Sabotage::EntryCondition, Sabotage::Atomicity] {
        match play(0..20_000, sabotage) {
            Ok(_) => {
                println!("FAILED, without {sabotage:?} nothing goes wrong: the simulation is blind");
                return ExitCode::FAILURE;
            }
            Err(failure) => println!("without {sabotage:?}: {failure}"),
        }
    }
    ExitCode::SUCCESS
}

/// Two halves side by side.
fn portion(from: u64, to: u64) -> Result<Played, Failure> {
    let middle = from.midpoint(to);
    let other = std::thread::spawn(move || play(middle..to, Sabotage::None));
    let mut played = play(from..middle, Sabotage::None)?;
    played += other.join().expect("the other half")?;
    Ok(played)
}
