//! Starts and stops the local stack.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::config::SharedHttpClient;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use touchline::App;
use touchline::config::{Aws, Config, Tables};
use touchline::domain::catalog::ShownStatus;
use touchline::ports::clock::{Clock as _, SystemClock};
use touchline::storage::Store;
use touchline_stack::store::{EmbeddedStoreError, reachable_address};
use touchline_stack::tables::{self, TableError};
use touchline_stack::template::TemplateError;
use touchline_stack::{EmbeddedStore, Stack};

use crate::calls::CallRecorder;
use crate::data_folder::DataFolder;
use crate::error::StartError;
use crate::gateway::Gateway;
use crate::host::Host;
use crate::options::Options;
use crate::registration::Registration;
use crate::schedules::Schedules;
use crate::streams::Streams;
use crate::{demo, functions, settings};

/// A running stack.
#[derive(Debug)]
pub struct LocalStack {
    pub api: SocketAddr,
    pub dynamodb: String,
    pub tables: Vec<String>,
    pub functions: Vec<String>,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
    embedded_store: Option<EmbeddedStore>,
    /// Keeps the data folder locked.
    _folder: Option<DataFolder>,
}

impl LocalStack {
    pub async fn start(options: &Options) -> Result<Self, StartError> {
        // Bind the port first: a second stack, started by mistake, must fail before it touches the data.
        let port_failed = |error| StartError::Port(options.port, error);
        let listener = TcpListener::bind((options.host, options.port)).await.map_err(port_failed)?;
        let api = reachable_address(listener.local_addr().map_err(port_failed)?);

        let registration = settings::read_registration(options)?;
        let stack = settings::read_stack(options, registration.as_ref())?;
        let (folder, embedded_store, dynamodb) = open_store(options).await?;

        let http = aws_smithy_http_client::Builder::new().build_http();
        let HostedFunctions { host, stores, aws, tables } =
            host_functions(&stack, options, registration.as_ref(), &dynamodb, &http)?;
        let client = touchline::storage::connect(&aws, http.clone());
        tables::create(&client, &stack.tables).await.map_err(|error| match error {
            TableError::Unreachable => StartError::StoreUnreachable(dynamodb.clone()),
            error => error.into(),
        })?;
        if options.record_calls.is_some() {
            for store in stores {
                // In Lambda, every function pings its store during init, so the recorded calls must contain
                // the ping.
                let _ = store.ping().await;
            }
        }

        let host = Arc::new(host);
        let checkpoints = folder.as_ref().map(DataFolder::stream_checkpoints);
        let streams = Streams::open(&stack, &aws, http, &client, Arc::clone(&host), checkpoints)
            .await
            .map_err(StartError::Streams)?;
        let streams = Arc::new(streams);
        let schedules = Schedules::new(&stack, Arc::clone(&host), Arc::clone(&streams))?;
        let gateway = Gateway::new(&stack, Arc::clone(&host), Arc::clone(&streams), options.quiet);
        let (stop, stopped) = watch::channel(false);
        let tasks = vec![
            tokio::spawn(Arc::clone(&streams).run(stopped.clone())),
            tokio::spawn(schedules.run(stopped.clone())),
            tokio::spawn(gateway.serve(listener, stopped)),
        ];

        // The API already serves requests. A new store contains no teams and matches until this import is done.
        if !options.no_demo && host.contains("feed") {
            import_demo_league(&host, &Store::new(client, tables)).await?;
            streams.deliver_pending().await;
        }

        Ok(Self {
            api,
            dynamodb,
            tables: stack.tables.iter().map(|table| table.name.clone()).collect(),
            functions: stack.functions.iter().map(|function| function.name.clone()).collect(),
            stop,
            tasks,
            embedded_store,
            _folder: folder,
        })
    }

    /// Waits for the requests, scheduled invocations and stream deliveries in progress, then closes the
    /// store.
    pub async fn stop(self) {
        let _ = self.stop.send(true);
        for task in self.tasks {
            let _ = task.await;
        }
        if let Some(store) = self.embedded_store {
            store.stop().await;
        }
    }
}

/// Starts the embedded DynamoDB, unless the options contain the URL of another DynamoDB. The returned
/// `String` is the URL of the DynamoDB in use.
async fn open_store(
    options: &Options,
) -> Result<(Option<DataFolder>, Option<EmbeddedStore>, String), StartError> {
    if let Some(url) = &options.dynamodb {
        return Ok((None, None, url.clone()));
    }
    let folder = if options.memory { None } else { Some(DataFolder::open(options.data.clone())?) };
    let file = folder.as_ref().map(DataFolder::database);
    let address = (options.host, options.dynamodb_port).into();
    let store = EmbeddedStore::start(file.as_deref(), address).await.map_err(|error| match error {
        EmbeddedStoreError::Port(..) => StartError::StorePort(error),
        EmbeddedStoreError::Data(..) => StartError::Data(error),
    })?;
    let url = store.url();
    Ok((folder, Some(store), url))
}

struct HostedFunctions {
    host: Host,
    /// The store of each function, which records the calls of that function.
    stores: Vec<Store>,
    /// The AWS settings, which all functions share.
    aws: Aws,
    /// The table names, which all functions share.
    tables: Tables,
}

/// Builds every function of the template with its own configuration.
fn host_functions(
    stack: &Stack,
    options: &Options,
    registration: Option<&Registration>,
    dynamodb: &str,
    http: &SharedHttpClient,
) -> Result<HostedFunctions, StartError> {
    let recorder = CallRecorder::new(options.record_calls.clone());
    let mut host = Host::default();
    let mut stores = Vec::new();
    let mut shared = None;
    for function in &stack.functions {
        let variables = settings::environment(&function.environment, dynamodb, options, registration);
        let config = Config::read(|name| variables.get(name).cloned())?;
        shared = Some((config.aws.clone(), config.tables.clone()));
        let app = App::with_http_client(config, recorder.client(&function.name, http.clone()));
        stores.push(app.store.clone());
        let timeout = Duration::from_secs(function.timeout_seconds);
        let handler = functions::handler(&function.name, timeout, app)
            .ok_or_else(|| StartError::UnknownFunction(function.name.clone()))?;
        host.add(&function.name, timeout, handler);
    }
    let (aws, tables) = shared.ok_or_else(|| TemplateError::Missing("any functions".into()))?;
    Ok(HostedFunctions { host, stores, aws, tables })
}

/// Imports the demo league. Includes older matches that are still unfinished in the store, so that they get
/// their results.
async fn import_demo_league(host: &Host, store: &Store) -> Result<(), StartError> {
    // If the catalog cannot be read, the import rebuilds it.
    let loaded = touchline::storage::catalog::load_latest(store, None).await.ok().flatten();
    let unfinished: Vec<u32> = loaded
        .iter()
        .flat_map(|loaded| loaded.catalog.events())
        .filter(|event| event.status.shown() != ShownStatus::Finished)
        .map(|event| event.id)
        .collect();
    let league = demo::league(SystemClock.now(), unfinished);
    match host.invoke("feed", league).await {
        Some(Err(error)) => Err(StartError::Demo(error.to_string())),
        _ => Ok(()),
    }
}
