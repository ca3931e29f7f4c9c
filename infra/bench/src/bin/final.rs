//! Plays a final with up to 5,000,000 fans as a scale model, through the real functions and within AWS's limits.
//!
//! `final-bench [--quick] [--scale 100] [--row <part of a name>] [--write | --check]`. The same arguments
//! give the same figures. Ends with status 2 if counts, points or statistics are not exact at the end. Throttles and lost
//! predictions are figures, not failures.

#![expect(clippy::print_stderr, reason = "says how far it is")]
#![expect(clippy::disallowed_methods, reason = "measures how long a row takes")]

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::Parser;
use touchline::domain::promotion::{FEATURED_SHARDS, SHARDS};
use touchline_bench::report::Report;
use touchline_simulation::final_match::storm::{self, Storm, StormOutcome};
use touchline_simulation::final_match::{
    Arrivals, Outcome, PREPARATIONS, Preparation, Setup, as_deployed, play,
};
use touchline_simulation::limits::{Affected, Cause, Kind, NEW_TABLE, Settings, Throughput, Warmth};

/// Plays a final as a scale model.
#[derive(Debug, Parser)]
struct Arguments {
    /// How many fans one fan of the model stands for, in a final with 5,000,000 fans. The default is 100, or 1,000 with
    /// --quick.
    #[arg(long)]
    scale: Option<u32>,
    /// Plays fewer rows of a smaller model.
    #[arg(long)]
    quick: bool,
    /// Plays only the rows whose title contains this text, such as "prepared for 5 M, 5,000,000 fans, even". With "cold
    /// starts", plays only the table of cold starts.
    #[arg(long)]
    row: Option<String>,
    /// Replaces the section of docs/benchmarks.md.
    #[arg(long, conflicts_with = "check")]
    write: bool,
    /// Has no effect: the figures of a simulation do not depend on the machine. tests/benchmarks passes it to every
    /// benchmark.
    #[arg(long)]
    check: bool,
}

/// The title of the table of cold starts, for `--row`.
const STORMS: &str = "cold starts";

struct Row {
    name: &'static str,
    setup: Setup,
}

impl Row {
    fn title(&self) -> String {
        let fans = u64::from(self.setup.fans) * u64::from(self.setup.settings.scale);
        format!("{}, {} fans, {}", self.name, thousands(fans), self.setup.arrivals.name())
    }
}

/// The rows of the table. `scale` is that of the final with the most fans. The others have smaller models, but never coarser
/// ones.
fn rows(scale: u32, is_quick: bool) -> Vec<Row> {
    let [small, medium, large] = PREPARATIONS;
    let row = |fans: u32, name, shards, arrivals, settings: Settings| Row {
        name,
        setup: Setup { seed: 1, fans: fans / settings.scale, shards, arrivals, settings },
    };
    let prepared = |fans: Preparation, name, arrivals, scale| {
        row(fans.fans, name, fans.shards, arrivals, fans.settings(scale))
    };
    let mut rows = vec![prepared(large, "prepared for 5 M", Arrivals::Late, scale)];
    if !is_quick {
        // These rows decide less, and each fan takes milliseconds.
        let coarse = scale * 5 / 2;
        let more_fans = Preparation { fans: large.fans * 10, ..large };
        rows.extend([
            row(large.fans, "as deployed", FEATURED_SHARDS, Arrivals::Late, as_deployed(scale)),
            prepared(more_fans, "prepared for 5 M", Arrivals::Late, scale * 20),
            prepared(large, "prepared for 5 M", Arrivals::Growing, coarse),
            prepared(large, "prepared for 5 M", Arrivals::Even, coarse),
            row(large.fans, "prepared for 5 M, 4 shards", SHARDS, Arrivals::Late, large.settings(coarse)),
            prepared(medium, "prepared for 1 M", Arrivals::Late, scale / 2),
            prepared(small, "prepared for 100,000", Arrivals::Late, scale / 10),
        ]);
    }
    rows
}

fn main() -> ExitCode {
    let Arguments { scale, quick, row, .. } = Arguments::parse();
    let scale = scale.unwrap_or(if quick { 1_000 } else { 100 });
    let mut rows = rows(scale, quick);
    rows.retain(|one| row.as_ref().is_none_or(|part| one.title().contains(part.as_str())));
    let outcomes = play_all(&rows);
    let mut report = Report::new("final-bench");
    report.line("All figures are at full scale.\n");
    add_tables(&mut report, &rows, &outcomes);
    if row.is_none_or(|part| STORMS.contains(&part)) {
        add_storms(&mut report, quick);
    }
    let mut is_exact = true;
    for (row, outcome) in rows.iter().zip(&outcomes) {
        for inexact in &outcome.inexact {
            is_exact = false;
            report.line(format!("NOT EXACT, {}: {inexact}", row.title()));
        }
    }
    report.finish();
    // Status 1 means that a ratio is too high, and then tests/benchmarks tries again.
    if is_exact { ExitCode::SUCCESS } else { ExitCode::from(2) }
}

