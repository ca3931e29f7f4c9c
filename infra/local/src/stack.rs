//! Starts and stops the local stack.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::config::SharedHttpClient;
use chrono::TimeDelta;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use touchline::App;
use touchline::config::{Aws, Config, Tables};
use touchline::domain::catalog::ShownStatus;
use touchline::ports::clock::{Clock, SystemClock};
use touchline::storage::Store;
use touchline_stack::access::Access;
use touchline_stack::direct;
use touchline_stack::store::{EmbeddedStoreError, reachable_address};
use touchline_stack::streams::{RemoteStreams, StreamReader};
use touchline_stack::tables::{self, TableError};
use touchline_stack::template::TemplateError;
use touchline_stack::{EmbeddedStore, Stack};

use crate::calls::{self, CallObserver};
use crate::crowd::{self, Apps, CatchUpOnDrop, Crowd, TallyClock};
use crate::data_folder::DataFolder;
use crate::delivery::Inboxes;
use crate::error::StartError;
use crate::gateway::Gateway;
use crate::host::Host;
use crate::options::Options;
use crate::play::Player;
use crate::registration::Registration;
use crate::schedules::Schedules;
use crate::streams::Streams;
use crate::traffic::Traffic;
use crate::{demo, functions, settings};

/// The time that the import of the demo league gets.
const IMPORT_TIMEOUT: TimeDelta = TimeDelta::minutes(5);

/// A running stack.
#[derive(Debug)]
pub struct LocalStack {
    pub api: SocketAddr,
    pub dynamodb: String,
    pub tables: Vec<String>,
    pub functions: Vec<String>,
    demo: Option<JoinHandle<Result<DemoLeague, StartError>>>,
    crowd: Option<JoinHandle<Result<Crowd, StartError>>>,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
    stop_streams: watch::Sender<bool>,
    streams: JoinHandle<()>,
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
        let StoreAccess { folder, embedded, url, http } = open_store(options).await?;

        let inboxes = Inboxes::new(&stack);
        let gathers_crowd = !options.no_demo && !options.no_crowd;
        let tally_clock = gathers_crowd.then(|| Arc::new(TallyClock::behind()));
        let observer = CallObserver::new(inboxes.clone(), options.record_calls.clone());
        let HostedFunctions { host, apps, aws, tables } = host_functions(
            &stack,
            options,
            tally_clock.as_ref(),
            registration.as_ref(),
            if embedded.is_some() { direct::ENDPOINT } else { &url },
            &observer,
            &http,
        )?;
        let client = touchline::storage::connect(&aws, http.clone());
        tables::create(&client, &stack.tables).await.map_err(|error| match error {
            TableError::Unreachable => StartError::StoreUnreachable(url.clone()),
            error => error.into(),
        })?;
        if options.record_calls.is_some() {
            for app in apps.0.values() {
                // In Lambda, every function pings its store during init, so the recorded calls must contain
                // the ping.
                let _ = app.store.ping().await;
            }
        }

        if embedded.is_some() {
            // A process that was killed during an import still holds the lease, and it was the only one.
            if let Err(error) = Store::new(client.clone(), tables.clone()).end_feed_lease().await {
                tracing::warn!(%error, "cannot end the lease of an earlier import");
            }
        }

        let host = Arc::new(host);
        let crowd_client = touchline::storage::connect(&aws, observer.client("crowd", http.clone()));
        let reader = stream_reader(embedded.as_ref(), &aws, http);
        let checkpoints = folder.as_ref().map(DataFolder::stream_checkpoints);
        let traffic = Traffic::default();
        let streams =
            Streams::open(&inboxes, reader, &client, Arc::clone(&host), checkpoints, traffic.clone())
                .await
                .map_err(StartError::Streams)?;
        let schedules = Schedules::new(&stack, Arc::clone(&host))?;
        let access = Access::new(options.host, &options.allowed_hosts);
        let gateway = Gateway::new(&stack, access, Arc::clone(&host), traffic.clone(), options.quiet);
        let (stop, stopped) = watch::channel(false);
        let store = Store::new(client, tables);
        let player = Player::new(Arc::clone(&host), store.clone(), traffic, stopped.clone());
        let tasks = vec![
            tokio::spawn(schedules.run(stopped.clone())),
            tokio::spawn(gateway.serve(listener, Arc::new(player), options.homeserver.clone(), stopped)),
        ];
        let (stop_streams, stopped) = watch::channel(false);
        let streams = tokio::spawn(Arc::new(streams).run(stopped));
        // The demo league is imported in the background, so that the first requests do not wait for the import.
        let (imported, is_imported) = oneshot::channel();
        let feed = apps.0.get("feed").filter(|_| !options.no_demo);
        let feed = feed.map(|feed| if gathers_crowd { crowd::for_few_fans(feed) } else { feed.clone() });
        let demo = feed.map(|feed| {
            tokio::spawn(async move {
                let league = import_demo_league(feed, store).await?;
                let _ = imported.send(());
                Ok(league)
            })
        });
        let crowd =
            tally_clock.map(|clock| tokio::spawn(gather_crowd(apps, crowd_client, clock, is_imported)));

