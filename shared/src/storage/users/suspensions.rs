//! Suspensions of users by operators.
//!
//! The attribute `suspended_at` of a phone's owner rejects logins: every login reads this item. The attribute of the profile
//! keeps the user from changing the phone, so that a request that is under way cannot give the user an owner item without
//! the attribute.

use aws_sdk_dynamodb::types::builders::UpdateBuilder;
use aws_sdk_dynamodb::types::{ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update};
use chrono::serde::ts_milliseconds_option;
use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;

use super::super::client::Call as _;
use crate::domain::{Phone, UserId, Username};
use crate::storage::condition::{item_that_failed_condition, item_that_failed_in_transaction};
use crate::storage::conflict_retry::Retry;
use crate::storage::error::StoreError;
use crate::storage::item::{Key, number, text};
use crate::storage::keys;
use crate::storage::store::{Reads, Store};

/// What moderation reads of a profile.
#[derive(Debug, Clone, Deserialize)]
struct Profile {
    phone: Phone,
    username: Username,
    #[serde(default, with = "ts_milliseconds_option")]
    suspended_at: Option<DateTime<Utc>>,
}

/// A user who was suspended or restored.
#[derive(Debug, Clone)]
pub struct Suspension {
    pub username: Username,
    /// Since when the user is suspended. `None` if the user is not suspended.
    pub suspended_at: Option<DateTime<Utc>>,
    /// Whether this call changed it.
    pub has_changed: bool,
}

impl Store {
    /// Suspends a user: further logins are rejected. Sessions go on until they are ended. Returns `None` if there is no
    /// such user.
    pub async fn suspend_user(
        &self,
        user: UserId,
        now: DateTime<Utc>,
    ) -> Result<Option<Suspension>, StoreError> {
        self.set_suspended(user, Some(now)).await
    }

    /// Ends the suspension of a user. Returns `None` if there is no such user.
    pub async fn restore_user(&self, user: UserId) -> Result<Option<Suspension>, StoreError> {
        self.set_suspended(user, None).await
    }

    /// Takes a user off all boards if the user is suspended or has deleted the account, and puts the user back otherwise.
    pub async fn sync_ranked(&self, user: UserId) -> Result<(), StoreError> {
        let mut retry = Retry::immediate("a suspension", 5);
        let mut is_ranked = None;
        loop {
            let profile: Option<Profile> =
                self.get(&self.tables.users, keys::profile(user), Reads::Consistent).await?;
            let wanted = profile.is_some_and(|profile| profile.suspended_at.is_none());
            // The profile is read again after each write: another action may have changed it meanwhile.
            if is_ranked == Some(wanted) {
                return Ok(());
            }
            self.set_ranked(user, wanted).await?;
            is_ranked = Some(wanted);
            retry.again().await?;
        }
    }

    async fn set_suspended(
        &self,
        user: UserId,
        at: Option<DateTime<Utc>>,
    ) -> Result<Option<Suspension>, StoreError> {
        let mut retry = Retry::immediate("a suspension", 5);
        loop {
            let profile: Option<Profile> =
                self.get(&self.tables.users, keys::profile(user), Reads::Consistent).await?;
            let Some(Profile { phone, username, suspended_at }) = profile else { return Ok(None) };
            if suspended_at.is_some() == at.is_some() {
                return Ok(Some(Suspension { username, suspended_at, has_changed: false }));
            }
            let of_profile = self.suspension_update(keys::profile(user), at);
            let of_profile = of_profile
                .condition_expression("phone = :phone")
                .expression_attribute_values(":phone", text(phone.as_str()))
                .build()?;
            let of_phone = self.suspension_update(keys::phone_owner(&phone), at);
            let of_phone = of_phone
                .condition_expression("user_id = :user")
                .expression_attribute_values(":user", number(user))
                .build()?;
            let writes =
                [of_profile, of_phone].map(|update| TransactWriteItem::builder().update(update).build());
            let written = self.client.transact_write_items().set_transact_items(Some(writes.into())).call();
            let Err(error) = written.await else {
                return Ok(Some(Suspension { username, suspended_at: at, has_changed: true }));
            };
            // The user has changed the phone since the profile was read.
            if (0..2).all(|index| item_that_failed_in_transaction(&error, index).is_none()) {
                return Err(StoreError::from_sdk("TransactWriteItems", &error));
            }
            retry.again().await?;
        }
    }

    fn suspension_update(&self, key: Key, at: Option<DateTime<Utc>>) -> UpdateBuilder {
        let update = Update::builder().table_name(&self.tables.users).set_key(Some(key.into()));
        match at {
            Some(at) => update
                .update_expression("SET suspended_at = :at")
                .expression_attribute_values(":at", number(at.timestamp_millis())),
            None => update.update_expression("REMOVE suspended_at"),
        }
    }

    /// Removes the display name from a profile. Returns whether there was one.
    pub async fn remove_display_name(&self, user: UserId, now: DateTime<Utc>) -> Result<bool, StoreError> {
        let mut retry = Retry::immediate("profile", 5);
        let mut at = now;
        loop {
            let removed = self
                .client
                .update_item()
                .table_name(&self.tables.users)
                .set_key(Some(keys::profile(user).into()))
                // A delayed edit of the user is older than `edited_at`, so it does not bring the name back.
                .update_expression("REMOVE #name SET edited_at = :at")
                .condition_expression(
                    "attribute_exists(#name) AND (attribute_not_exists(edited_at) OR edited_at < :at)",
                )
                .expression_attribute_names("#name", "name")
                .expression_attribute_values(":at", number(at.timestamp_millis()))
                .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
                .call()
                .await;
            let Err(error) = removed else { return Ok(true) };
            let Some(profile) = item_that_failed_condition(&error) else {
                return Err(StoreError::from_sdk("UpdateItem", &error));
            };
            if !profile.contains_key("name") {
                return Ok(false);
            }
            let edited = profile.get("edited_at").and_then(|at| at.as_n().ok()?.parse().ok());
            let edited = edited.and_then(DateTime::from_timestamp_millis);
            at = edited.ok_or(StoreError::Unreadable("the time of an edit"))? + TimeDelta::milliseconds(1);
            retry.again().await?;
        }
    }
}
