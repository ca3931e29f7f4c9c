//! Runs the release binary of each function under AWS's Lambda Runtime Interface Emulator and sends the
//! function's sample events to it. The binary, the runtime API and the events are the same as in AWS.

#![expect(clippy::print_stdout, reason = "a program for the terminal")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use clap::Parser;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};
use touchline::config::Config;
use touchline_stack::samples::{self, Expected, Sample};
use touchline_stack::template::TemplateError;
use touchline_stack::{EmbeddedStore, Stack, TEMPLATE, Template, tables};

/// The largest accepted size of a function's binary. A larger binary fails the run.
const MAX_MEGABYTES: f64 = 9.0;

/// Runs the release binary of each function under the Lambda Runtime Interface Emulator, with the function's samples.
#[derive(Debug, Parser)]
#[command(name = "emulate")]
struct Options {
    /// The emulator's binary. The SAM CLI contains it: samcli/local/rapid/aws-lambda-rie-x86_64.
    #[arg(long, value_name = "FILE")]
    rie: PathBuf,

    /// The output folder of `cargo lambda build`.
    #[arg(long, value_name = "FOLDER", default_value = "target/lambda")]
    binaries: PathBuf,

    /// The functions to run. Without names, all functions run.
    functions: Vec<String>,
}

impl Options {
    fn binary(&self, function: &str) -> PathBuf {
        self.binaries.join(function).join("bootstrap")
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("emulate: {problem}");
            ExitCode::FAILURE
        }
    }
}