        Ok(Self {
            api,
            dynamodb: url,
            tables: stack.tables.iter().map(|table| table.name.clone()).collect(),
            functions: stack.functions.iter().map(|function| function.name.clone()).collect(),
            demo,
            crowd,
            stop,
            tasks,
            stop_streams,
            streams,
            embedded_store: embedded,
            _folder: folder,
        })
    }

    #[must_use]
    pub fn imports_demo_league(&self) -> bool {
        self.demo.is_some()
    }

    /// Waits until the demo league is imported. Returns `None` if this stack does not import the league, or if an
    /// earlier call returned it.
    pub async fn demo_league(&mut self) -> Result<Option<DemoLeague>, StartError> {
        let Some(import) = &mut self.demo else { return Ok(None) };
        let imported = import.await.unwrap_or_else(|error| Err(StartError::Demo(error.to_string())));
        self.demo = None;
        imported.map(Some)
    }

    /// Waits until the fans of the demo league are stored. Returns `None` if this stack has no fans, or if an earlier
    /// call returned them.
    pub async fn crowd(&mut self) -> Result<Option<Crowd>, StartError> {
        let Some(crowd) = &mut self.crowd else { return Ok(None) };
        let gathered = crowd.await.unwrap_or_else(|error| Err(StartError::Crowd(error.to_string())));
        self.crowd = None;
        gathered.map(Some)
    }

    /// Waits for the requests, scheduled invocations and stream deliveries in progress, then closes the
    /// store.
    pub async fn stop(self) {
        if let Some(import) = &self.demo {
            import.abort();
        }
        if let Some(crowd) = &self.crowd {
            // The next start continues.
            crowd.abort();
        }
        let _ = self.stop.send(true);
        for task in self.tasks {
            let _ = task.await;
        }
        // Stop the streams after the other tasks, because requests in progress wait for the deliveries of their
        // writes.
        let _ = self.stop_streams.send(true);
        let _ = self.streams.await;
        if let Some(store) = self.embedded_store {
            store.stop().await;
        }
    }
}

/// How the functions reach DynamoDB.
struct StoreAccess {
    folder: Option<DataFolder>,
    embedded: Option<EmbeddedStore>,
    /// The URL for other programs.
    url: String,
    http: SharedHttpClient,
}

/// Starts the embedded DynamoDB, unless the options contain the URL of another DynamoDB.
async fn open_store(options: &Options) -> Result<StoreAccess, StartError> {
    if let Some(url) = &options.dynamodb {
        let http = touchline::ports::aws_http::client();
        return Ok(StoreAccess { folder: None, embedded: None, url: url.clone(), http });
    }
    let folder = if options.memory { None } else { Some(DataFolder::open(options.data.clone())?) };
    let file = folder.as_ref().map(DataFolder::database);
    let failed = |error| match error {
        EmbeddedStoreError::Port(..) => StartError::StorePort(error),
        EmbeddedStoreError::Data(..) => StartError::Data(error),
    };
    let mut store = EmbeddedStore::open(file.as_deref()).map_err(failed)?;
    store.delete_expired_items();
    let address = (options.host, options.dynamodb_port).into();
    let url = store.listen(address, &options.allowed_hosts).await.map_err(failed)?;
    Ok(StoreAccess { folder, http: store.http_client(), embedded: Some(store), url })
}

