#![expect(clippy::print_stdout, reason = "a program for the terminal")]

use std::process::ExitCode;

use clap::Parser as _;
use touchline_local::{LocalStack, Options};

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
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
    wait_for_the_end().await;
    println!("Stopping.");
    stack.stop().await;
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
    println!();
    println!("  API        http://{api}");
    println!("  SMS log    http://{api}/api/logs/sms");
    println!("  DynamoDB   {} ({data}; tables {})", stack.dynamodb, stack.tables.join(", "));
    println!("  Invoke     aws lambda invoke --endpoint-url http://{api} --function-name NAME out.json");
    println!("             ({})", stack.functions.join(", "));
    println!();
}

/// Ctrl-C, or the word of whoever runs us.
async fn wait_for_the_end() {
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
