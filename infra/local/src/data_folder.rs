//! The folder in which a local stack keeps its data.

use std::fs::{self, File, TryLockError};
use std::path::PathBuf;

use crate::error::StartError;

#[derive(Debug)]
pub(crate) struct DataFolder {
    path: PathBuf,
    /// Locked until the stack ends, so that a second stack cannot open the same data.
    _lock: File,
}

impl DataFolder {
    pub(crate) fn open(path: PathBuf) -> Result<Self, StartError> {
        let failed = |error| StartError::Folder(path.clone(), error);
        fs::create_dir_all(&path).map_err(failed)?;
        let lock = File::create(path.join("lock")).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(StartError::FolderInUse(path)),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.path.join("dynamodb.sqlite")
    }

    pub(crate) fn stream_checkpoints(&self) -> PathBuf {
        self.path.join("streams.json")
    }
}
