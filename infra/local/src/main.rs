#![expect(clippy::print_stdout, reason = "a program for the terminal")]

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser as _;
use touchline::api::{Endpoint as _, sms_logs::ListSmsLogs};
use touchline::ports::clock::{Clock as _, SystemClock};
use touchline::ports::random::SystemRandom;
use touchline_local::{Command, Crowd, DemoLeague, LocalStack, Options, demo_league, output, registration};

/// The SDK makes many small allocations, from many threads. In an optimised build, this allocator serves a quarter
/// more predictions per second than the one of the C library (docs/architecture.md). A debug build spends its time
/// elsewhere.
#[cfg(not(debug_assertions))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The maximum time that the stack waits for requests in progress when it stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

const NO_HOMESERVER: &str = "rooms without messages; docs/chat.md explains how to add a homeserver";

#[tokio::main]
async fn main() -> ExitCode {
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) => return report_usage(&error),
    };
    match &options.command {
        None => run(&options).await,
        Some(Command::MatrixRegistration { server_name, url }) => {
            print!("{}", registration(server_name, url, &SystemRandom));
            ExitCode::SUCCESS
        }
        Some(Command::DemoLeague) => {
            println!("{}", demo_league(SystemClock.now(), []));
            ExitCode::SUCCESS
        }
    }
}

/// Prints the help and the version as clap formats them. Prints a usage error as one line.
fn report_usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        print!("{error}");
        return ExitCode::SUCCESS;
    }
    let text = error.to_string();
    let problem = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
    eprintln!("touchline: {problem}; see --help");
    ExitCode::from(2)
}

async fn run(options: &Options) -> ExitCode {
    // The gateway prints a line for each request, so the log contains only warnings and errors.
    touchline::telemetry::start(tracing::Level::WARN);
    // Listen before the address is printed. A program that reads the address may stop the stack immediately.
    let mut signals = match StopSignals::listen() {
        Ok(signals) => signals,
        Err(error) => {
            eprintln!("touchline: cannot listen for Ctrl-C: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut stack = match LocalStack::start(options).await {
        Ok(stack) => stack,
        Err(error) => {
            eprintln!("touchline: {error}");
            return ExitCode::FAILURE;
        }
    };
    print_banner(&stack, options);
    let until_stopped = async {
        report_demo_league(&mut stack).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = until_stopped => {}
        () = signals.next() => {}
    }
    output::line(format_args!(
        "Stopping after the requests in progress. Press Ctrl-C again to stop immediately."
    ));
    tokio::select! {
        () = stack.stop() => {}
        () = signals.next() => {}
        () = tokio::time::sleep(STOP_TIMEOUT) => {}
    }
    ExitCode::SUCCESS
}

fn print_banner(stack: &LocalStack, options: &Options) {
    let api = stack.api;
    let data = match &options.dynamodb {
        Some(_) => "external".to_owned(),
        None if options.memory => "in memory".to_owned(),
        None => format!("data in {}", options.data.display()),
    };
    output::line(format_args!("Touchline is running. Press Ctrl-C to stop."));
    if !options.host.is_loopback() {
        output::line(format_args!(
            "Every device on this network can reach the API, the login codes, DynamoDB and all functions, those of operators included."
        ));
    }
    output::line("");
    output::line(format_args!("  Console    http://{api}"));
    output::line(format_args!("  Explorer   http://{api}/docs"));
    output::line(format_args!("  API        http://{api}"));
    output::line(format_args!("  SMS log    http://{api}{}", ListSmsLogs::PATH));
    output::line(format_args!("  Chat       {}", options.homeserver.as_deref().unwrap_or(NO_HOMESERVER)));
    output::line(format_args!(
        "  DynamoDB   {} ({data}; tables {})",
        stack.dynamodb,
        stack.tables.join(", ")
    ));
    output::line(format_args!(
        "  Invoke     aws lambda invoke --endpoint-url http://{api} --function-name NAME out.json"
    ));
    output::line(format_args!("             ({})", stack.functions.join(", ")));
    output::line("");
}

/// Prints the progress of the work that runs in the background.
async fn report_demo_league(stack: &mut LocalStack) {
    if !stack.imports_demo_league() {
        return;
    }
    output::line(format_args!("Importing the demo league. Requests are answered meanwhile."));
    match stack.demo_league().await {
        Ok(Some(DemoLeague { teams, matches })) => {
            output::line(format_args!("The demo league is ready: {teams} teams, {matches} matches."));
        }
        Ok(None) => {}
        Err(error) => {
            eprintln!("touchline: {error}");
            return;
        }
    }
    match stack.crowd().await {
        Ok(Some(Crowd { fans, rooms })) => {
            output::line(format_args!("The fans are ready: {fans} fans, {rooms} rooms."));
        }
        Ok(None) => {}
        Err(error) => eprintln!("touchline: {error}"),
    }
}

/// Ctrl-C and SIGTERM. A signal that arrives while nobody waits for it is kept.
#[cfg(unix)]
struct StopSignals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl StopSignals {
    fn listen() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Ctrl-C.
#[cfg(windows)]
struct StopSignals(tokio::signal::windows::CtrlC);

#[cfg(windows)]
impl StopSignals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self(tokio::signal::windows::ctrl_c()?))
    }

    async fn next(&mut self) {
        self.0.recv().await;
    }
}
