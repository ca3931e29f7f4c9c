//! The state that every handler receives.

use std::sync::Arc;

use aws_sdk_dynamodb::config::SharedHttpClient;

use crate::config::{ChatSettings, Config, SmsSettings};
use crate::domain::catalog::{Catalog, CatalogMissing, Scope};
use crate::error::Error;
use crate::ports::aws_http;
use crate::ports::chat::{Chat, LocalChat, MatrixChat};
use crate::ports::clock::{Clock, SystemClock};
use crate::ports::random::{Random, SystemRandom};
use crate::ports::sms::{Console, Sms, Sns};
use crate::ports::web::{HyperWeb, NoWeb, Web};
use crate::storage::catalog::{self, Loaded};
use crate::storage::{self, Store, StoreError};

/// The configuration, the store, the ports and the caches. Cheap to clone.
#[derive(Debug, Clone)]
pub struct App {
    pub config: Arc<Config>,
    pub store: Store,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub sms: Arc<dyn Sms>,
    pub chat: Arc<dyn Chat>,
    pub web: Arc<dyn Web>,
    pub catalog_cache: Arc<catalog::Cache>,
}

impl App {
    /// Creates an app that uses the system's clock and random source and connects to AWS over TLS.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let http = aws_http::client();
        Self::with_http_clients(config, http.clone(), http)
    }

    /// Creates an app like [`Self::new`], but with the given HTTP clients for DynamoDB and SNS.
    #[must_use]
    pub fn with_http_clients(config: Config, dynamodb: SharedHttpClient, sns: SharedHttpClient) -> Self {
        let store = Store::new(storage::connect(&config.aws, dynamodb), config.tables.clone());
        Self::with_store(config, store, sns)
    }

    /// Creates an app like [`Self::new`], but with the given store, and the given HTTP client for SNS.
    #[must_use]
    pub fn with_store(config: Config, store: Store, sns: SharedHttpClient) -> Self {
        let random: Arc<dyn Random> = Arc::new(SystemRandom);
        let sms: Arc<dyn Sms> = match &config.sms {
            SmsSettings::Console => Arc::new(Console),
            SmsSettings::Sns(settings) => Arc::new(Sns::new(&config.aws, settings.clone(), sns)),
        };
        Self {
            store,
            clock: Arc::new(SystemClock),
            chat: chat(&config.chat, &random),
            random,
            sms,
            web: web(&config),
            catalog_cache: Arc::default(),
            config: Arc::new(config),
        }
    }

    /// Returns the whole catalog, at most [`Config::catalog_max_age`] old. It can be older only while the store
    /// fails. A new environment that needs only some matches loads much less with [`Self::catalog_with`].
    pub async fn catalog(&self) -> Result<Arc<Catalog>, Error> {
        self.catalog_in(Scope::All).await
    }

    /// Returns a catalog like [`Self::catalog`]. Fails if the check for a newer one fails.
    pub async fn checked_catalog(&self) -> Result<Arc<Catalog>, Error> {
        self.checked_catalog_in(Scope::All).await
    }

    /// Returns a catalog like [`Self::catalog`] that may lack matches.
    pub async fn teams(&self) -> Result<Arc<Catalog>, Error> {
        self.catalog_in(Scope::Teams).await
    }

    /// Returns a catalog like [`Self::catalog`] that has these matches, if they exist, but may lack others.
    pub async fn catalog_with(&self, events: &[u32]) -> Result<Arc<Catalog>, Error> {
        let recent = self.catalog_in(Scope::Around(self.clock.now())).await?;
        if has_all(&recent, events) { Ok(recent) } else { self.catalog().await }
    }

    /// Returns a catalog like [`Self::catalog_with`]. Fails if the check for a newer one fails.
    pub async fn checked_catalog_with(&self, events: &[u32]) -> Result<Arc<Catalog>, Error> {
        let recent = self.checked_catalog_in(Scope::Around(self.clock.now())).await?;
        if has_all(&recent, events) { Ok(recent) } else { self.checked_catalog().await }
    }

    async fn catalog_in(&self, scope: Scope) -> Result<Arc<Catalog>, Error> {
        let max_age = self.config.catalog_max_age;
        let catalog = self.catalog_cache.get(&self.store, scope, || self.clock.now(), max_age).await?;
        Ok(catalog.ok_or(CatalogMissing)?)
    }

    async fn checked_catalog_in(&self, scope: Scope) -> Result<Arc<Catalog>, Error> {
        let max_age = self.config.catalog_max_age;
        let catalog =
            self.catalog_cache.get_checked(&self.store, scope, || self.clock.now(), max_age).await?;
        Ok(catalog.ok_or(CatalogMissing)?)
    }

    /// Returns the latest catalog with its head and index, for publishing the next snapshot. Returns `None`
    /// before the first snapshot.
    pub async fn latest_catalog(&self) -> Result<Option<Loaded>, StoreError> {
        self.catalog_cache.get_latest(&self.store, self.clock.now()).await
    }
}

fn has_all(catalog: &Catalog, events: &[u32]) -> bool {
    events.iter().all(|event| catalog.event(*event).is_some())
}

/// Returns the client with which `feed` fetches documents. Only that Lambda function has feed settings, and only it gets
/// this client, because `HyperWeb::new` loads the system's certificates, which slows the cold start.
#[must_use]
pub fn web(config: &Config) -> Arc<dyn Web> {
    match config.feed.is_some().then(HyperWeb::new).flatten() {
        Some(web) => Arc::new(web),
        None => Arc::new(NoWeb),
    }
}

/// Creates the chat port that the configuration selects.
#[must_use]
pub fn chat(settings: &ChatSettings, random: &Arc<dyn Random>) -> Arc<dyn Chat> {
    match &settings.homeserver {
        Some(homeserver) => Arc::new(MatrixChat::new(homeserver, &settings.server)),
        None => Arc::new(LocalChat::new(settings.server.clone(), Arc::clone(random))),
    }
}
