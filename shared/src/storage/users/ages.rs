//! Remembered refusals of users who are too young.

use chrono::serde::{ts_milliseconds, ts_seconds};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::super::client::Call as _;
use crate::domain::UserId;
use crate::domain::code::PhoneDigest;
use crate::domain::profile::REFUSAL_KEPT;
use crate::storage::condition::condition_held;
use crate::storage::error::StoreError;
use crate::storage::item::{number, to_item};
use crate::storage::keys;
use crate::storage::store::{Reads, Store};

/// The attribute of a profile that says when the age of the user was refused. Without it, the user can set a date of birth.
pub(super) const AGE_REFUSED_AT: &str = "age_refused_at";

#[derive(Debug, Serialize, Deserialize)]
struct Refusal {
    #[serde(with = "ts_milliseconds")]
    refused_at: DateTime<Utc>,
    #[serde(with = "ts_seconds")]
    expires_at: DateTime<Utc>,
}

impl Store {
    /// Stores that the age of a user was refused.
    pub async fn refuse_age(&self, user: UserId, now: DateTime<Utc>) -> Result<(), StoreError> {
        let refused = self
            .client
            .update_item()
            .table_name(&self.tables.users)
            .set_key(Some(keys::profile(user).into()))
            .update_expression("SET #refused = if_not_exists(#refused, :now)")
            .condition_expression("attribute_exists(pk)")
            .expression_attribute_names("#refused", AGE_REFUSED_AT)
            .expression_attribute_values(":now", number(now.timestamp_millis()))
            .call()
            .await;
        condition_held("UpdateItem", refused).map(|_| ())
    }

    /// Stores that the age of a phone's owner was refused. No user has the phone.
    pub async fn refuse_age_of_phone(
        &self,
        phone: &PhoneDigest,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let refusal = Refusal { refused_at: now, expires_at: now + REFUSAL_KEPT };
        self.client
            .put_item()
            .table_name(&self.tables.users)
            .set_item(Some(to_item(keys::age_refusal(phone), &refusal)?))
            .call()
            .await
            .map_err(|error| StoreError::from_sdk("PutItem", &error))?;
        Ok(())
    }

    /// Returns whether the age of a phone's owner was refused.
    pub async fn is_age_refused(&self, phone: &PhoneDigest, now: DateTime<Utc>) -> Result<bool, StoreError> {
        let refusal: Option<Refusal> =
            self.get(&self.tables.users, keys::age_refusal(phone), Reads::Consistent).await?;
        // DynamoDB deletes late.
        Ok(refusal.is_some_and(|refusal| refusal.expires_at > now))
    }
}
