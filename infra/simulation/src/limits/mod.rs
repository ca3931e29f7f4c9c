//! AWS's limits, as published, at the scale of a model.
//!
//! **The scale.** In a model of 1:100, one fan stands for 100 fans. A request of a fan, and everything that the product
//! does because of it, counts 100 times against the limits. The limits themselves keep their published figures. What
//! happens once for a batch of a stream, whatever the batch holds, counts once. The model scales fans, requests, units,
//! bytes, concurrent requests, and the size of batches. It does not scale time, latencies, timeouts, the age of caches,
//! partitions, and shards of streams.
//!
//! **The window.** In a model of 1:100, a second has a hundredth of the requests, and chance makes the seconds uneven.
//! So the reported load of a partition, which also decides about splits, is an average over √100 = 10 seconds. Buckets
//! decide about throttles. Those of tables and partitions hold at least ten requests of the model, the others one.
//!
//! **Left out.** Burst capacity: AWS says that it does not raise the limit of a partition. A bucket still holds one
//! second of units, or ten requests of the model. The growth of an on-demand table after a new peak, which takes up to
//! half an hour: only hot or full partitions split. So after a peak the model is stricter than AWS.

mod bucket;
mod cause;
mod partitions;
mod tables;
mod units;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use touchline::storage::settlements::MAX_AWARDS;
use touchline_stack::Stack;
use touchline_stack::resources::Throttle;

use bucket::Bucket;
pub use cause::Cause;
pub use partitions::{Busiest, ItemKey, Kind, NEW_TABLE, Throughput};
use tables::LimitedTable;
pub use tables::{Access, Warmth, Write};
pub use units::{read_units, scalar, size};

/// The default quota of an on-demand table. AWS raises it on request.
pub const TABLE_QUOTA: Throughput = Throughput { reads: 40_000.0, writes: 40_000.0 };

/// The default quota of concurrent executions in an account. AWS raises it on request.
pub const CONCURRENCY: u32 = 1_000;

/// The default quota of API Gateway for an account and region. AWS raises it on request.
pub const ACCOUNT_REQUESTS: Throttle = Throttle { rate: 10_000.0, burst: 5_000.0 };

/// Lambda accepts this many requests a second for each concurrent execution of the account's quota.
const REQUESTS_PER_EXECUTION: f64 = 10.0;

/// Lambda starts this many environments of a function at once, and again in each ten seconds.
const STARTS_PER_TEN_SECONDS: f64 = 1_000.0;

/// The largest payload of an invocation, and the largest response.
pub const PAYLOAD_BYTES: usize = 6 * 1024 * 1024;

/// The memory with which a function has one whole CPU, in MB.
const MEMORY_OF_ONE_CPU: f64 = 1_769.0;

/// The CPU time of one call to the store. Building, signing and parsing took 83 µs on one core when this was written. The
/// rest is an allowance for the connection.
const CALL_CPU: Duration = Duration::from_micros(130);

/// The mean time of a call on the network of the simulation.
const CALL_LATENCY: Duration = Duration::from_micros(3_500);

/// How many calls `tally` and `points` make concurrently.
const CONCURRENT_CALLS: u32 = 16;

/// Whom a throttle affects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Affected {
    /// A fan, whose request waits or fails.
    Fan,
    /// A function that nobody waits for, such as `tally` and `points`. It resumes later.
    Background,
}

impl Affected {
    fn by(function: &str) -> Self {
        if is_background(function) || function == "feed" { Self::Background } else { Self::Fan }
    }
}

/// What differs between accounts, and between a new stack and one that was prepared.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How many fans one fan stands for.
    pub scale: u32,
    /// What the tables and indexes with a `WarmThroughput` in the template are ready for, and the quota of each.
    pub table: Warmth,
    /// The gateway's limit for each route.
    pub route: Throttle,
    /// The gateway's limit for the account.
    pub account: Throttle,
    pub concurrency: u32,
    /// The memory of `tally` in MB, if it is not that of the template.
    pub tally_memory: Option<u32>,
    /// How many writes one write of the progress of `points` stands for. `points` stores its progress after every page of a
    /// shard, and a shard of the model has fewer pages.
    pub stored_progress: u32,
}

