//! What the benchmarks share: a store in a process of its own, so that memory and time are told apart.

#![expect(clippy::print_stdout, reason = "a store tells its address")]

use std::collections::BTreeMap;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, Command};
use touchline::config::Config;
use touchline::storage;
use touchline_stack::{EmbeddedStore, Stack, TEMPLATE, Template, tables};

/// A store in memory, until whoever started it is gone.
pub async fn serve_store() {
    let store = EmbeddedStore::in_memory().await.expect("a store");
    println!("{}", store.url());
    let _ = tokio::io::stdin().read(&mut [0; 1]).await;
}

/// A store in another process: this very program, told `store`. With the template's tables.
#[derive(Debug)]
pub struct StoreProcess {
    pub url: String,
    _process: Child,
}

impl StoreProcess {
    pub async fn start() -> Self {
        let itself = std::env::current_exe().expect("this program");
        let mut process = Command::new(itself)
            .arg("store")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("a store");
        let mut url = String::new();
        let output = process.stdout.take().expect("its output");
        BufReader::new(output).read_line(&mut url).await.expect("an address");
        let url = url.trim().to_owned();
        let (config, mut stack) = config(&url);
        for table in &mut stack.tables {
            // The embedded engine looks at every record of a stream before it adds one: a million would
            // take it days. DynamoDB does not, and nobody reads the stream here.
            if let Some(properties) = table.properties.as_object_mut() {
                properties.remove("StreamSpecification");
            }
        }
        let http = aws_smithy_http_client::Builder::new().build_http();
        tables::create(&storage::connect(&config.aws, http), &stack.tables).await.expect("tables");
        Self { url, _process: process }
    }
}

/// What functions are told, with the store at `url`.
#[must_use]
pub fn config(url: &str) -> (Config, Stack) {
    let (variables, stack) = variables(url);
    (Config::read(|name| variables.get(name).cloned()).expect("a configuration"), stack)
}

/// The same, as variables.
#[must_use]
pub fn variables(url: &str) -> (BTreeMap<String, String>, Stack) {
    let stack = Template::parse(TEMPLATE)
        .and_then(|template| template.resolve(&BTreeMap::from([("AWS::StackName".into(), "bench".into())])))
        .expect("the template reads");
    let mut variables = stack.functions[0].environment.clone();
    for (name, value) in [
        ("AWS_REGION", "eu-west-1"),
        ("AWS_ACCESS_KEY_ID", "bench"),
        ("AWS_SECRET_ACCESS_KEY", "bench"),
        ("CODE_PEPPER", "a pepper for the benchmark"),
        ("CATALOG_MAX_AGE_MS", "0"),
        ("AWS_ENDPOINT_URL_DYNAMODB", url),
    ] {
        variables.insert(name.into(), value.into());
    }
    (variables, stack)
}

/// A figure of this process's memory, in MB: `VmRSS:` or `VmHWM:`.
#[must_use]
pub fn memory(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or(0.0) / 1024.0
}
