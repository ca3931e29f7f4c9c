//! A DynamoDB inside this process.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::config::SharedHttpClient;
use dynoxide::Database;
use rusqlite::Connection;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::access::Access;
use crate::direct::DirectClient;
use crate::server;
use crate::streams::EmbeddedStreams;

/// The time between two deletions of expired items. The real DynamoDB deletes them with a delay too.
const EXPIRY_INTERVAL: Duration = Duration::from_mins(1);

/// How long a connection waits while another connection writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum EmbeddedStoreError {
    #[error("the data in {0} could not be opened: {1}")]
    Data(String, String),
    #[error("DynamoDB cannot listen on port {0}: {1}")]
    Port(u16, std::io::Error),
}

/// The embedded store. It closes when it is dropped.
pub struct EmbeddedStore {
    database: Database,
    stream_table: Arc<Mutex<Connection>>,
    expiry: Option<JoinHandle<()>>,
    server: Option<Server>,
}

impl fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedStore").field("server", &self.server).finish_non_exhaustive()
    }
}

/// The HTTP server of a store.
#[derive(Debug)]
struct Server {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<std::io::Result<()>>,
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        if let Some(expiry) = &self.expiry {
            expiry.abort();
        }
    }
}

impl EmbeddedStore {
    /// Opens a store with the data in `file`, or in memory without a file. The store has no port yet, and keeps expired
    /// items.
    pub fn open(file: Option<&Path>) -> Result<Self, EmbeddedStoreError> {
        let location = match file {
            Some(file) => file.to_string_lossy().into_owned(),
            None => memory_location(),
        };
        let failed = |error: &dyn fmt::Display| EmbeddedStoreError::Data(location.clone(), error.to_string());
        let database = Database::new(&location).map_err(|error| failed(&error))?;
        // Sets SQLite's `synchronous` to NORMAL. A commit is then not synced to the disk: it survives a crash of
        // this process, but maybe not of the machine. The other settings of this call are SQLite's defaults.
        database.disable_bulk_loading().map_err(|error| failed(&error))?;
        let stream_table = Connection::open(&location).map_err(|error| failed(&error))?;
        index_streams(&stream_table).map_err(|error| failed(&error))?;
        Ok(Self { database, stream_table: Arc::new(Mutex::new(stream_table)), expiry: None, server: None })
    }

    /// Starts to delete expired items, by the system's clock. Do not call this for tests that have a clock of their own.
    pub fn delete_expired_items(&mut self) {
        self.expiry = Some(tokio::spawn(delete_expired_items(self.database.clone())));
    }

    /// Opens a store in memory and serves it on a free port of this machine.
    pub async fn serve_in_memory() -> Result<Self, EmbeddedStoreError> {
        let mut store = Self::open(None)?;
        store.listen((Ipv4Addr::LOCALHOST, 0).into(), &[]).await?;
        Ok(store)
    }

    /// Serves the store on a port, for clients that are not in this process. Port 0 picks a free port. Clients can also
    /// use the host names in `allowed_hosts`. Returns the URL of the store.
    pub async fn listen(
        &mut self,
        address: SocketAddr,
        allowed_hosts: &[String],
    ) -> Result<String, EmbeddedStoreError> {
        let failed = |error| EmbeddedStoreError::Port(address.port(), error);
        let access = Access::new(address.ip(), allowed_hosts);
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = reachable_address(listener.local_addr().map_err(failed)?);
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(server::serve(listener, self.database.clone(), access, async {
            // `stopped` completes when its sender is dropped: in `stop`, or together with the store.
            let _ = stopped.await;
        }));
        self.server = Some(Server { address, stop, task });
        Ok(self.url())
    }

    /// Returns the URL of the store's port, or an empty text without a port.
    #[must_use]
    pub fn url(&self) -> String {
        self.server.as_ref().map_or_else(String::new, |server| format!("http://{}", server.address))
    }

    /// Returns an HTTP client for the SDK. The client calls the store in this process, without a network.
    #[must_use]
    pub fn http_client(&self) -> SharedHttpClient {
        SharedHttpClient::new(DirectClient::new(self.database.clone()))
    }

    #[must_use]
    pub fn streams(&self) -> EmbeddedStreams {
        EmbeddedStreams::new(self.database.clone(), Arc::clone(&self.stream_table))
    }

    /// Waits for the requests in progress, then closes the port and the database.
    pub async fn stop(mut self) {
        if let Some(Server { stop, task, .. }) = self.server.take() {
            drop(stop);
            let _ = task.await;
        }
    }
}

/// Returns the address at which this machine reaches a listener. `0.0.0.0` becomes `127.0.0.1`.
#[must_use]
pub fn reachable_address(listening: SocketAddr) -> SocketAddr {
    if listening.ip().is_unspecified() { (Ipv4Addr::LOCALHOST, listening.port()).into() } else { listening }
}

/// Returns the name of a new database in memory. Unlike `:memory:`, this name lets two connections share the
/// database: the engine's connection, and our connection, which indexes and trims the stream records.
fn memory_location() -> String {
    static OPENED: AtomicU64 = AtomicU64::new(0);
    format!("file:/touchline-{}?vfs=memdb", OPENED.fetch_add(1, Ordering::Relaxed))
}

async fn delete_expired_items(database: Database) {
    let mut ticks = tokio::time::interval(EXPIRY_INTERVAL);
    loop {
        ticks.tick().await;
        let database = database.clone();
        // The next tick retries a failed sweep.
        let _ = tokio::task::spawn_blocking(move || database.sweep_ttl()).await;
    }
}

/// Adds an index that the engine lacks. Before the engine appends a record to a stream, it searches for the
/// stream's last record. Without the index, each write takes milliseconds longer after about ten thousand
/// changes.
fn index_streams(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.execute_batch(
        "CREATE INDEX IF NOT EXISTS touchline_stream_sequences
         ON _stream_records (table_name, CAST(sequence_number AS INTEGER))",
    )
}
