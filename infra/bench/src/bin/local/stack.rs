//! A local stack in a child process.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::client::Client;

/// Where the stack keeps its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    File,
    Memory,
}

#[derive(Debug)]
pub struct Stack {
    pub address: String,
    process: Child,
    lines: Option<Lines<BufReader<ChildStdout>>>,
    folder: PathBuf,
    /// From the start of the process until it printed its address.
    pub printed_after: Duration,
}

impl Stack {
    /// Starts a stack without stored data and waits until it prints its address.
    pub async fn start(program: &Path, storage: Storage) -> Self {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("touchline-bench-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let mut command = Command::new(program);
        match storage {
            Storage::File => command.arg("--data").arg(&folder),
            Storage::Memory => command.arg("--memory"),
        };
        let started = Instant::now();
        let mut process = command
            .args(["--quiet", "--no-crowd", "--port", "0", "--dynamodb-port", "0"])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the local stack starts");
        let mut lines = BufReader::new(process.stdout.take().expect("the output is piped")).lines();
        let address = loop {
            let line =
                lines.next_line().await.expect("the output is text").expect("the stack prints a banner");
            if let Some(url) = line.trim().strip_prefix("API") {
                break url.trim().trim_start_matches("http://").to_owned();
            }
        };
        let printed_after = started.elapsed();
        Self { address, process, lines: Some(lines), folder, printed_after }
    }

    /// Waits until the demo league is imported.
    pub async fn ready(&mut self) {
        let mut lines = self.lines.take().expect("`ready` is called only once");
        while let Some(line) = lines.next_line().await.expect("the output is text") {
            if line.starts_with("The demo league is ready") {
                break;
            }
        }
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    }

    /// Logs users in, one after another. Returns their tokens.
    pub async fn log_in(&self, users: std::ops::Range<u32>) -> Vec<String> {
        let mut client = Client::connect(&self.address).await;
        let mut tokens = Vec::new();
        for user in users {
            tokens.push(log_in(&mut client, user).await);
        }
        tokens
    }

    /// Returns the CPU time of the process so far.
    pub fn cpu(&self) -> Duration {
        let id = self.process.id().expect("the process runs");
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).expect("Linux has this file");
        let after_name = stat.rsplit_once(')').expect("the name is in brackets").1;
        let ticks =
            |index: usize| after_name.split_whitespace().nth(index).and_then(|t| t.parse::<u64>().ok());
        // Linux counts CPU time in hundredths of a second.
        Duration::from_millis(10 * (ticks(11).unwrap_or(0) + ticks(12).unwrap_or(0)))
    }

    /// Returns the memory of the process, in MB.
    pub fn memory(&self) -> f64 {
        let id = self.process.id().expect("the process runs");
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).expect("Linux has this file");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0 kB");
        line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or(0.0) / 1024.0
    }

    pub async fn stop(mut self) {
        let _ = self.process.kill().await;
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Logs a user in: requests a code, reads it from the SMS log, verifies it. Returns the token.
pub async fn log_in(client: &mut Client, user: u32) -> String {
    let phone = format!("+4477{user:08}");
    let requested = client.post("/api/code/request", "", &json!({ "phone": phone })).await;
    assert_eq!(requested.status, 200, "{}", requested.json());
    // Search by phone: other clients log in at the same time, so the newest entry may be theirs.
    let log = client.get("/api/logs/sms?per_page=20", "").await.json();
    let entries = log["data"].as_array().into_iter().flatten();
    let entry = entries.into_iter().find(|entry| entry["phone"] == phone.as_str());
    let code = entry.and_then(|entry| entry["code"].as_str()).expect("the log shows the code").to_owned();
    let verified = client.post("/api/code/verify", "", &json!({ "phone": phone, "code": code })).await;
    let body: Value = verified.json();
    body["data"]["token"].as_str().unwrap_or_else(|| panic!("{body}")).to_owned()
}
