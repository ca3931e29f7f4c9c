//! Checkpoints: how far each stream was delivered. A restarted stack resumes from them.

use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    file: Option<PathBuf>,
    /// The sequence number of the last delivered record, for each function and shard.
    delivered: BTreeMap<String, String>,
}

impl Checkpoints {
    /// Reads the checkpoints from `file`. Without a file, the checkpoints are only kept in memory.
    pub fn open(file: Option<PathBuf>) -> Self {
        let delivered = file
            .as_ref()
            .and_then(|file| std::fs::read_to_string(file).ok())
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default();
        Self { file, delivered }
    }

    pub fn get(&self, key: &str) -> Option<&String> {
        self.delivered.get(key)
    }

    /// Stores a checkpoint. A failed write is only logged: it leads to redeliveries, which functions must handle
    /// anyway.
    pub fn set(&mut self, key: String, sequence: String) {
        self.delivered.insert(key, sequence);
        let Some(file) = &self.file else { return };
        let text = serde_json::to_string(&self.delivered).unwrap_or_default();
        let next = file.with_extension("next");
        if let Err(error) = std::fs::write(&next, text).and_then(|()| std::fs::rename(&next, file)) {
            tracing::warn!(%error, "stream checkpoints could not be saved");
        }
    }
}
