//! Measures cold starts: the time from the start of a process until it has sent its first response to the Lambda
//! Runtime API.
//!
//! Compares functions of the product with a function that does nothing and, optionally, with a Node.js function.
//!
//! Usage: `cold-start FOLDER [NODE] [--quick] [--write | --check]`. FOLDER is `target/lambda`, where
//! `tests/build` puts the release binaries. NODE is the folder `infra/bench/node`. Run `npm ci` there first.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::sync::mpsc;
use touchline_bench::StoreProcess;
use touchline_bench::report::Report;

/// The number of rounds. Each round starts every candidate once.
const ROUNDS: usize = 100;

/// The number of rounds with `--quick`.
const QUICK_ROUNDS: usize = 30;

/// The benchmark sends these Lambda events because each causes a read of the store. Most requests to the
/// product read the store too.
const HEALTH: &str = include_str!("../../../../events/meta/health.json");
const USERNAME_CHECK: &str = include_str!("../../../../events/login/username-check.json");
/// The token of this event belongs to nobody, so the response is 401, after a read of the session.
const OWN_PREDICTIONS: &str = include_str!("../../../../events/predictions/own.json");

/// The variables that Lambda itself sets.
const LAMBDA_VARIABLES: [(&str, &str); 5] = [
    ("AWS_LAMBDA_FUNCTION_NAME", "bench"),
    ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256"),
    ("AWS_LAMBDA_FUNCTION_VERSION", "1"),
    ("AWS_LAMBDA_LOG_GROUP_NAME", "bench"),
    ("AWS_LAMBDA_LOG_STREAM_NAME", "bench"),
];

struct Candidate {
    name: &'static str,
    program: PathBuf,
    argument: Option<PathBuf>,
    event: &'static str,
    /// The HTTP status of the response.
    status: u16,
    /// The variables that name a secret, which the function fetches when it starts.
    secrets: &'static [&'static str],
    times: Vec<Duration>,
}

#[tokio::main]
async fn main() {
    if std::env::args().nth(1).as_deref() == Some("store") {
        return touchline_bench::serve_store().await;
    }
    let folder =
        PathBuf::from(std::env::args().nth(1).expect("the first argument is the folder `target/lambda`"));
    let store = StoreProcess::start().await;
    let candidate = |name: &'static str, binary: &str, event, status| Candidate {
        name,
        program: folder.join(binary).join("bootstrap"),
        argument: None,
        event,
        status,
        secrets: &[],
        times: Vec::new(),
    };
    let mut candidates = vec![
        candidate("an empty function", "empty-function", HEALTH, 200),
        candidate("meta: health", "meta", HEALTH, 200),
        candidate("login: username/check", "login", USERNAME_CHECK, 200),
        Candidate {
            secrets: &["CODE_PEPPER", "CHAT_AS_TOKEN"],
            ..candidate("the same, with two secrets", "login", USERNAME_CHECK, 200)
        },
        candidate("predictions: own", "predictions", OWN_PREDICTIONS, 401),
    ];
    if let Some(node) = std::env::args().nth(2).filter(|argument| !argument.starts_with("--")) {
        let argument = Some(PathBuf::from(node).join("bootstrap.mjs"));
        let program = PathBuf::from("node");
        candidates.push(Candidate { program, argument, ..candidate("health, on Node 20", "", HEALTH, 200) });
    }
    let is_quick = std::env::args().any(|argument| argument == "--quick");
    for _ in 0..if is_quick { QUICK_ROUNDS } else { ROUNDS } {
        for candidate in &mut candidates {
            let time = first_response(candidate, &store.url).await;
            candidate.times.push(time);
        }
    }
    let median_and_fastest = |candidate: &Candidate| {
        let mut times = candidate.times.clone();
        times.sort();
        (times[times.len() / 2].as_secs_f64(), times[0].as_secs_f64())
    };
    let mut report = Report::new("cold-start");
    report
        .line("| function | median | fastest | median to empty | fastest to empty |\n|---|---|---|---|---|");
    let empty = median_and_fastest(&candidates[0]);
    for candidate in &candidates {
        let (median, fastest) = median_and_fastest(candidate);
        let ratios = (median / empty.0, fastest / empty.1);
        report.line(format!(
            "| {} | {:.2} ms | {:.2} ms | {:.2} | {:.2} |",
            candidate.name,
            median * 1e3,
            fastest * 1e3,
            ratios.0,
            ratios.1
        ));
        if candidate.argument.is_none() && candidate.name != candidates[0].name {
            report.ratio(format!("{}, median to empty", candidate.name), ratios.0);
            report.ratio(format!("{}, fastest to empty", candidate.name), ratios.1);
        }
    }
    report.finish();
}

