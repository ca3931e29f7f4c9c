#![expect(clippy::print_stdout, reason = "a program for the terminal")]

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser as _;
use touchline::api::{Endpoint as _, sms_logs::ListSmsLogs};
use touchline::ports::clock::{Clock as _, SystemClock};
use touchline::ports::random::SystemRandom;
use touchline_local::{Command, LocalStack, Options, demo_league, registration};

/// How long requests that are under way may take to end.
const PATIENCE: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> ExitCode {
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(asked) if !asked.use_stderr() => {
            print!("{asked}");
            return ExitCode::SUCCESS;
        }
        Err(wrong) => {
            let text = wrong.to_string();
            let what = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
            eprintln!("touchline: {what}; see --help");
            return ExitCode::from(2);
        }
    };
    if let Some(command) = &options.command {
        match command {
            Command::MatrixRegistration { server_name, url } => {
                print!("{}", registration(server_name, url, &SystemRandom));
            }
            Command::DemoLeague => println!("{}", demo_league(SystemClock.now(), [])),
        }
        return ExitCode::SUCCESS;
    }
    // Requests have their own lines; of the log, what is wrong is enough.
    touchline::telemetry::start(tracing::Level::WARN);
    let stack = match LocalStack::start(&options).await {
        Ok(stack) => stack,
        Err(error) => {
            eprintln!("touchline: {error}");
            return ExitCode::FAILURE;
        }
    };
    welcome(&stack, &options);
    asked_to_stop().await;
    println!("Stopping. Ctrl-C again stops at once.");
    tokio::select! {
        () = stack.stop() => {}
        () = asked_to_stop() => {}
        () = tokio::time::sleep(PATIENCE) => {}
    }
    ExitCode::SUCCESS
}

fn welcome(stack: &LocalStack, options: &Options) {
    let api = stack.api;
    let data = match &options.dynamodb {
        Some(_) => "not embedded".to_owned(),
        None if options.memory => "in memory".to_owned(),
        None => format!("kept in {}", options.data.display()),
    };
    println!("Touchline is running. Ctrl-C stops it.");
    if !options.host.is_loopback() {
        println!("Everybody on this network can reach it, the codes and the DynamoDB among it.");
    }
    println!();
    println!("  Console    http://{api}");
    println!("  Explorer   http://{api}/docs");
    println!("  API        http://{api}");
    println!("  SMS log    http://{api}{}", ListSmsLogs::PATH);
    match &options.homeserver {
        Some(url) => println!("  Chat       {url}"),
        None => println!("  Chat       rooms without messages; see docs/chat.md for a homeserver"),
    }
    println!("  DynamoDB   {} ({data}; tables {})", stack.dynamodb, stack.tables.join(", "));
    println!("  Invoke     aws lambda invoke --endpoint-url http://{api} --function-name NAME out.json");
    println!("             ({})", stack.functions.join(", "));
    println!();
}

/// Ctrl-C, or the word of whoever runs us.
async fn asked_to_stop() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}
