//! Sessions: one per login.

use chrono::serde::{ts_milliseconds, ts_milliseconds_option, ts_seconds};
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use serde::{Deserialize, Serialize};

use super::super::client::Call as _;
use crate::domain::session::{DeviceName, SessionId};
use crate::domain::{Token, UserId};
use crate::storage::condition::condition_held;
use crate::storage::error::StoreError;
use crate::storage::item::{Item, Key, from_item, number, text, to_item};
use crate::storage::keys;
use crate::storage::store::{Reads, Store, every_item};

/// A login session: its chat device and its lifetime. The item's key contains the digest of the token.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Session {
    pub device_id: String,
    /// The name that the app gave at login.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_name: Option<DeviceName>,
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
        Self {
            device_id,
            device_name: None,
            created_at: now,
            renewed_at: now,
            expires_at: now + lasting,
            ended_at: None,
        }
    }

    /// Adds the name of the device.
    #[must_use]
    pub fn named(self, device_name: Option<DeviceName>) -> Self {
        Self { device_name, ..self }
    }

    /// Returns whether requests with the session's token succeed.
    #[must_use]
    pub fn is_active(&self, now: DateTime<Utc>) -> bool {
        self.ended_at.is_none() && self.expires_at > now
    }
}

/// A session item with the sort key, from which the item can be written again.
#[derive(Debug, Deserialize)]
struct Keyed {
    sk: String,
    #[serde(flatten)]
    session: Session,
}

/// Which sessions of a user end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which<'a> {
    /// The session with this id.
    One(&'a SessionId),
    /// All sessions that began until this time, except one.
    All { until: DateTime<Utc>, except: Option<&'a SessionId> },
}

impl Which<'_> {
    fn contains(self, session: &Session) -> bool {
        match self {
            Self::One(id) => session.device_id == id.as_str(),
            Self::All { until, except } => {
                session.created_at <= until && except.is_none_or(|id| session.device_id != id.as_str())
            }
        }
    }
}

/// Returns the chat device of a session, if this change has ended the session. A session ends when it is marked as ended, and
/// when DynamoDB deletes the expired item.
pub(in crate::storage) fn ended_device(
    old: Option<Item>,
    new: Option<Item>,
) -> Result<Option<String>, StoreError> {
    let read = |item: Option<Item>| item.map(from_item::<Session>).transpose();
    let is_open = |session: &Session| session.ended_at.is_none();
    let was_open = read(old)?.filter(is_open);
    Ok(match read(new)? {
        Some(session) if is_open(&session) => None,
        _ => was_open.map(|session| session.device_id),
    })
}

/// The number of sessions that end concurrently.
const CONCURRENT_ENDS: usize = 10;

impl Store {
    /// Reads all sessions of a user, including those that have ended and are not deleted yet. Strongly consistent.
    pub async fn sessions(&self, user: UserId) -> Result<Vec<Session>, StoreError> {
        Ok(self.keyed_sessions(user).await?.into_iter().map(|keyed| keyed.session).collect())
    }

    async fn keyed_sessions(&self, user: UserId) -> Result<Vec<Keyed>, StoreError> {
        let query = self
            .client
            .query()
            .table_name(&self.tables.users)
            .key_condition_expression("pk = :user AND begins_with(sk, :session)")
            .expression_attribute_values(":user", text(keys::user_partition(user)))
            .expression_attribute_values(":session", text(keys::SESSION))
            .consistent_read(true);
        every_item(query).await?.into_iter().map(from_item).collect()
    }

    /// Ends some sessions of a user. Returns how many of them were active.
    pub async fn end_sessions(
        &self,
        user: UserId,
        which: Which<'_>,
        now: DateTime<Utc>,
    ) -> Result<usize, StoreError> {
        let sessions = self.keyed_sessions(user).await?;
        let active: Vec<_> = sessions
            .iter()
            .filter(|keyed| keyed.session.is_active(now) && which.contains(&keyed.session))
            .map(|keyed| self.end_session_at(keys::session_at(user, &keyed.sk), now))
            .collect();
        let count = active.len();
        stream::iter(active).buffer_unordered(CONCURRENT_ENDS).try_collect::<()>().await?;
        Ok(count)
    }

    /// Reads the session of a token, unless the user has logged out. Finds new sessions, too.
    pub async fn session(&self, token: &Token) -> Result<Option<Session>, StoreError> {
        let key = keys::session(token.user(), &token.digest());
        let session: Option<Session> = self.find(&self.tables.users, key).await?;
        Ok(session.filter(|session| session.ended_at.is_none()))
    }

    /// Returns whether the session of a token is stored and has not ended. Strongly consistent.
    pub async fn is_session_open(&self, token: &Token) -> Result<bool, StoreError> {
        let key = keys::session(token.user(), &token.digest());
        let session: Option<Session> = self.get(&self.tables.users, key, Reads::Consistent).await?;
        Ok(session.is_some_and(|session| session.ended_at.is_none()))
    }

    /// Stores a new session. Changes nothing if the session exists already, because the request was repeated.
    pub async fn save_session(&self, token: &Token, session: &Session) -> Result<(), StoreError> {
        let saved = self
            .client
            .put_item()
            .table_name(&self.tables.users)
            .set_item(Some(to_item(keys::session(token.user(), &token.digest()), session)?))
            .condition_expression("attribute_not_exists(pk)")
            .call()
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
            .call()
            .await;
        condition_held("UpdateItem", renewed).map(|_| ())
    }

    /// Ends the session of a token.
    pub async fn end_session(&self, token: &Token, now: DateTime<Utc>) -> Result<(), StoreError> {
        self.end_session_at(keys::session(token.user(), &token.digest()), now).await
    }

    async fn end_session_at(&self, key: Key, now: DateTime<Utc>) -> Result<(), StoreError> {
        let ended = self
            .client
            .update_item()
            .table_name(&self.tables.users)
            .set_key(Some(key.into()))
            .update_expression("SET ended_at = :now")
            .condition_expression("attribute_exists(pk) AND attribute_not_exists(ended_at)")
            .expression_attribute_values(":now", number(now.timestamp_millis()))
            .call()
            .await;
        condition_held("UpdateItem", ended).map(|_| ())
    }
}
