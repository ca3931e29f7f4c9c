//! A DynamoDB inside this process.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use dynoxide::Database;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

#[derive(Debug, thiserror::Error)]
pub enum EmbeddedStoreError {
    #[error("the data in {0} could not be opened: {1}")]
    Data(String, String),
    #[error("port {0} could not be opened for DynamoDB: {1}")]
    Port(u16, std::io::Error),
}

/// Deletes what is past its time to live now and then, as DynamoDB does.
async fn sweep(database: Database) {
    let mut ticks = tokio::time::interval(Duration::from_mins(1));
    loop {
        ticks.tick().await;
        let database = database.clone();
        // A sweep that fails is made up for by the next.
        let _ = tokio::task::spawn_blocking(move || database.sweep_ttl()).await;
    }
}

/// The engine looks for the last record of a stream before it adds one, and has no index for that: after some
/// ten thousand changes every write would take milliseconds longer.
fn index_streams(file: &Path) -> rusqlite::Result<()> {
    let connection = rusqlite::Connection::open(file)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.execute_batch(
        "CREATE INDEX IF NOT EXISTS touchline_stream_sequences
         ON _stream_records (table_name, CAST(sequence_number AS INTEGER))",
    )
}

/// Where a listener is reached from this machine: one on all addresses by the loopback one.
#[must_use]
pub fn from_here(listening: SocketAddr) -> SocketAddr {
    if listening.ip().is_unspecified() { (Ipv4Addr::LOCALHOST, listening.port()).into() } else { listening }
}

/// The embedded store. It serves until it is stopped or dropped.
#[derive(Debug)]
pub struct EmbeddedStore {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    server: JoinHandle<Result<(), String>>,
}

impl EmbeddedStore {
    /// In memory, on a free port.
    pub async fn in_memory() -> Result<Self, EmbeddedStoreError> {
        Self::start(None, (Ipv4Addr::LOCALHOST, 0).into()).await
    }

    /// In `file`, or in memory without one. Port 0 means a free one.
    pub async fn start(file: Option<&Path>, address: SocketAddr) -> Result<Self, EmbeddedStoreError> {
        let database = match file {
            None => Database::memory(),
            Some(file) => Database::new(&file.to_string_lossy()),
        }
        .map_err(|error| {
            let place = file.map_or_else(|| "memory".into(), |file| file.display().to_string());
            EmbeddedStoreError::Data(place, error.to_string())
        })?;
        if let Some(file) = file
            && let Err(error) = index_streams(file)
        {
            tracing::warn!(%error, "writes will grow slower as the streams grow longer");
        }
        let closed = |error| EmbeddedStoreError::Port(address.port(), error);
        let listener = TcpListener::bind(address).await.map_err(closed)?;
        let address = from_here(listener.local_addr().map_err(closed)?);
        let (stop, stopped) = oneshot::channel();
        let sweeper = sweep(database.clone());
        let server = tokio::spawn(dynoxide::server::serve_with_shutdown(listener, database, async {
            // An error means that the store was dropped: time to end as well.
            tokio::select! {
                _ = stopped => {}
                () = sweeper => {}
            }
        }));
        Ok(Self { address, stop: Some(stop), server })
    }

    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Lets running requests end, then closes the data.
    pub async fn stop(mut self) {
        drop(self.stop.take());
        let _ = self.server.await;
    }
}