/// Plays cold starts at the same moment, with a catalog of 36 months.
fn add_storms(report: &mut Report, quick: bool) {
    report.line("");
    report.line("| read units of the tables, a second | concurrent cold starts | matches | requests | accepted | throttled reads | until the last is accepted |");
    report.line("|---|---|---|---|---|---|---|");
    for reads in [NEW_TABLE.reads, 60_000.0] {
        let throughput = Throughput { reads, writes: 200_000.0 };
        let [.., large] = PREPARATIONS;
        let mut settings = large.settings(1);
        settings.table = Warmth { warm: throughput, quota: throughput };
        let (environments, matches) = if quick { (100, 1_000) } else { (1_000, 1_500) };
        let StormOutcome { outcome, lasted } =
            storm::play(&Storm { seed: 1, environments, matches, settings });
        report.line(format!(
            "| {reads:.0} | {environments} | 36 × {matches} | {} | {} | {} | {:.1} s |",
            outcome.requests,
            outcome.accepted,
            thousands(outcome.observed.throttles.values().sum()),
            lasted.as_secs_f64()
        ));
    }
}

/// Plays the rows, two at a time.
fn play_all(rows: &[Row]) -> Vec<Outcome> {
    let next = Mutex::new(0..rows.len());
    let outcomes = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(number) = next.lock().expect("no thread panics").next() else { return };
                    let (began, row) = (Instant::now(), &rows[number]);
                    let outcome = play(&row.setup);
                    let took = began.elapsed().as_secs();
                    eprintln!("{}: {took} s, {outcome:?}", row.title());
                    outcomes.lock().expect("no thread panics").insert(number, outcome);
                }
            });
        }
    });
    outcomes.into_inner().expect("no thread panics").into_values().collect()
}

fn add_tables(report: &mut Report, rows: &[Row], outcomes: &[Outcome]) {
    report.line("| stack | fans | arrivals | model | requests | accepted | lost | gateway throttles | Lambda throttles | partition throttles | index throttles | table quota throttles | throttles of `tally` and `points` |");
    report.line("|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for (row, outcome) in rows.iter().zip(outcomes) {
        let scale = row.setup.settings.scale;
        let full = |count: u64| thousands(count * u64::from(scale));
        let throttles = &outcome.observed.throttles;
        let by = |causes: &[Cause]| {
            thousands(causes.iter().filter_map(|cause| throttles.get(&(*cause, Affected::Fan))).sum())
        };
        let background = throttles.iter().filter(|((_, affected), _)| *affected == Affected::Background);
        let lost: u64 = outcome.lost.values().sum();
        let share = 100.0 * f64::from(u32::try_from(lost).unwrap_or(u32::MAX)) / f64::from(row.setup.fans);
        report.line(format!(
            "| {} | {} | {} | {} at 1:{scale} | {} | {} | {} ({share:.1} %) | {} | {} | {} | {} | {} | {} |",
            row.name,
            full(u64::from(row.setup.fans)),
            row.setup.arrivals.name(),
            thousands(u64::from(row.setup.fans)),
            full(outcome.requests),
            full(outcome.accepted),
            full(lost),
            by(&[Cause::Gateway]),
            by(&[Cause::Concurrency, Cause::Starts]),
            by(&[Cause::Partition, Cause::Collection]),
            by(&[Cause::Index]),
            by(&[Cause::Table]),
            thousands(background.map(|(_, count)| count).sum()),
        ));
    }
    report.line("\n| stack | fans | arrivals | counts exact after | all points after | all statistics after | busiest partition, units a second | largest item | peak concurrency |");
    report.line("|---|---|---|---|---|---|---|---|---|");
    for (row, outcome) in rows.iter().zip(outcomes) {
        let observed = &outcome.observed;
        let busiest = observed.busiest.as_ref().map_or_else(String::new, |(table, busiest)| {
            let kind = if busiest.kind == Kind::Read { "read" } else { "written" };
            format!("{:.0} {kind}, {} `{}`", busiest.rate, short(table), busiest.pk)
        });
        let concurrency: Vec<String> = ["predictions", "tally", "points"]
            .iter()
            .filter_map(|name| Some(format!("{name} {}", observed.concurrency.get(*name)?)))
            .collect();
        let (bytes, key) = &observed.largest;
        report.line(format!(
            "| {} | {} | {} | {} | {} | {} | {busiest} | {bytes} bytes, {} | {} |",
            row.name,
            thousands(u64::from(row.setup.fans) * u64::from(row.setup.settings.scale)),
            row.setup.arrivals.name(),
            seconds(outcome.counts_after),
            seconds(outcome.points_after),
            seconds(outcome.stats_after),
            short(key),
            concurrency.join(", "),
        ));
    }
}

fn seconds(after: Option<Duration>) -> String {
    after.map_or_else(|| "never".into(), |after| format!("{} s", after.as_secs()))
}

/// Removes the name of the stack from the name of a table.
fn short(table: &str) -> &str {
    table.strip_prefix("world-").unwrap_or(table)
}

fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
