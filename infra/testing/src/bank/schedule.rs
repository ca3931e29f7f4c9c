use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::join_all;
use touchline::App;
use touchline::domain::UserId;

use super::checks::{self, History};
use super::dice::Dice;
use super::order::{Order, Outcome};
use super::process::{Counts, Hazards, Process};
use super::report::Played;
use super::world::World;
use crate::SeededRandom;

/// Orders for one wallet, and the faults and crashes during their execution. The seed determines all of them.
struct Schedule {
    app: App,
    user: UserId,
    dice: Arc<Dice>,
    counts: Arc<Counts>,
}

/// Runs the schedule for `seed` on a new wallet, then checks the wallet and every outcome.
pub async fn play(world: &World, seed: u64) -> Result<Played, String> {
    // The SDK takes random retry delays from `fastrand`. The seed makes them reproducible.
    fastrand::seed(seed);
    let mut app = world.app.clone();
    app.random = Arc::new(SeededRandom::new(seed ^ 0x5eed));
    let schedule = Schedule {
        app,
        user: UserId(1 + u32::try_from(seed % u64::from(u32::MAX)).unwrap_or(0)),
        dice: Arc::new(Dice::new(seed)),
        counts: Arc::default(),
    };
    let history = schedule.run().await;
    let entries = checks::check(&schedule.app.store, schedule.user, &history).await?;
    let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
    Ok(Played {
        schedules: 1,
        calls: count(&schedule.counts.calls),
        faults: count(&schedule.counts.faults),
        crashes: count(&schedule.counts.crashes),
        entries: entries as u64,
    })
}

impl Schedule {
    async fn run(&self) -> History {
        let mut outcomes = Vec::new();
        // One wallet in three starts empty, so that concurrent orders race for its first entry.
        if !self.dice.once_in(3) {
            let start = Order::Grant { reference: 99, amount: 1 + self.dice.below(30) };
            outcomes.push((start.clone(), self.execute(&start, Hazards::None).await));
        }
        let orders = Order::draw(&self.dice);
        // All orders run concurrently. Some are sent by two clients.
        let mut concurrent = Vec::new();
        for order in &orders {
            for _ in 0..=self.dice.below(2) {
                concurrent
                    .push(async { (order.clone(), self.execute(order, Hazards::FaultsAndCrashes).await) });
            }
        }
        outcomes.extend(join_all(concurrent).await);
        let concurrent = outcomes.len();
        // Then clients retry, one after the other. Calls still have faults, but no process crashes.
        for order in &orders {
            for _ in 0..self.dice.below(3) {
                outcomes.push((order.clone(), self.execute(order, Hazards::Faults).await));
            }
        }
        History { outcomes, concurrent }
    }

    /// Executes an order in a simulated process of its own.
    async fn execute(&self, order: &Order, hazards: Hazards) -> Outcome {
        let process = Process::new(Arc::clone(&self.dice), Arc::clone(&self.counts), hazards);
        process.run(order.execute(&self.app, self.user)).await.unwrap_or(Outcome::Unknown)
    }
}
