//! Invocations of `standings` in processes of their own, so that their memory and processor time can be measured.

use std::process::Stdio;
use std::time::Instant;

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use touchline::App;
use touchline::storage::meter;
use touchline_bench::config;

/// The time, the units and the memory that a worker used.
#[derive(Debug, Serialize, Deserialize)]
pub struct Used {
    pub seconds: f64,
    pub cpu_seconds: f64,
    pub read_units: f64,
    pub write_units: f64,
    /// In MB.
    pub peak_memory: f64,
    pub result: Value,
}

impl Used {
    pub fn row(&self, worker: &str, users: u32) -> String {
        format!(
            "| {worker} | {users} | {:.2} | {:.0} | {:.2} | {} | {} | {:.0} |",
            self.seconds,
            f64::from(users) / self.seconds,
            self.cpu_seconds,
            self.read_units,
            self.write_units,
            self.peak_memory
        )
    }
}

/// Carries out the task on the standard input with the store at the address in the second argument. Prints what it has used.
pub async fn work() {
    let url = std::env::args().nth(2).expect("the address of the store");
    let task = serde_json::from_reader(std::io::stdin()).expect("a task");
    let app = App::new(config(&url).0);
    let begun = Instant::now();
    let deadline = app.clock.now() + TimeDelta::hours(1);
    let (result, cost) = meter::measure(standings::handle(app, task, deadline)).await;
    let used = Used {
        seconds: begun.elapsed().as_secs_f64(),
        cpu_seconds: touchline_bench::cpu_seconds(),
        read_units: cost.read_units,
        write_units: cost.write_units,
        peak_memory: touchline_bench::peak_memory(),
        result: result.expect("the task succeeds"),
    };
    println!("{}", json!(used));
}

/// Runs a worker in a process of its own.
pub async fn run_worker(url: &str, task: &Value) -> Used {
    let program = std::env::current_exe().expect("the path of this program is known");
    let mut command = Command::new(program);
    let piped = command.args(["worker", url]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = piped.spawn().expect("the worker starts");
    let mut input = process.stdin.take().expect("the input is piped");
    input.write_all(task.to_string().as_bytes()).await.expect("the worker reads its task");
    drop(input);
    let output = process.wait_with_output().await.expect("the worker ends");
    assert!(output.status.success(), "the worker failed");
    serde_json::from_slice(&output.stdout).expect("the worker prints what it has used")
}