fn stream_reader(embedded: Option<&EmbeddedStore>, aws: &Aws, http: SharedHttpClient) -> StreamReader {
    match embedded {
        Some(store) => StreamReader::Embedded(store.streams()),
        None => StreamReader::Remote(RemoteStreams::new(
            &aws.region,
            aws.credentials.clone(),
            aws.dynamodb_endpoint.as_ref(),
            http,
        )),
    }
}

struct HostedFunctions {
    host: Host,
    /// The app of each function. Its store records the calls of that function.
    apps: Apps,
    /// The AWS settings, which all functions share.
    aws: Aws,
    /// The table names, which all functions share.
    tables: Tables,
}

/// Builds every function of the template with its own configuration.
fn host_functions(
    stack: &Stack,
    options: &Options,
    tally_clock: Option<&Arc<TallyClock>>,
    registration: Option<&Registration>,
    dynamodb: &str,
    observer: &CallObserver,
    http: &SharedHttpClient,
) -> Result<HostedFunctions, StartError> {
    let network = touchline::ports::aws_http::client();
    let mut host = Host::default();
    let mut apps = BTreeMap::new();
    let mut shared = None;
    for function in &stack.functions {
        let variables = settings::environment(&function.environment, dynamodb, options, registration);
        let config = Config::read(|name| variables.get(name).cloned())?;
        shared = Some((config.aws.clone(), config.tables.clone()));
        let dynamodb = observer.client(&function.name, http.clone());
        let mut app = App::with_http_clients(config, dynamodb, network.clone());
        apps.insert(function.name.clone(), app.clone());
        if let Some(clock) = tally_clock.filter(|_| function.name == "tally") {
            app.clock = Arc::clone(clock) as Arc<dyn Clock>;
        }
        let timeout = Duration::from_secs(function.timeout_seconds);
        let handler = functions::handler(&function.name, timeout, app)
            .ok_or_else(|| StartError::UnknownFunction(function.name.clone()))?;
        host.add(&function.name, timeout, handler);
    }
    let (aws, tables) = shared.ok_or_else(|| TemplateError::Missing("any functions".into()))?;
    Ok(HostedFunctions { host, apps: Apps(apps), aws, tables })
}

/// Brings the fans of the demo league up to date, after the league is imported.
async fn gather_crowd(
    apps: Apps,
    client: aws_sdk_dynamodb::Client,
    tally_clock: Arc<TallyClock>,
    is_imported: oneshot::Receiver<()>,
) -> Result<Crowd, StartError> {
    let _catch_up = CatchUpOnDrop(&tally_clock);
    if is_imported.await.is_err() {
        return Err(StartError::Crowd("the demo league is missing".into()));
    }
    crowd::gather(&apps, &client, &tally_clock).await.map_err(StartError::Crowd)
}

/// The imported demo league.
#[derive(Debug, Clone, Copy)]
pub struct DemoLeague {
    pub teams: usize,
    pub matches: usize,
}

/// Imports the demo league. Includes older matches that are still unfinished in the store, so that they get
/// their results.
async fn import_demo_league(feed: App, store: Store) -> Result<DemoLeague, StartError> {
    // Ignore a read error: the import rebuilds an unreadable catalog.
    let loaded = touchline::storage::catalog::load_latest(&store, None).await.ok().flatten();
    let unfinished: Vec<u32> = loaded
        .iter()
        .flat_map(|loaded| loaded.catalog.events())
        .filter(|event| event.status.shown() != ShownStatus::Finished)
        .map(|event| event.id)
        .collect();
    let now = SystemClock.now();
    let mut league = demo::league(now, unfinished);
    let count = |list: &str| league[list].as_array().map_or(0, Vec::len);
    let imported = DemoLeague { teams: count("teams"), matches: count("events") };
    if let (Some(loaded), Some(events)) = (&loaded, league["events"].as_array_mut()) {
        events.retain(|event| {
            let id = event["id"].as_u64().and_then(|id| u32::try_from(id).ok());
            let stored = id.and_then(|id| loaded.catalog.event(id));
            !stored.is_some_and(|stored| demo::is_kept(stored, now))
        });
    }
    // In a debug build, the future of the function is too large for the stack of a thread.
    let import = Box::pin(feed::handle(feed, league, now + IMPORT_TIMEOUT));
    let (outcome, observed) = calls::observe(false, import).await;
    outcome.map_err(|error| StartError::Demo(error.to_string()))?;
    observed.tickets.delivered().await;
    Ok(imported)
}
