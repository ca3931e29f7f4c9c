//! The floor: what the store alone costs.
//!
//! Makes the store calls of a request directly, through the SDK, on an embedded store in this process. A request to
//! the stack cannot be faster than that.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use touchline_stack::{EmbeddedStore, tables};

use crate::stack::Storage;

/// The store calls of a request, as in `docs/costs.md`, with the calls of `tally` and the read of the session.
#[derive(Debug, Clone, Copy)]
pub struct Calls {
    pub reads: usize,
    pub writes: usize,
}

#[derive(Debug)]
pub struct Floor {
    client: Client,
    /// A table with a stream.
    table: String,
    folder: PathBuf,
    _store: EmbeddedStore,
}

impl Floor {
    pub async fn start(storage: Storage) -> Self {
        let folder = std::env::temp_dir().join(format!("touchline-floor-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("the folder is created");
        let file = folder.join("store.db");
        let store =
            EmbeddedStore::open((storage == Storage::File).then_some(&*file)).expect("the store opens");
        let (config, stack) = touchline_bench::config(touchline_stack::direct::ENDPOINT);
        let client = touchline::storage::connect(&config.aws, store.http_client());
        tables::create(&client, &stack.tables).await.expect("the tables are created");
        let floor = Self { client, table: config.tables.predictions, folder, _store: store };
        for item in 0..100 {
            floor.write(item).await;
        }
        floor
    }

    /// Makes the calls of one request, `count` times. Returns the median time of a request.
    pub async fn measure(&self, calls: Calls, count: usize) -> Duration {
        let mut times = Vec::with_capacity(count);
        for request in 0..count {
            let started = Instant::now();
            for _ in 0..calls.reads {
                self.read(request).await;
            }
            for _ in 0..calls.writes {
                self.write(request).await;
            }
            times.push(started.elapsed());
        }
        times.sort();
        times[times.len() / 2]
    }

    async fn read(&self, item: usize) {
        let read = self.client.get_item().table_name(&self.table).set_key(Some(key(item))).send().await;
        assert!(read.expect("the read succeeds").item.is_some());
    }

    async fn write(&self, item: usize) {
        let update = self.client.update_item().table_name(&self.table).set_key(Some(key(item)));
        update
            .update_expression("SET content = if_not_exists(content, :content) ADD visits :one")
            .expression_attribute_values(":content", AttributeValue::S("x".repeat(200)))
            .expression_attribute_values(":one", AttributeValue::N("1".into()))
            .send()
            .await
            .expect("the write succeeds");
    }

    pub fn stop(self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn key(item: usize) -> std::collections::HashMap<String, AttributeValue> {
    let key = BTreeMap::from([("pk", format!("floor#{}", item % 100)), ("sk", "row".to_owned())]);
    key.into_iter().map(|(name, value)| (name.to_owned(), AttributeValue::S(value))).collect()
}
