//! `touchline-simulation --worlds N` plays N new worlds. `--seed S` replays one.

#![expect(clippy::print_stdout, reason = "prints its results")]
#![expect(clippy::disallowed_methods, reason = "measures time and draws new seeds")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use clap::Parser;
use touchline::ports::random::{Random, SystemRandom};
use touchline_simulation::{Guards, Plan, Report, current_seed, play, shrink};

/// The seeds of worlds in which a check once failed. They are played first.
const SEEDS: &str = include_str!("../seeds.txt");

/// Plays the whole product in virtual time, under the faults of AWS.
#[derive(Debug, Parser)]
struct Arguments {
    /// How many new worlds to play.
    #[arg(long, default_value_t = 100)]
    worlds: u64,
    /// Starts no new world after this many seconds.
    #[arg(long)]
    seconds: Option<u64>,
    /// The seed of the first world; the others follow. Without it, the seeds are random.
    #[arg(long)]
    first: Option<u64>,
    /// Plays only the world of this seed and prints its hash.
    #[arg(long)]
    seed: Option<u64>,
    /// With --seed: the number of people, instead of the seed's.
    #[arg(long)]
    people: Option<u32>,
    /// With --seed: the number of requests after which the people stop, instead of the seed's.
    #[arg(long)]
    requests: Option<u32>,
    /// With --seed: the number of matches, instead of the seed's.
    #[arg(long)]
    matches: Option<u32>,
    /// With --seed: how many of 1,000 calls to the store have a fault, instead of the seed's number.
    #[arg(long)]
    faults: Option<u32>,
    /// With --seed: writes what happened in the world to this file.
    #[arg(long)]
    trace: Option<PathBuf>,
    /// Stops at the first world in which a check fails, and does not make the world smaller.
    #[arg(long)]
    stop: bool,
    /// Prints how often the condition of each kind of write held and failed.
    #[arg(long)]
    guards: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    report_panics();
    match arguments.seed {
        Some(seed) => replay(seed, &arguments),
        None => explore(&arguments),
    }
}

/// Ends the program at the first panic, with the seed of its world. A panic is a violation, too.
fn report_panics() {
    let print_panic = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print_panic(panic);
        if let Some(seed) = current_seed() {
            println!("seed {seed}: the product or the simulation panicked. Replay it with --seed {seed}.");
        }
        std::process::exit(1);
    }));
}

/// Plays one world and prints everything about it.
fn replay(seed: u64, arguments: &Arguments) -> ExitCode {
    let plan = Plan::of(seed);
    let plan = Plan {
        people: arguments.people.unwrap_or(plan.people),
        requests: arguments.requests.unwrap_or(plan.requests),
        matches: arguments.matches.unwrap_or(plan.matches),
        faults: arguments.faults.unwrap_or(plan.faults),
        ..plan
    };
    let report = play(plan, arguments.trace.is_some());
    println!("{plan:?}");
    println!("{} requests, faults: {}", report.requests, listed(&report.faults));
    if let Some(file) = &arguments.trace
        && let Err(error) = std::fs::write(file, report.trace.join("\n"))
    {
        println!("{} cannot be written: {error}", file.display());
    }
    if arguments.guards {
        print_guards(&report.guards);
    }
    for violation in &report.violations {
        println!("VIOLATION {violation}");
    }
    println!("hash {:016x}", report.hash);
    if report.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The sums over all worlds.
#[derive(Default)]
struct Sums {
    worlds: u64,
    requests: u64,
    faults: BTreeMap<String, u64>,
    guards: Guards,
    violations: usize,
    failed: Vec<Plan>,
}

impl Sums {
    fn add(&mut self, report: Report) {
        self.worlds += 1;
        self.requests += report.requests;
        for (fault, count) in report.faults {
            *self.faults.entry(fault).or_default() += count;
        }
        for (name, guard) in report.guards {
            let sum = self.guards.entry(name).or_default();
            sum.held += guard.held;
            sum.failed += guard.failed;
        }
        self.violations += report.violations.len();
        if let Some(first) = report.violations.first() {
            println!("seed {}: {first}", report.plan.seed);
            self.failed.push(report.plan);
        }
    }
}

/// Plays many worlds, on all cores.
fn explore(arguments: &Arguments) -> ExitCode {
    let started = Instant::now();
    let random: &dyn Random = &SystemRandom;
    let first = arguments.first.unwrap_or_else(|| u64::from(random.number()) << 20);
    let known: Vec<u64> = SEEDS.lines().filter_map(|line| line.split(' ').next()?.parse().ok()).collect();
    let known_count = known.len() as u64;
    let next = AtomicU64::new(0);
    let has_failed = AtomicBool::new(false);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (finished, reports) = mpsc::channel();
    let mut sums = Sums::default();
    std::thread::scope(|scope| {
        for _ in 0..cores {
            let (finished, next, known, has_failed) = (finished.clone(), &next, &known, &has_failed);
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let is_late = arguments.seconds.is_some_and(|most| started.elapsed().as_secs() >= most)
                        || (arguments.stop && has_failed.load(Ordering::Relaxed));
                    if number >= known_count + arguments.worlds
                        || (is_late && (number >= known_count || arguments.stop))
                    {
                        return;
                    }
                    let seed = usize::try_from(number).ok().and_then(|at| known.get(at).copied());
                    let seed = seed.unwrap_or_else(|| first + (number - known_count));
                    let report = play(Plan::of(seed), false);
                    has_failed.fetch_or(!report.violations.is_empty(), Ordering::Relaxed);
                    let _ = finished.send(report);
                }
            });
        }
        drop(finished);
        let mut shown = Instant::now();
        for report in reports {
            sums.add(report);
            if shown.elapsed() > Duration::from_secs(30) {
                println!("{} worlds, {} s", sums.worlds, started.elapsed().as_secs());
                shown = Instant::now();
            }
        }
    });
    if arguments.guards {
        print_guards(&sums.guards);
    }
    println!("faults: {}", listed(&sums.faults));
    if let Some(plan) = sums.failed.first().filter(|_| !arguments.stop) {
        println!("Making the world of seed {} smaller ...", plan.seed);
        let Plan { seed, people, requests, matches, faults } = shrink(*plan);
        println!(
            "To replay it: cargo run --profile bench -p touchline-simulation -- --seed {seed} --people {people} \
             --requests {requests} --matches {matches} --faults {faults} --trace trace.txt"
        );
    }
    let Sums { worlds, requests, faults, violations, failed, .. } = sums;
    let faults: u64 = faults.values().sum();
    println!("new seeds from {first}");
    println!("{worlds} worlds, {requests} requests, {faults} faults, {violations} violations");
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn listed(counts: &BTreeMap<String, u64>) -> String {
    counts.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
}

fn print_guards(guards: &Guards) {
    println!("{:>9} {:>9}  condition", "held", "failed");
    for (name, guard) in guards {
        println!("{:>9} {:>9}  {name}", guard.held, guard.failed);
    }
}