impl Settings {
    /// Returns the settings of a new account and of a template.
    ///
    /// # Panics
    ///
    /// If the template sets no throttle.
    #[must_use]
    pub fn of_stack(stack: &Stack, scale: u32) -> Self {
        Self {
            scale,
            table: Warmth { warm: NEW_TABLE, quota: TABLE_QUOTA },
            route: stack.route_throttle.expect("the template sets a throttle"),
            account: ACCOUNT_REQUESTS,
            concurrency: CONCURRENCY,
            tally_memory: None,
            stored_progress: 1,
        }
    }
}

/// The limits of one world.
#[derive(Debug)]
pub struct Limits {
    settings: Settings,
    memory: BTreeMap<String, u32>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    tables: BTreeMap<String, LimitedTable>,
    account: Bucket,
    routes: BTreeMap<String, Bucket>,
    invocations: Bucket,
    starts: BTreeMap<String, Bucket>,
    executions: BTreeMap<String, Executions>,
    /// When each environment of a background function has finished its calls so far.
    busy_until: BTreeMap<String, Instant>,
    throttles: BTreeMap<(Cause, Affected), u64>,
    throttled_fans: BTreeMap<String, u64>,
    largest: (usize, String),
}

impl State {
    fn throttled(&mut self, cause: Cause, affected: Affected, weight: u32) {
        *self.throttles.entry((cause, affected)).or_default() += u64::from(weight);
    }
}

/// The concurrent executions of a function.
#[derive(Debug, Default)]
struct Executions {
    now: u32,
    peak: u32,
}

/// What the limits saw.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// How many requests and calls were throttled, at full scale.
    pub throttles: BTreeMap<(Cause, Affected), u64>,
    /// The table or index and the partition key that throttled fans most, and how often.
    pub most_throttled: Option<(String, u64)>,
    /// The busiest partition, and the table or index that it belongs to.
    pub busiest: Option<(String, Busiest)>,
    /// The size of the largest item in bytes, and its table and key.
    pub largest: (usize, String),
    /// The most concurrent executions of each function, at full scale.
    pub concurrency: BTreeMap<String, u32>,
}

impl Limits {
    /// Creates the limits of a stack.
    #[must_use]
    pub fn new(settings: Settings, stack: &Stack) -> Self {
        let now = Instant::now();
        let tables = stack
            .tables
            .iter()
            .map(|table| (table.name.clone(), LimitedTable::new(table, settings.table, settings.scale, now)));
        let mut memory: BTreeMap<String, u32> =
            stack.functions.iter().map(|function| (function.name.clone(), function.memory_mb)).collect();
        memory.extend(settings.tally_memory.map(|tally| ("tally".to_owned(), tally)));
        let scale = f64::from(settings.scale);
        let requests = REQUESTS_PER_EXECUTION * f64::from(settings.concurrency);
        let state = State {
            tables: tables.collect(),
            account: throttle(settings.account, scale, now),
            routes: BTreeMap::new(),
            invocations: Bucket::new(requests, requests.max(scale), now),
            starts: BTreeMap::new(),
            executions: BTreeMap::new(),
            busy_until: BTreeMap::new(),
            throttles: BTreeMap::new(),
            throttled_fans: BTreeMap::new(),
            largest: (0, String::new()),
        };
        Self { settings, memory, state: Mutex::new(state) }
    }

    #[must_use]
    pub fn scale(&self) -> u32 {
        self.settings.scale
    }

    /// Returns how many partitions a table has.
    #[must_use]
    pub fn partitions(&self, table: &str) -> usize {
        self.lock().tables.get(table).map_or(1, LimitedTable::partitions)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the lock panics")
    }

    /// Returns whether the gateway lets a request of a fan pass.
    pub fn admits_request(&self, route: &str) -> bool {
        let (now, scale) = (Instant::now(), self.settings.scale);
        let mut state = self.lock();
        let weight = f64::from(scale);
        let bucket = state
            .routes
            .entry(route.to_owned())
            .or_insert_with(|| throttle(self.settings.route, weight, now));
        let passes = bucket.try_take(weight, now) && state.account.try_take(weight, now);
        if !passes {
            state.throttled(Cause::Gateway, Affected::Fan, scale);
        }
        passes
    }

