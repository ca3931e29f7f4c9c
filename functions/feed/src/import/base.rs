use std::sync::Arc;

use touchline::App;
use touchline::domain::catalog::Catalog;
use touchline::storage::catalog::{Head, Index, Loaded};
use touchline::storage::{Reads, StoreError};

use super::chunks::{Rows, changed_chunks};

/// The data that the next catalog snapshot is built from.
pub enum Base {
    /// Nothing has been published yet.
    Nothing,
    Snapshot(Loaded),
    /// The stored rows. They are used if a rebuild was requested or the published snapshot is unreadable, for
    /// example because another version of this program wrote it.
    Rows {
        head: Option<Head>,
        catalog: Arc<Catalog>,
    },
}

impl Base {
    pub async fn load(app: &App) -> Result<Self, StoreError> {
        match app.latest_catalog().await {
            Ok(Some(loaded)) => Ok(Self::Snapshot(loaded)),
            Ok(None) => Ok(Self::Nothing),
            Err(StoreError::Unreadable(what)) => {
                tracing::warn!(what, "the snapshot is unreadable; rebuilding it from the rows");
                Self::from_rows(app).await
            }
            Err(error) => Err(error),
        }
    }

    pub async fn from_rows(app: &App) -> Result<Self, StoreError> {
        let head = app.store.catalog_head(Reads::Consistent).await?;
        let chunks = changed_chunks(&Catalog::default(), &Rows::load_all(app).await?);
        let chunks = chunks.into_iter().filter_map(|(name, chunk)| Some((name, Arc::new(chunk?)))).collect();
        Ok(Self::Rows { head, catalog: Arc::new(Catalog::new(chunks)) })
    }

    /// Returns the catalog before the import. A feed document can refer to rows of this catalog.
    pub fn known(&self) -> Arc<Catalog> {
        match self {
            Self::Nothing => Arc::default(),
            Self::Snapshot(loaded) => Arc::clone(&loaded.catalog),
            Self::Rows { catalog, .. } => Arc::clone(catalog),
        }
    }

    /// Returns the catalog of the published snapshot. It is empty for `Nothing` and `Rows`, so that every chunk
    /// counts as changed.
    pub fn published(&self) -> Arc<Catalog> {
        match self {
            Self::Snapshot(loaded) => Arc::clone(&loaded.catalog),
            Self::Nothing | Self::Rows { .. } => Arc::default(),
        }
    }

    pub fn head(&self) -> Option<&Head> {
        match self {
            Self::Nothing => None,
            Self::Snapshot(loaded) => Some(&loaded.head),
            Self::Rows { head, .. } => head.as_ref(),
        }
    }

    /// Returns the index of the published chunks. It is empty for `Nothing` and `Rows`.
    pub fn index(&self) -> Index {
        match self {
            Self::Snapshot(loaded) => loaded.index.clone(),
            Self::Nothing | Self::Rows { .. } => Index::default(),
        }
    }
}
