//! The local stack: the whole product on one machine, wired as `template.yaml` says.
//!
//! An HTTP request becomes the event that API Gateway would send, passes through `lambda_http` into the
//! very code that runs in Lambda, and reaches a real DynamoDB engine through the AWS SDK.

mod calls;
mod console;
mod demo;
mod functions;
mod gateway;
mod invoke;
mod options;
mod registration;
mod schedules;
mod streams;

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use touchline::App;
use touchline::config::{Config, ConfigError};
use touchline::domain::catalog::ShownStatus;
use touchline::ports::clock::{Clock as _, SystemClock};
use touchline::storage::Store;
use touchline_stack::store::{EmbeddedStoreError, from_here};
use touchline_stack::tables::{self, TableError};
use touchline_stack::template::TemplateError;
use touchline_stack::{EmbeddedStore, Stack, TEMPLATE, Template};

pub use demo::league as demo_league;
pub use functions::{HTTP_FUNCTIONS, Host, Hosted, HttpFunction, http_function};
pub use options::{Command, Options};
pub use registration::registration;
pub use schedules::Schedules;
pub use streams::Streams;

use registration::Registration;

/// Why the stack did not start. Each is one line that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("port {0} is in use or not allowed ({1}); choose another with --port")]
    Port(u16, std::io::Error),
    #[error("{0}; choose another with --dynamodb-port")]
    StorePort(EmbeddedStoreError),
    #[error("{0}; move the folder away, or choose another with --data")]
    Data(EmbeddedStoreError),
    #[error("the data folder {0} cannot be used: {1}")]
    Folder(PathBuf, std::io::Error),
    #[error("the data folder {0} is in use by another local stack; choose another with --data")]
    FolderInUse(PathBuf),
    #[error("the registration file {0} cannot be used: {1}")]
    Registration(PathBuf, String),
    #[error("the template {0} cannot be read: {1}")]
    TemplateFile(PathBuf, std::io::Error),
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error("the DynamoDB at {0} does not answer")]
    NoStore(String),
    #[error("{0}; a data folder of another version can be moved away, or choose another with --data")]
    Table(#[from] TableError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("the template has a function {0} that is not part of this program")]
    UnknownFunction(String),
    #[error("the demo league could not be imported ({0}); start with --no-demo to go on without")]
    Demo(String),
    #[error("the streams cannot be read: {0}")]
    Streams(String),
}

/// A running stack.
#[derive(Debug)]
pub struct LocalStack {
    pub api: SocketAddr,
    pub dynamodb: String,
    pub tables: Vec<String>,
    pub functions: Vec<String>,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
    store: Option<EmbeddedStore>,
    /// Held until the end, so that no second stack opens the same data.
    _lock: Option<File>,
}

impl LocalStack {
    pub async fn start(options: &Options) -> Result<Self, StartError> {
        // The port first: a second start by mistake must not touch the data.
        let closed = |error| StartError::Port(options.port, error);
        let listener = TcpListener::bind((options.host, options.port)).await.map_err(closed)?;
        let api = from_here(listener.local_addr().map_err(closed)?);

        let registration = read_registration(options)?;
        let stack = read_stack(options, registration.as_ref())?;
        let (folder, lock) = open_folder(options)?;
        let store = if options.dynamodb.is_some() {
            None
        } else {
            let file = folder.as_ref().map(|folder| folder.join("dynamodb.sqlite"));
            let address = (options.host, options.dynamodb_port).into();
            Some(EmbeddedStore::start(file.as_deref(), address).await.map_err(|error| match error {
                EmbeddedStoreError::Port(..) => StartError::StorePort(error),
                EmbeddedStoreError::Data(..) => StartError::Data(error),
            })?)
        };
        let dynamodb = match (&options.dynamodb, &store) {
            (Some(url), _) => url.clone(),
            (None, Some(store)) => store.url(),
            (None, None) => unreachable!("a store is embedded unless one is given"),
        };

        let calls = calls::Calls::new(options.note_calls.clone());
        let http = aws_smithy_http_client::Builder::new().build_http();
        let mut waking = Vec::new();
        let mut host = Host::default();
        let mut shared = None;
        for function in &stack.functions {
            let variables = variables(&function.environment, &dynamodb, options, registration.as_ref());
            let config = Config::read(|name| variables.get(name).cloned())?;
            shared = Some((config.aws.clone(), config.tables.clone()));
            let app = App::over(config, calls.of(&function.name, http.clone()));
            if options.note_calls.is_some() {
                waking.push(app.store.clone());
            }
            let timeout = Duration::from_secs(function.timeout_seconds);
            let hosted = functions::hosted(&function.name, timeout, app)
                .ok_or_else(|| StartError::UnknownFunction(function.name.clone()))?;
            host.add(&function.name, timeout, hosted);
        }
        let host = Arc::new(host);
        let (aws, names) = shared.ok_or_else(|| TemplateError::Missing("functions".into()))?;

        let client = touchline::storage::connect(&aws, http.clone());
        tables::create(&client, &stack.tables).await.map_err(|error| match error {
            TableError::NoAnswer => StartError::NoStore(dynamodb.clone()),
            error => error.into(),
        })?;
        for store in waking {
            // As every function does while Lambda starts it.
            let _ = store.ping().await;
        }
        let checkpoints = folder.map(|folder| folder.join("streams.json"));
        let streams = Streams::open(&stack, &aws, http, &client, Arc::clone(&host), checkpoints)
            .await
            .map_err(StartError::Streams)?;
        let streams = Arc::new(streams);

        let (stop, stopped) = watch::channel(false);
        let mut tasks = vec![
            tokio::spawn(Arc::clone(&streams).run(stopped.clone())),
            tokio::spawn(
                Schedules::new(&stack, Arc::clone(&host), Arc::clone(&streams))?.run(stopped.clone()),
            ),
        ];
        let gateway = gateway::Gateway::new(&stack, Arc::clone(&host), Arc::clone(&streams), options.quiet);
        tasks.push(tokio::spawn(gateway.serve(listener, stopped)));

        // The API answers already; only lists of matches wait for this, and only the first time.
        if !options.no_demo && host.has("feed") {
            // A catalog that cannot be read is built anew by the import itself.
            let loaded = touchline::storage::catalog::load_latest(&Store::new(client.clone(), names), None)
                .await
                .ok()
                .flatten();
            let unfinished: Vec<u32> = loaded
                .iter()
                .flat_map(|loaded| loaded.catalog.events())
                .filter(|event| event.status.shown() != ShownStatus::Finished)
                .map(|event| event.id)
                .collect();
            let league = demo::league(SystemClock.now(), unfinished);
            if let Some(Err(error)) = host.invoke("feed", league).await {
                return Err(StartError::Demo(error.to_string()));
            }
            streams.drain().await;
        }

        Ok(Self {
            api,
            dynamodb,
            tables: stack.tables.iter().map(|table| table.name.clone()).collect(),
            functions: stack.functions.iter().map(|function| function.name.clone()).collect(),
            stop,
            tasks,
            store,
            _lock: lock,
        })
    }