async fn run(options: &Options) -> Result<(), String> {
    if !options.rie.exists() {
        return Err(format!(
            "there is no emulator at {}; pip install aws-sam-cli installs it",
            options.rie.display()
        ));
    }
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).ok_or("the source tree is missing")?;
    let stack = read_stack().map_err(|error| error.to_string())?;
    let samples = samples::read(root)?;
    let league = samples.iter().find(|sample| sample.file == "feed/touchline.json");
    let league = league.ok_or("the sample league is missing")?;
    let mut problems = Vec::new();
    for function in &stack.functions {
        if !options.functions.is_empty() && !options.functions.contains(&function.name) {
            continue;
        }
        let size = megabytes(&options.binary(&function.name))?;
        println!("{} ({size:.1} MB)", function.name);
        if size > MAX_MEGABYTES {
            problems.push(format!("{} is larger than {MAX_MEGABYTES} MB", function.name));
        }
        let own: Vec<&Sample> = samples.iter().filter(|sample| sample.function == function.name).collect();
        if own.is_empty() {
            problems.push(format!("{} has no samples", function.name));
        }
        for sample in own {
            let before = matches!(sample.expected, Expected::Payload(_)).then_some(league);
            let result = run_sample(options, &stack, before, sample).await?;
            let is_expected = sample.expected.matches(&result);
            println!("  {} {}", if is_expected { "ok    " } else { "FAILED" }, sample.file);
            if !is_expected {
                problems.push(format!("{}: expected {:?}, got {result}", sample.file, sample.expected));
            }
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

fn read_stack() -> Result<Stack, TemplateError> {
    let parameters = [("AWS::StackName", "emulated"), ("Environment", "local"), ("SmsProvider", "console")];
    let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    Template::parse(TEMPLATE)?.resolve(&parameters)
}

#[expect(clippy::cast_precision_loss, reason = "a size in megabytes needs no exact digits")]
fn megabytes(binary: &Path) -> Result<f64, String> {
    let length = std::fs::metadata(binary).map(|metadata| metadata.len());
    length
        .map(|bytes| bytes as f64 / 1e6)
        .map_err(|_| format!("{} does not exist; tests/build builds it", binary.display()))
}

/// Invokes the function of `sample` with its payload, on a new store. If `before` is given, first invokes the
/// function of `before` with its payload.
async fn run_sample(
    options: &Options,
    stack: &Stack,
    before: Option<&Sample>,
    sample: &Sample,
) -> Result<Value, String> {
    let store = EmbeddedStore::serve_in_memory().await.map_err(|error| error.to_string())?;
    let variables = variables(stack, &sample.function, &store.url())?;
    let config = Config::read(|name| variables.get(name).cloned()).map_err(|error| error.to_string())?;
    let http = touchline::ports::aws_http::client();
    let client = touchline::storage::connect(&config.aws, http);
    tables::create(&client, &stack.tables).await.map_err(|error| error.to_string())?;
    if let Some(before) = before {
        let variables = self::variables(stack, &before.function, &store.url())?;
        EmulatedFunction::start(options, &before.function, &variables).await?.invoke(&before.payload).await?;
    }
    EmulatedFunction::start(options, &sample.function, &variables).await?.invoke(&sample.payload).await
}

/// Returns the function's environment: the variables of the template, the variables that Lambda sets in AWS,
/// test values for the secrets, and the address of the store.
fn variables(stack: &Stack, function: &str, dynamodb: &str) -> Result<BTreeMap<String, String>, String> {
    let found = stack.functions.iter().find(|found| found.name == function);
    let found = found.ok_or_else(|| format!("the template has no function {function}"))?;
    let mut variables = found.environment.clone();
    for (name, value) in [
        ("AWS_REGION", "eu-west-1"),
        ("AWS_ACCESS_KEY_ID", "emulated"),
        ("AWS_SECRET_ACCESS_KEY", "emulated"),
        ("AWS_ENDPOINT_URL_DYNAMODB", dynamodb),
        ("CODE_PEPPER", "a pepper for the emulator"),
        ("CHAT_AS_TOKEN", ""),
        ("CHAT_HS_TOKEN", ""),
        ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", &found.memory_mb.to_string()),
        ("AWS_LAMBDA_FUNCTION_TIMEOUT", &found.timeout_seconds.to_string()),
    ] {
        variables.insert(name.into(), value.into());
    }
    Ok(variables)
}

/// A function that runs under the emulator.
struct EmulatedFunction {
    url: String,
    _process: Child,
}

impl EmulatedFunction {
    async fn start(
        options: &Options,
        function: &str,
        variables: &BTreeMap<String, String>,
    ) -> Result<Self, String> {
        let (invoke_api, runtime_api) = (free_address().await?, free_address().await?);
        let binary = std::path::absolute(options.binary(function)).map_err(|error| error.to_string())?;
        let process = Command::new(&options.rie)
            .args([
                "--runtime-interface-emulator-address",
                &invoke_api,
                "--runtime-api-address",
                &runtime_api,
            ])
            .arg(binary)
            .env_clear()
            .envs(variables)
            .env("AWS_LAMBDA_FUNCTION_NAME", function)
            .env("HOME", "/tmp")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("the emulator does not start: {error}"))?;
        let url = format!("http://{invoke_api}/2015-03-31/functions/function/invocations");
        Ok(Self { url, _process: process })
    }

    async fn invoke(&self, payload: &Value) -> Result<Value, String> {
        let client = reqwest::Client::new();
        // The emulator needs a moment before it listens, so retry while it refuses connections.
        for _ in 0..1_500 {
            let request = client.post(&self.url).body(payload.to_string()).send();
            match timeout(Duration::from_mins(1), request).await {
                Ok(Ok(response)) => {
                    let text = response.text().await.map_err(|error| error.to_string())?;
                    return Ok(serde_json::from_str(&text).unwrap_or(Value::String(text)));
                }
                Ok(Err(error)) if error.is_connect() => sleep(Duration::from_millis(20)).await,
                Ok(Err(error)) => return Err(error.to_string()),
                Err(_) => return Err("the function did not respond within a minute".into()),
            }
        }
        Err("the emulator does not listen".into())
    }
}

async fn free_address() -> Result<String, String> {
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(|error| error.to_string())?;
    listener.local_addr().map(|address| address.to_string()).map_err(|error| error.to_string())
}