    /// Begins an execution of a function. Returns false if it is throttled.
    pub fn begin_execution(&self, function: &str, is_http: bool, reserved: Option<usize>) -> bool {
        let now = Instant::now();
        let weight = self.weight_of_execution(is_http);
        let mut state = self.lock();
        let used: u32 = state.executions.values().map(|executions| executions.now).sum();
        let own = state.executions.get(function).map_or(0, |executions| executions.now);
        let is_over = used + weight > self.settings.concurrency
            || reserved.is_some_and(|reserved| own as usize >= reserved)
            || !state.invocations.try_take(f64::from(weight), now);
        if is_over {
            state.throttled(Cause::Concurrency, Affected::by(function), weight);
            return false;
        }
        let executions = state.executions.entry(function.to_owned()).or_default();
        executions.now += weight;
        executions.peak = executions.peak.max(executions.now);
        true
    }

    pub fn end_execution(&self, function: &str, is_http: bool) {
        let weight = self.weight_of_execution(is_http);
        if let Some(executions) = self.lock().executions.get_mut(function) {
            executions.now -= weight;
        }
    }

    /// Returns whether a function may start another environment now.
    pub fn admits_start(&self, function: &str, is_http: bool) -> bool {
        let (now, weight) = (Instant::now(), self.weight_of_execution(is_http));
        let mut state = self.lock();
        let new = || {
            let depth = STARTS_PER_TEN_SECONDS.max(f64::from(self.settings.scale));
            Bucket::new(STARTS_PER_TEN_SECONDS / 10.0, depth, now)
        };
        let starts = state.starts.entry(function.to_owned()).or_insert_with(new);
        let may_start = starts.try_take(f64::from(weight), now);
        if !may_start {
            state.throttled(Cause::Starts, Affected::by(function), weight);
        }
        may_start
    }

    /// An execution for a request of a fan stands for many. One for a batch or a schedule stands for itself.
    fn weight_of_execution(&self, is_http: bool) -> u32 {
        if is_http { self.settings.scale } else { 1 }
    }

    /// Returns how often an access counts. `tally` adds each batch to the counters of its match once, in a part for each
    /// shard. `points` stores its progress in the partition of the counters. An import does not depend on the number of
    /// fans.
    #[must_use]
    pub fn weight(&self, function: &str, access: &Access) -> u32 {
        // The partition of the counters. Those of the predictions end with the number of a shard.
        let is_counters = access.key.pk.strip_prefix("event#").is_some_and(|event| !event.contains('#'));
        match function {
            "feed" => 1,
            "tally" if is_counters => 1,
            "points" if is_counters => self.settings.stored_progress,
            _ => self.settings.scale,
        }
    }

    /// Returns how many calls at full scale one call of the model stands for. The batches and pages of `points` have fewer rows
    /// in the model.
    pub fn calls(&self, function: &str, operation: &str, accesses: &[Access]) -> u32 {
        match (function, operation) {
            ("points", "BatchExecuteStatement") => {
                let rows = u64::from(self.settings.scale) * accesses.len() as u64;
                u32::try_from(rows.div_ceil(MAX_AWARDS as u64)).unwrap_or(u32::MAX)
            }
            ("points", "Query") => self.settings.stored_progress,
            _ => accesses.iter().map(|access| self.weight(function, access)).max().unwrap_or(1),
        }
    }

    /// Decides whether an access is throttled. `new` is what is known of the item that a write leaves.
    pub fn admits(
        &self,
        access: &Access,
        old: Option<&Value>,
        new: Option<&Value>,
        function: &str,
    ) -> Result<(), Cause> {
        let mut state = self.lock();
        let Some(table) = state.tables.get_mut(&access.table) else { return Ok(()) };
        let admitted = table.admits(access, old, new, Instant::now());
        if let Err(cause) = admitted {
            let (affected, weight) = (Affected::by(function), self.weight(function, access));
            state.throttled(cause, affected, weight);
            if affected == Affected::Fan {
                let Access { table, index, key, .. } = access;
                let name = format!("{table} {} {}", index.as_deref().unwrap_or_default(), key.pk);
                *state.throttled_fans.entry(name).or_default() += u64::from(weight);
            }
        }
        admitted
    }

