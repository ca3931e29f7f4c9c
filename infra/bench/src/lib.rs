//! Shared by the benchmarks: a store in a separate process, so that the store's memory and CPU
//! time are not measured, and the report of the figures.

#![expect(clippy::print_stdout, reason = "benchmarks print their figures, and the store process its address")]

pub mod report;

use std::collections::BTreeMap;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, Command};
use touchline::config::Config;
use touchline::storage;
use touchline_stack::{EmbeddedStore, Stack, TEMPLATE, Template, tables};

/// Serves a store in memory until the parent process ends.
pub async fn serve_store() {
    let store = EmbeddedStore::serve_in_memory().await.expect("the store starts");
    println!("{}", store.url());
    // The parent process never writes, so this read returns when the parent's end of the pipe closes.
    let _ = tokio::io::stdin().read(&mut [0; 1]).await;
}

/// A store in a child process, with the template's tables. The child is this program with the argument `store`.
#[derive(Debug)]
pub struct StoreProcess {
    pub url: String,
    _process: Child,
}

impl StoreProcess {
    pub async fn start() -> Self {
        let program = std::env::current_exe().expect("the path of this program is known");
        let mut process = Command::new(program)
            .arg("store")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the store process starts");
        let mut url = String::new();
        let output = process.stdout.take().expect("the output is piped");
        BufReader::new(output).read_line(&mut url).await.expect("the store prints its address");
        let url = url.trim().to_owned();
        let (config, mut stack) = config(&url);
        for table in &mut stack.tables {
            // Create the tables without streams, because no benchmark that uses this store reads a stream.
            if let Some(properties) = table.properties.as_object_mut() {
                properties.remove("StreamSpecification");
            }
        }
        let http = touchline::ports::aws_http::client();
        tables::create(&storage::connect(&config.aws, http), &stack.tables)
            .await
            .expect("the tables are created");
        Self { url, _process: process }
    }
}

/// Returns the configuration of the Lambda functions for the store at `url`, and the stack of the template.
#[must_use]
pub fn config(url: &str) -> (Config, Stack) {
    let (variables, stack) = variables(url);
    (Config::read(|name| variables.get(name).cloned()).expect("the configuration is valid"), stack)
}

/// Returns the environment variables of the Lambda functions for the store at `url`, and the stack of the
/// template.
#[must_use]
pub fn variables(url: &str) -> (BTreeMap<String, String>, Stack) {
    let stack = Template::parse(TEMPLATE)
        .and_then(|template| template.resolve(&BTreeMap::from([("AWS::StackName".into(), "bench".into())])))
        .expect("the template is valid");
    let mut variables = stack.functions[0].environment.clone();
    for (name, value) in [
        ("AWS_REGION", "eu-west-1"),
        ("AWS_ACCESS_KEY_ID", "bench"),
        ("AWS_SECRET_ACCESS_KEY", "bench"),
        ("CODE_PEPPER", "a pepper for the benchmark"),
        ("CHAT_HS_TOKEN", ""),
        ("CATALOG_MAX_AGE_MS", "0"),
        ("AWS_ENDPOINT_URL_DYNAMODB", url),
    ] {
        variables.insert(name.into(), value.into());
    }
    (variables, stack)
}

/// Returns the memory of this process now, in MB.
#[must_use]
pub fn memory_now() -> f64 {
    memory("VmRSS:")
}

/// Returns the highest memory of this process so far, in MB.
#[must_use]
pub fn peak_memory() -> f64 {
    memory("VmHWM:")
}

/// Returns the CPU time of this process so far, in seconds.
#[must_use]
pub fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program, in parentheses, can contain spaces. The 12th and 13th fields after it are in hundredths.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn memory(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or(0.0) / 1024.0
}
