use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Touchline on this machine: the API, the functions and a DynamoDB, with nothing to install.
#[derive(Debug, Clone, Parser)]
#[command(name = "touchline", version, args_conflicts_with_subcommands = true)]
pub struct Options {
    #[command(subcommand)]
    pub command: Option<Command>,

    /// The address to listen on; 0.0.0.0 lets phones and containers in.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub host: IpAddr,

    /// The port of the API and of the Lambda invoke API; 0 picks a free one.
    #[arg(long, default_value_t = 3000)]
    pub port: u16,

    /// The port of the embedded DynamoDB; 0 picks a free one.
    #[arg(long, default_value_t = 8000)]
    pub dynamodb_port: u16,

    /// Where the data is kept.
    #[arg(long, value_name = "FOLDER", default_value = ".touchline")]
    pub data: PathBuf,

    /// Keep the data in memory: it is gone at the end.
    #[arg(long)]
    pub memory: bool,

    /// Use the DynamoDB at this address instead of the embedded one.
    #[arg(long, value_name = "URL", conflicts_with_all = ["memory", "data", "dynamodb_port"])]
    pub dynamodb: Option<String>,

    /// Send codes through the SNS at this address instead of printing them.
    #[arg(long, value_name = "URL")]
    pub sns: Option<String>,

    /// Use the Matrix homeserver at this address instead of rooms that carry no messages.
    #[arg(long, value_name = "URL", requires = "registration")]
    pub homeserver: Option<String>,

    /// The registration file that the homeserver has of us: its tokens and its server's name.
    #[arg(long, value_name = "FILE")]
    pub registration: Option<PathBuf>,

    /// The name of the stack, which begins the tables' names.
    #[arg(long, value_name = "NAME", default_value = "touchline")]
    pub stack_name: String,

    /// Set a parameter of the template; can be repeated.
    #[arg(long = "parameter", value_name = "NAME=VALUE", value_parser = name_and_value)]
    pub parameters: Vec<(String, String)>,

    /// Use this template instead of the one built in.
    #[arg(long, value_name = "FILE")]
    pub template: Option<PathBuf>,

    /// Do not import the demo league.
    #[arg(long)]
    pub no_demo: bool,

    /// Note which calls each function makes to DynamoDB in this file.
    #[arg(long, value_name = "FILE")]
    pub note_calls: Option<PathBuf>,

    /// Do not print a line for each request.
    #[arg(long)]
    pub quiet: bool,
}

/// Something else than to run.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Print a registration file for a Matrix homeserver, with new tokens.
    MatrixRegistration {
        /// The homeserver's name: the part of chat identities after the colon.
        #[arg(long, value_name = "NAME")]
        server_name: String,

        /// Where the homeserver reaches this API.
        #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:3000")]
        url: String,
    },
    /// Print the demo league as it stands now: a payload for `feed` of any stack.
    DemoLeague,
}

fn name_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("give it as NAME=VALUE".into()),
    }
}
