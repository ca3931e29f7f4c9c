//! How far each stream is delivered, kept across restarts.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// The sequence number of the last delivered record, for each function and shard.
#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    file: Option<PathBuf>,
    delivered: BTreeMap<String, String>,
    is_saved: bool,
}

impl Checkpoints {
    /// Reads the checkpoints from `file`. Without a file, the checkpoints are only kept in memory.
    pub fn open(file: Option<PathBuf>) -> Self {
        let delivered = file
            .as_ref()
            .and_then(|file| std::fs::read_to_string(file).ok())
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default();
        Self { file, delivered, is_saved: true }
    }

    pub fn get(&self, key: &str) -> Option<&String> {
        self.delivered.get(key)
    }

    pub fn set(&mut self, key: String, sequence: String) {
        self.delivered.insert(key, sequence);
        self.is_saved = false;
    }

    /// Writes the checkpoints to the file, if they have changed. After a crash, the records since the last
    /// save are delivered again, which functions must handle anyway. Returns whether the file is up to date.
    pub fn save(&mut self) -> bool {
        let Some(file) = self.file.as_ref().filter(|_| !self.is_saved) else { return true };
        let text = serde_json::to_string(&self.delivered).unwrap_or_default();
        let next = file.with_extension("next");
        match std::fs::write(&next, text).and_then(|()| std::fs::rename(&next, file)) {
            Ok(()) => self.is_saved = true,
            Err(error) => tracing::warn!(%error, "stream checkpoints could not be saved"),
        }
        self.is_saved
    }
}