    /// Lets what is running end, then closes the data.
    pub async fn stop(self) {
        let _ = self.stop.send(true);
        for task in self.tasks {
            let _ = task.await;
        }
        if let Some(store) = self.store {
            store.stop().await;
        }
    }
}

fn read_registration(options: &Options) -> Result<Option<Registration>, StartError> {
    let Some(path) = &options.registration else { return Ok(None) };
    match Registration::read(path) {
        Ok(registration) => Ok(Some(registration)),
        Err(problem) => Err(StartError::Registration(path.clone(), problem)),
    }
}

fn read_stack(options: &Options, registration: Option<&Registration>) -> Result<Stack, StartError> {
    let text = match &options.template {
        None => TEMPLATE.to_owned(),
        Some(path) => {
            fs::read_to_string(path).map_err(|error| StartError::TemplateFile(path.clone(), error))?
        }
    };
    let mut parameters: BTreeMap<String, String> = [
        ("AWS::StackName", options.stack_name.as_str()),
        ("Environment", "local"),
        // A developer sees every change at once.
        ("CatalogMaxAgeMs", "0"),
        ("SmsProvider", if options.sns.is_some() { "sns" } else { "console" }),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    if let Some(url) = &options.homeserver {
        parameters.insert("ChatHomeserverUrl".into(), url.clone());
    }
    if let Some(name) = registration.and_then(|registration| registration.server_name.clone()) {
        parameters.insert("ChatServerName".into(), name);
    }
    parameters.extend(options.parameters.iter().cloned());
    Ok(Template::parse(&text)?.resolve(&parameters)?)
}

/// What Lambda and Secrets Manager would add to a function's variables.
fn variables(
    of_template: &BTreeMap<String, String>,
    dynamodb: &str,
    options: &Options,
    registration: Option<&Registration>,
) -> BTreeMap<String, String> {
    let mut variables = of_template.clone();
    variables.extend(
        [
            ("AWS_REGION", "eu-west-1"),
            ("AWS_ACCESS_KEY_ID", "local"),
            ("AWS_SECRET_ACCESS_KEY", "local"),
            ("AWS_ENDPOINT_URL_DYNAMODB", dynamodb),
            // Always the same, so that a code outlives a restart. It protects nothing here: codes are
            // in the log in clear.
            ("CODE_PEPPER", "the pepper of every local stack"),
            ("CHAT_AS_TOKEN", registration.map_or("", |registration| &registration.as_token)),
            ("CHAT_HS_TOKEN", registration.map_or("", |registration| &registration.hs_token)),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    if let Some(sns) = &options.sns {
        variables.insert("AWS_ENDPOINT_URL_SNS".into(), sns.clone());
    }
    variables
}

fn open_folder(options: &Options) -> Result<(Option<PathBuf>, Option<File>), StartError> {
    if options.memory || options.dynamodb.is_some() {
        return Ok((None, None));
    }
    let folder = options.data.clone();
    let failed = |error| StartError::Folder(folder.clone(), error);
    fs::create_dir_all(&folder).map_err(failed)?;
    let lock = File::create(folder.join("lock")).map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => Ok((Some(folder), Some(lock))),
        Err(TryLockError::WouldBlock) => Err(StartError::FolderInUse(folder)),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}
