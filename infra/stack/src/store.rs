//! A DynamoDB-compatible server inside this process.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use dynoxide::Database;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The time between two deletions of expired items. The real DynamoDB deletes them with a delay too.
const EXPIRY_INTERVAL: Duration = Duration::from_mins(1);

#[derive(Debug, thiserror::Error)]
pub enum EmbeddedStoreError {
    #[error("the data in {0} could not be opened: {1}")]
    Data(String, String),
    #[error("DynamoDB cannot listen on port {0}: {1}")]
    Port(u16, std::io::Error),
}

/// The embedded store. It serves until it is stopped or dropped.
#[derive(Debug)]
pub struct EmbeddedStore {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    server: JoinHandle<Result<(), String>>,
}

impl EmbeddedStore {
    /// Starts a store in memory, on a free port.
    pub async fn in_memory() -> Result<Self, EmbeddedStoreError> {
        Self::start(None, (Ipv4Addr::LOCALHOST, 0).into()).await
    }

    /// Starts a store with the data in `file`, or in memory without a file. Port 0 picks a free port.
    pub async fn start(file: Option<&Path>, address: SocketAddr) -> Result<Self, EmbeddedStoreError> {
        let database = match file {
            None => Database::memory(),
            Some(file) => Database::new(&file.to_string_lossy()),
        }
        .map_err(|error| {
            let location = file.map_or_else(|| "memory".into(), |file| file.display().to_string());
            EmbeddedStoreError::Data(location, error.to_string())
        })?;
        if let Some(file) = file
            && let Err(error) = index_streams(file)
        {
            tracing::warn!(%error, "the stream index is missing; writes slow down as streams grow");
        }
        let port_failed = |error| EmbeddedStoreError::Port(address.port(), error);
        let listener = TcpListener::bind(address).await.map_err(port_failed)?;
        let address = reachable_address(listener.local_addr().map_err(port_failed)?);
        let (stop, stopped) = oneshot::channel();
        let expiry = delete_expired_items(database.clone());
        let server = tokio::spawn(dynoxide::server::serve_with_shutdown(listener, database, async {
            // `stopped` completes when its sender is dropped: in `stop`, or together with the store.
            tokio::select! {
                _ = stopped => {}
                () = expiry => {}
            }
        }));
        Ok(Self { address, stop: Some(stop), server })
    }

    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits for the requests in progress, then closes the database.
    pub async fn stop(mut self) {
        drop(self.stop.take());
        let _ = self.server.await;
    }
}

/// Returns the address at which this machine reaches a listener. `0.0.0.0` becomes `127.0.0.1`.
#[must_use]
pub fn reachable_address(listening: SocketAddr) -> SocketAddr {
    if listening.ip().is_unspecified() { (Ipv4Addr::LOCALHOST, listening.port()).into() } else { listening }
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
fn index_streams(file: &Path) -> rusqlite::Result<()> {
    let connection = rusqlite::Connection::open(file)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.execute_batch(
        "CREATE INDEX IF NOT EXISTS touchline_stream_sequences
         ON _stream_records (table_name, CAST(sequence_number AS INTEGER))",
    )
}
