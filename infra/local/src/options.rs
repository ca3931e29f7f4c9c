//! The command line.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Runs Touchline on this machine: the API, all functions and a DynamoDB. Nothing else has to be installed.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
#[derive(Debug, Clone, Parser)]
#[command(name = "touchline", version, args_conflicts_with_subcommands = true)]
pub struct Options {
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Address to listen on. 0.0.0.0 makes the stack reachable for phones and containers.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub host: IpAddr,

    /// Accept requests for this host name, which other devices use for this machine. Can be repeated.
    /// Requests for localhost and for the address of --host are always accepted; with --host 0.0.0.0, those
    /// for any IP address.
    #[arg(long = "allow-host", value_name = "NAME", value_parser = host_name)]
    pub allowed_hosts: Vec<String>,

    /// Let web pages of this origin use the API, such as the origin of a development server. Can be repeated.
    #[arg(long = "allow-origin", value_name = "ORIGIN", value_parser = origin)]
    pub allowed_origins: Vec<String>,

    /// Port of the API and of the Lambda invoke API. 0 picks a free port.
    #[arg(long, default_value_t = 3000)]
    pub port: u16,

    /// Port of the embedded DynamoDB. 0 picks a free port.
    #[arg(long, default_value_t = 8000)]
    pub dynamodb_port: u16,

    /// Folder for the data.
    #[arg(long, value_name = "FOLDER", default_value = ".touchline")]
    pub data: PathBuf,

    /// Keep the data in memory. It is lost when the stack stops.
    #[arg(long)]
    pub memory: bool,

    /// Use the DynamoDB at this address instead of the embedded one.
    #[arg(long, value_name = "URL", conflicts_with_all = ["memory", "data", "dynamodb_port"])]
    pub dynamodb: Option<String>,

    /// Send codes through the SNS at this address instead of printing them.
    #[arg(long, value_name = "URL")]
    pub sns: Option<String>,

    /// Use the Matrix homeserver at this address. Without one, rooms carry no messages.
    #[arg(long, value_name = "URL", requires = "registration")]
    pub homeserver: Option<String>,

    /// How many seconds a request waits for the homeserver.
    #[arg(long, value_name = "SECONDS", default_value = "2", requires = "homeserver")]
    pub homeserver_timeout: u64,

    /// Registration file that the homeserver uses for this service. It contains the tokens and the server
    /// name.
    #[arg(long, value_name = "FILE")]
    pub registration: Option<PathBuf>,

    /// Name of the stack. Every table name begins with it.
    #[arg(long, value_name = "NAME", default_value = "touchline")]
    pub stack_name: String,

    /// Set a parameter of the template. Can be repeated.
    #[arg(long = "parameter", value_name = "NAME=VALUE", value_parser = name_and_value)]
    pub parameters: Vec<(String, String)>,

    /// Use this template instead of the built-in one.
    #[arg(long, value_name = "FILE")]
    pub template: Option<PathBuf>,

    /// Do not import the demo league or its fans.
    #[arg(long)]
    pub no_demo: bool,

    /// Import the demo league without its fans: no users, predictions or rooms but yours.
    #[arg(long)]
    pub no_crowd: bool,

    /// Append the DynamoDB calls of each function to this file. Repeated calls are written once.
    #[arg(long = "note-calls", value_name = "FILE")]
    pub record_calls: Option<PathBuf>,

    /// Do not print a line for each request.
    #[arg(long)]
    pub quiet: bool,
}

/// Commands that print something instead of running the stack.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Print a registration file with new tokens for a Matrix homeserver.
    MatrixRegistration {
        /// Name of the homeserver: the part of Matrix user ids after the colon.
        #[arg(long, value_name = "NAME")]
        server_name: String,

        /// Address at which the homeserver reaches this API.
        #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:3000")]
        url: String,
    },
    /// Print the demo league, with matches around the current time, as a payload for the `feed` function of any
    /// stack.
    DemoLeague,
}

fn host_name(text: &str) -> Result<String, String> {
    let is_name = |character: char| character.is_ascii_alphanumeric() || matches!(character, '.' | '-' | '_');
    if text.is_empty() || !text.chars().all(is_name) {
        return Err("expected a name without a port, for example my-laptop.local".into());
    }
    Ok(text.to_owned())
}

/// Parses an origin as browsers send it: without a path, and without the default port of its scheme.
fn origin(text: &str) -> Result<String, String> {
    let authority =
        text.strip_prefix("http://").or_else(|| text.strip_prefix("https://")).unwrap_or_default();
    let is_authority = |character: char| {
        character.is_ascii_graphic() && !matches!(character, '/' | '*' | ',' | '@' | '?' | '#')
    };
    if authority.is_empty() || !authority.chars().all(is_authority) {
        return Err("expected an origin without a path, for example http://localhost:5173".into());
    }
    Ok(text.to_ascii_lowercase())
}

fn name_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".into()),
    }
}
