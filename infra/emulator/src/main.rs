//! Runs the functions' release binaries under AWS's Lambda Runtime Interface Emulator and sends each of them its
//! samples. What runs in the cloud is what runs here: the binary, the runtime API, the events.

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
use touchline_stack::{EmbeddedStore, Stack, TEMPLATE, Template, tables};

/// What a binary may be large at most.
const MEGABYTES: f64 = 9.0;

/// Runs every function's release binary under the Lambda Runtime Interface Emulator with all its samples.
#[derive(Debug, Parser)]
#[command(name = "emulate")]
struct Options {
    /// The emulator, which comes with the SAM CLI: samcli/local/rapid/aws-lambda-rie-x86_64.
    #[arg(long, value_name = "FILE")]
    rie: PathBuf,

    /// Where `cargo lambda build` put the binaries.
    #[arg(long, value_name = "FOLDER", default_value = "target/lambda")]
    binaries: PathBuf,

    /// Only these functions.
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
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).ok_or("no source tree")?;
    let stack = Template::parse(TEMPLATE)
        .and_then(|template| {
            let parameters =
                [("AWS::StackName", "emulated"), ("Environment", "local"), ("SmsProvider", "console")];
            template.resolve(&parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).into())
        })
        .map_err(|error| error.to_string())?;
    if !options.rie.exists() {
        return Err(format!(
            "there is no emulator at {}: pip install aws-sam-cli brings one",
            options.rie.display()
        ));
    }
    let samples = samples::read(root)?;
    let league =
        samples.iter().find(|sample| sample.file == "feed/touchline.json").ok_or("no sample league")?;
    let mut wrong = Vec::new();
    for function in &stack.functions {
        if !options.functions.is_empty() && !options.functions.contains(&function.name) {
            continue;
        }
        let size = size(&options.binary(&function.name))?;
        println!("{} ({size:.1} MB)", function.name);
        if size > MEGABYTES {
            wrong.push(format!("{} is larger than {MEGABYTES} MB", function.name));
        }
        let own: Vec<&Sample> = samples.iter().filter(|sample| sample.function == function.name).collect();
        if own.is_empty() {
            wrong.push(format!("{} has no samples", function.name));
        }
        for sample in own {
            let before = matches!(sample.expected, Expected::Answer(_)).then_some(league);
            let answer = answer(options, &stack, before, sample).await?;
            let is_right = sample.expected.is(&answer);
            println!("  {} {}", if is_right { "ok   " } else { "WRONG" }, sample.file);
            if !is_right {
                wrong.push(format!("{}: expected {:?}, got {answer}", sample.file, sample.expected));
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

#[expect(clippy::cast_precision_loss, reason = "megabytes")]
fn size(binary: &Path) -> Result<f64, String> {
    let length = std::fs::metadata(binary).map(|metadata| metadata.len());
    length
        .map(|bytes| bytes as f64 / 1e6)
        .map_err(|_| format!("{} is not built: tests/build does it", binary.display()))
}

/// A sample's answer on a store of its own, after another sample where that is needed.
async fn answer(
    options: &Options,
    stack: &Stack,
    before: Option<&Sample>,
    sample: &Sample,
) -> Result<Value, String> {
    let store = EmbeddedStore::in_memory().await.map_err(|error| error.to_string())?;
    let variables = variables(stack, &sample.function, &store.url())?;
    let config = Config::read(|name| variables.get(name).cloned()).map_err(|error| error.to_string())?;
    let http = aws_smithy_http_client::Builder::new().build_http();
    let client = touchline::storage::connect(&config.aws, http);
    tables::create(&client, &stack.tables).await.map_err(|error| error.to_string())?;
    if let Some(before) = before {
        let variables = self::variables(stack, &before.function, &store.url())?;
        Emulated::start(options, &before.function, &variables).await?.invoke(&before.payload).await?;
    }
    Emulated::start(options, &sample.function, &variables).await?.invoke(&sample.payload).await
}

/// What Lambda would tell a function.
fn variables(stack: &Stack, function: &str, dynamodb: &str) -> Result<BTreeMap<String, String>, String> {
    let function = stack.functions.iter().find(|one| one.name == function);
    let mut variables = function.ok_or("an unknown function")?.environment.clone();
    for (name, value) in [
        ("AWS_REGION", "eu-west-1"),
        ("AWS_ACCESS_KEY_ID", "emulated"),
        ("AWS_SECRET_ACCESS_KEY", "emulated"),
        ("AWS_ENDPOINT_URL_DYNAMODB", dynamodb),
        ("CODE_PEPPER", "a pepper for the emulator"),
        ("CHAT_AS_TOKEN", ""),
        ("CHAT_HS_TOKEN", ""),
        ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256"),
        ("AWS_LAMBDA_FUNCTION_TIMEOUT", "60"),
    ] {
        variables.insert(name.into(), value.into());
    }
    Ok(variables)
}

/// A function under the emulator.
struct Emulated {
    url: String,
    _process: Child,
}

impl Emulated {
    async fn start(
        options: &Options,
        function: &str,
        variables: &BTreeMap<String, String>,
    ) -> Result<Self, String> {
        let (front, back) = (free_address().await?, free_address().await?);
        let binary = std::path::absolute(options.binary(function)).map_err(|error| error.to_string())?;
        let process = Command::new(&options.rie)
            .args(["--runtime-interface-emulator-address", &front, "--runtime-api-address", &back])
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
        let url = format!("http://{front}/2015-03-31/functions/function/invocations");
        Ok(Self { url, _process: process })
    }

    async fn invoke(&self, payload: &Value) -> Result<Value, String> {
        let client = reqwest::Client::new();
        // It takes a moment to listen.
        for _ in 0..100 {
            let asked = client.post(&self.url).body(payload.to_string()).send();
            match timeout(Duration::from_mins(1), asked).await {
                Ok(Ok(answer)) => {
                    let text = answer.text().await.map_err(|error| error.to_string())?;
                    return Ok(serde_json::from_str(&text).unwrap_or(Value::String(text)));
                }
                Ok(Err(error)) if error.is_connect() => sleep(Duration::from_millis(20)).await,
                Ok(Err(error)) => return Err(error.to_string()),
                Err(_) => return Err("the function does not answer".into()),
            }
        }
        Err("the emulator does not listen".into())
    }
}

async fn free_address() -> Result<String, String> {
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(|error| error.to_string())?;
    listener.local_addr().map(|address| address.to_string()).map_err(|error| error.to_string())
}