/// Starts the candidate's process and returns the time until its first response. This benchmark serves the
/// Runtime API, through which the process receives one event and sends the response.
#[expect(clippy::disallowed_methods, reason = "measures time")]
async fn first_response(candidate: &Candidate, store: &str) -> Duration {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("the listener has an address").to_string();
    let (sender, mut responses) = mpsc::channel(1);
    let event = candidate.event;
    let serving = tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            tokio::spawn(serve(connection, event, sender.clone()));
        }
    });
    let started = Instant::now();
    let mut process = Command::new(&candidate.program)
        .args(&candidate.argument)
        .env_clear()
        .envs(touchline_bench::variables(store).0)
        .envs(LAMBDA_VARIABLES)
        .env("AWS_LAMBDA_RUNTIME_API", &address)
        .env("AWS_ENDPOINT_URL_SECRETS_MANAGER", format!("http://{address}"))
        .envs(candidate.secrets.iter().map(|variable| (variable, format!("secretsmanager:{variable}"))))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("the process starts");
    let response: Option<String> = responses.recv().await;
    let time = started.elapsed();
    let is_expected = response.is_some_and(|body| body.contains(&candidate.status.to_string()));
    assert!(is_expected, "{} did not respond with {}", candidate.name, candidate.status);
    process.kill().await.expect("the process ends");
    serving.abort();
    time
}

/// Serves the Runtime API on one connection: sends the event and receives the response. Also serves as Secrets Manager.
async fn serve(mut connection: TcpStream, event: &str, responses: mpsc::Sender<String>) {
    let mut buffer = Vec::new();
    loop {
        let Some((head, body)) = read_request(&mut connection, &mut buffer).await else { return };
        let reply = if head.starts_with("GET ") {
            format!(
                "HTTP/1.1 200 OK\r\nLambda-Runtime-Aws-Request-Id: 1\r\nLambda-Runtime-Deadline-Ms: 4102444800000\r\n\
                 Lambda-Runtime-Invoked-Function-Arn: arn:aws:lambda:eu-west-1:123456789012:function:bench\r\n\
                 Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{event}",
                event.len()
            )
        } else if head.contains("secretsmanager.GetSecretValue") {
            let secret = r#"{"SecretString":"a secret for the benchmark"}"#;
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{secret}", secret.len())
        } else {
            let _ = responses.try_send(body);
            "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n".to_owned()
        };
        if connection.write_all(reply.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Reads the head and the body of a request. The body has a content length or is chunked.
async fn read_request(connection: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<(String, String)> {
    loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
            let lower = head.to_lowercase();
            let length =
                lower.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
            let body = &buffer[end + 4..];
            let complete = match length {
                Some(length) => (body.len() >= length).then_some(length),
                None if lower.contains("transfer-encoding: chunked") => {
                    body.windows(5).position(|window| window == b"0\r\n\r\n").map(|at| at + 5)
                }
                None => Some(0),
            };
            if let Some(length) = complete {
                let text = String::from_utf8_lossy(&body[..length]).into_owned();
                buffer.drain(..end + 4 + length);
                return Some((head, text));
            }
        }
        let mut part = [0; 8_192];
        match connection.read(&mut part).await {
            Ok(length @ 1..) => buffer.extend_from_slice(&part[..length]),
            _ => return None,
        }
    }
}
