use std::path::PathBuf;

use touchline::config::ConfigError;
use touchline_stack::resources::UnsupportedSchedule;
use touchline_stack::store::EmbeddedStoreError;
use touchline_stack::tables::TableError;
use touchline_stack::template::TemplateError;

/// Why the stack did not start. Each message is one line. If the remedy is not obvious, the message says it.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("port {0} is in use or not allowed ({1}); choose another port with --port")]
    Port(u16, std::io::Error),
    #[error("{0}; choose another port with --dynamodb-port")]
    StorePort(EmbeddedStoreError),
    #[error("{0}; move the data folder away, or choose another folder with --data")]
    Data(EmbeddedStoreError),
    #[error("the data folder {0} cannot be used: {1}")]
    Folder(PathBuf, std::io::Error),
    #[error("the data folder {0} is in use by another local stack; choose another folder with --data")]
    FolderInUse(PathBuf),
    #[error("the registration file {0} cannot be used: {1}")]
    Registration(PathBuf, String),
    #[error("the template {0} cannot be read: {1}")]
    TemplateFile(PathBuf, std::io::Error),
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error(transparent)]
    Schedule(#[from] UnsupportedSchedule),
    #[error("the DynamoDB at {0} does not respond")]
    StoreUnreachable(String),
    #[error("{0}; if the data folder is from another version, move it away or choose another with --data")]
    Table(#[from] TableError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("the template has a function {0} that this program does not contain")]
    UnknownFunction(String),
    #[error("the demo league could not be imported ({0}); start with --no-demo to skip it")]
    Demo(String),
    #[error("the fans of the demo league could not be added ({0}); start with --no-crowd to leave them out")]
    Crowd(String),
    #[error("the DynamoDB streams cannot be read: {0}")]
    Streams(String),
}
