//! Sessions: one per login.

use chrono::serde::{ts_milliseconds, ts_milliseconds_option, ts_seconds};
use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use crate::domain::{Token, UserId};
use crate::storage::condition::condition_held;
use crate::storage::error::StoreError;
use crate::storage::item::{number, to_item};
use crate::storage::keys;
use crate::storage::store::Store;

/// A login session: its chat device and its lifetime. The item's key contains the digest of the token.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Session {
    pub device_id: String,
    #[serde(with = "ts_milliseconds")]
    pub created_at: DateTime<Utc>,
    #[serde(with = "ts_milliseconds")]
    pub renewed_at: DateTime<Utc>,
    /// When the session ends. DynamoDB deletes the item some time later.
    #[serde(with = "ts_seconds")]
    pub expires_at: DateTime<Utc>,
    /// When the user logged out. The item stays until it expires, so that a delayed write cannot bring the session
    /// back.
    #[serde(default, with = "ts_milliseconds_option", skip_serializing_if = "Option::is_none")]
    ended_at: Option<DateTime<Utc>>,
}

impl Session {
    /// Creates a session that begins now and lasts for `lasting`.
    #[must_use]
    pub fn starting(device_id: String, lasting: TimeDelta, now: DateTime<Utc>) -> Self {
        Self { device_id, created_at: now, renewed_at: now, expires_at: now + lasting, ended_at: None }
    }
}

impl Store {
    /// Reads the session of a token, unless the user has logged out. Finds new sessions, too.
    pub async fn session(&self, token: &Token) -> Result<Option<Session>, StoreError> {
        let key = keys::session(token.user(), &token.digest());
        let session: Option<Session> = self.find(&self.tables.users, key).await?;
        Ok(session.filter(|session| session.ended_at.is_none()))
    }

    /// Stores a new session. Changes nothing if the session exists already, because the request was repeated.
    pub async fn save_session(&self, token: &Token, session: &Session) -> Result<(), StoreError> {
        let saved = self
            .client
            .put_item()
            .table_name(&self.tables.users)
            .set_item(Some(to_item(keys::session(token.user(), &token.digest()), session)?))
            .condition_expression("attribute_not_exists(pk)")
            .send()
            .await;
        condition_held("PutItem", saved).map(|_| ())
    }

    /// Extends a session to `expires_at`, unless the user has logged out.
    pub async fn renew_session(
        &self,
        token: &Token,
        expires_at: DateTime<Utc>,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let renewed = self
            .client
            .update_item()
            .table_name(&self.tables.users)
            .set_key(Some(keys::session(token.user(), &token.digest()).into()))
            .update_expression("SET renewed_at = :now, expires_at = :end")
            .condition_expression("attribute_exists(pk) AND attribute_not_exists(ended_at)")
            .expression_attribute_values(":now", number(now.timestamp_millis()))
            .expression_attribute_values(":end", number(expires_at.timestamp()))
            .send()
            .await;
        condition_held("UpdateItem", renewed).map(|_| ())
    }

    /// Ends a session.
    pub async fn end_session(
        &self,
        user: UserId,
        token: &Token,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let ended = self
            .client
            .update_item()
            .table_name(&self.tables.users)
            .set_key(Some(keys::session(user, &token.digest()).into()))
            .update_expression("SET ended_at = :now")
            .condition_expression("attribute_exists(pk)")
            .expression_attribute_values(":now", number(now.timestamp_millis()))
            .send()
            .await;
        condition_held("UpdateItem", ended).map(|_| ())
    }
}