    /// Returns when the partitions of a batch take it. Counts a throttle for each partition that does not take it now.
    ///
    /// Only for the batches of `points`. A batch writes 25 rows of one partition, and retries for 2.5 seconds what is
    /// throttled. That is long enough for 25 units. But a batch of the model has 2,500 units at 1:100.
    pub fn admits_batch_at(&self, accesses: &[Access], function: &str) -> Instant {
        let now = Instant::now();
        let mut state = self.lock();
        let mut admits_at = now;
        for access in accesses {
            let Some(table) = state.tables.get_mut(&access.table) else { continue };
            let at = table.admits_at(&access.key, now);
            if at > now {
                let weight = self.weight(function, access);
                state.throttled(Cause::Partition, Affected::by(function), weight);
            }
            admits_at = admits_at.max(at);
        }
        admits_at
    }

    pub fn charge_read(&self, access: &Access, units: f64, weight: u32) {
        if let Some(table) = self.lock().tables.get_mut(&access.table) {
            table.charge_read(access, units * f64::from(weight), Instant::now());
        }
    }

    pub fn charge_write(&self, write: Write<'_>, units_per_write: f64, weight: u32) {
        let mut state = self.lock();
        let Access { table, key, .. } = write.access;
        let bytes = write.new.map_or(0, size);
        if bytes > state.largest.0 {
            state.largest = (bytes, format!("{table} {} {}", key.pk, key.sk));
        }
        if let Some(table) = state.tables.get_mut(table) {
            table.charge_write(write, units_per_write * f64::from(weight), Instant::now());
        }
    }

    /// Returns when a call of an environment begins. The CPU of its function delays it. In `tally` and `points`, it also
    /// waits for earlier calls: one call stands for many, and only `CONCURRENT_CALLS` of them run concurrently.
    pub fn turn(&self, environment: &str, weight: u32) -> Instant {
        let now = Instant::now();
        let function = function_of(environment);
        let cpu = CALL_CPU.div_f64(self.cpus(function));
        if !is_background(function) {
            return now + cpu;
        }
        let lasts = cpu.max(CALL_LATENCY / CONCURRENT_CALLS) * weight;
        let mut state = self.lock();
        let busy_until = state.busy_until.entry(environment.to_owned()).or_insert(now);
        *busy_until = now.max(*busy_until) + lasts;
        *busy_until
    }

    fn cpus(&self, function: &str) -> f64 {
        let memory = self.memory.get(function).copied().unwrap_or(128);
        (f64::from(memory) / MEMORY_OF_ONE_CPU).min(1.0)
    }

    #[must_use]
    pub fn observed(&self) -> Observed {
        let state = self.lock();
        let all = state.tables.iter().flat_map(|(table, limited)| {
            limited.busiest().map(move |(index, busiest)| {
                (index.map_or_else(|| table.clone(), |index| format!("{table} {index}")), busiest.clone())
            })
        });
        Observed {
            throttles: state.throttles.clone(),
            most_throttled: state
                .throttled_fans
                .iter()
                .max_by_key(|(_, count)| **count)
                .map(|(name, count)| (name.clone(), *count)),
            busiest: all.max_by(|(_, one), (_, other)| one.share().total_cmp(&other.share())),
            largest: state.largest.clone(),
            concurrency: state
                .executions
                .iter()
                .map(|(name, executions)| (name.clone(), executions.peak))
                .collect(),
        }
    }
}

/// Returns the function of an environment such as `tally/12`.
#[must_use]
pub fn function_of(environment: &str) -> &str {
    environment.split('/').next().unwrap_or_default()
}

/// Whether one invocation of a function does work for many fans.
fn is_background(function: &str) -> bool {
    matches!(function, "tally" | "points")
}

fn throttle(throttle: Throttle, scale: f64, now: Instant) -> Bucket {
    // A bucket that is smaller than one request of the model would never let one pass.
    Bucket::new(throttle.rate, throttle.burst.max(scale), now)
}
