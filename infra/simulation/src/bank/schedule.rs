use std::sync::Arc;

use futures_util::future::join_all;
use touchline::App;
use touchline::domain::UserId;
use touchline_testing::SeededRandom;

use super::checks::{self, History};
use super::order::{Order, Outcome};
use super::product::Product;
use super::report::Played;
use super::sabotage::Sabotage;
use crate::clock::VirtualClock;
use crate::dice::Dice;
use crate::dynamodb::{DynamoDb, LONGEST_DELAY};
use crate::failure::Failure;
use crate::fault::Faults;
use crate::process::Process;
use crate::runtime;
use crate::settings;
use crate::small_app::small_app;
use crate::streams::Streams;
use crate::trace::Trace;

/// How many of 1,000 calls have a fault.
const FAULTS_PER_MILLE: u32 = 333;

/// Orders for one wallet, and the faults and crashes during their execution. The seed determines all of them.
struct Schedule {
    app: App,
    user: UserId,
    dice: Dice,
    faults: Arc<Faults>,
    trace: Arc<Trace>,
}

/// Plays the schedule of a seed on a wallet of its own, then checks the wallet and every outcome.
pub fn play(product: &Product, seed: u64, sabotage: Sabotage) -> Result<Played, Failure> {
    // The SDK takes random retry delays from `fastrand`. The seed makes them reproducible.
    fastrand::seed(seed);
    // Each schedule has a new runtime, because the order of simultaneous timers depends on the age of the runtime.
    runtime::new().block_on(async {
        let schedule = Schedule::new(product, seed, sabotage);
        let history = schedule.run().await;
        // Wait for the calls that the network delayed.
        tokio::time::sleep(LONGEST_DELAY).await;
        match checks::check(&schedule.app.store, schedule.user, &history).await {
            Ok(entries) => Ok(schedule.played(entries as u64)),
            Err(what) => Err(Failure { seed, what, trace: schedule.trace.take_lines() }),
        }
    })
}

impl Schedule {
    fn new(product: &Product, seed: u64, sabotage: Sabotage) -> Self {
        let dice = |part: &str| Dice::new(seed, part);
        let (clock, trace) = (VirtualClock::starting_now(), Arc::new(Trace::new(true)));
        let faults = Arc::new(Faults::new(dice("faults"), FAULTS_PER_MILLE));
        let streams = Arc::new(Streams::new(&[], clock, dice("streams")));
        let dynamodb = DynamoDb::on(
            product.engine.clone(),
            streams,
            Arc::clone(&faults),
            dice("network"),
            Arc::clone(&trace),
        );
        if sabotage != Sabotage::None {
            dynamodb.rewrite_requests(Box::new(move |operation, fault, body| {
                sabotage.apply(operation, fault, body);
            }));
        }
        Self {
            app: small_app(settings::config(), &dynamodb, clock, SeededRandom::new(dice("app").number())),
            user: UserId(1 + u32::try_from(seed % u64::from(u32::MAX)).unwrap_or(0)),
            dice: dice("orders"),
            faults,
            trace,
        }
    }

    async fn run(&self) -> History {
        let mut outcomes = Vec::new();
        // One wallet in three starts empty, so that concurrent orders race for its first entry.
        if !self.dice.once_in(3) {
            let start = Order::Grant { reference: 99, amount: 1 + self.dice.below(30) };
            // Outside of a process, calls have no faults.
            let outcome = start.execute(&self.app, self.user).await;
            outcomes.push((start, outcome));
        }
        let orders = Order::draw(&self.dice);
        // All orders run concurrently. Some are sent by two clients.
        let mut concurrent = Vec::new();
        for order in &orders {
            for _ in 0..=self.dice.below(2) {
                concurrent.push(self.execute(order, Process::new(format!("{}", concurrent.len()))));
            }
        }
        outcomes.extend(join_all(concurrent).await);
        let concurrent = outcomes.len();
        // Then clients retry, one after the other. Calls still have faults, but no process crashes.
        for order in &orders {
            for _ in 0..self.dice.below(3) {
                outcomes.push(self.execute(order, Process::without_crashes("retry".into())).await);
            }
        }
        History { outcomes, concurrent }
    }

    /// Executes an order in a process of its own.
    async fn execute(&self, order: &Order, process: Arc<Process>) -> (Order, Outcome) {
        let name = process.name.clone();
        let outcome = process.run(order.execute(&self.app, self.user)).await.unwrap_or(Outcome::Unknown);
        self.trace.line(format_args!("{name} {order:?} -> {outcome:?}"));
        (order.clone(), outcome)
    }

    fn played(&self, entries: u64) -> Played {
        let faults = self.faults.counts();
        let crashes = faults.iter().filter(|(name, _)| name.starts_with("Crash"));
        Played {
            schedules: 1,
            calls: self.faults.calls(),
            faults: faults.values().sum(),
            crashes: crashes.map(|(_, count)| count).sum(),
            entries,
            hash: self.trace.hash(),
        }
    }
}
