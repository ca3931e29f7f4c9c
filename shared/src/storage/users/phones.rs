//! Owners of phones, and changes of a user's phone.

use aws_sdk_dynamodb::types::{
    AttributeValue, Delete, Put, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update,
};
use chrono::serde::ts_milliseconds;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::codes::{self, ReserveError, SPENDABLE, StoredCode};
use crate::domain::code::{VerificationError, WrongCode};
use crate::domain::{MAX_CLOCK_DIFFERENCE, Phone, Purpose, User, UserId, Username, limit};
use crate::storage::condition::{item_that_failed_condition, item_that_failed_in_transaction};
use crate::storage::error::StoreError;
use crate::storage::item::{number, text, to_item};
use crate::storage::keys;
use crate::storage::store::{Reads, Store};

/// The owner of a phone, with all the user's fields that a login returns. So a login needs only one consistent
/// read.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PhoneOwner {
    pub user_id: UserId,
    pub username: Username,
    #[serde(with = "ts_milliseconds")]
    pub created_at: DateTime<Utc>,
}

impl From<&User> for PhoneOwner {
    fn from(user: &User) -> Self {
        Self { user_id: user.id, username: user.username.clone(), created_at: user.created_at }
    }
}

/// A change of a user's phone, with the code that verifies the new phone.
#[derive(Debug)]
pub struct ChangePhone<'a> {
    pub user: &'a User,
    pub phone: &'a Phone,
    pub code: &'a StoredCode,
    pub nonce: &'a str,
}

impl Store {
    /// Reads the owner of a phone. The read is strongly consistent: after a stale read, a login would sign in as
    /// the phone's previous owner.
    pub async fn phone_owner(&self, phone: &Phone) -> Result<Option<PhoneOwner>, StoreError> {
        self.get(&self.tables.users, keys::phone_owner(phone), Reads::Consistent).await
    }

    /// Adds a phone to the user's `pending_phones`. When the user starts to verify another phone, the handler
    /// cancels the verifications of the phones in this set.
    pub async fn add_pending_phone(&self, user: UserId, phone: &Phone) -> Result<(), StoreError> {
        self.update_pending_phones(user, "ADD", vec![phone.as_str().to_owned()]).await
    }

    /// Cancels a user's pending verifications of these phones. A retry after a crash completes the
    /// cancellation. A verification that starts more than a second after `now` is not cancelled, because a write can
    /// reach the store late.
    pub async fn cancel_verifications(
        &self,
        user: UserId,
        phones: &[&Phone],
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let mut ended = Vec::new();
        for phone in phones {
            let cancelled = self
                .client
                .update_item()
                .table_name(&self.tables.users)
                .set_key(Some(keys::phone_codes(phone).into()))
                .update_expression("REMOVE #code")
                .condition_expression("#code.user_id = :user AND #code.issue <= :latest")
                .expression_attribute_names("#code", Purpose::Verify.as_str())
                .expression_attribute_values(":user", number(user))
                .expression_attribute_values(":latest", text(limit::outside(-MAX_CLOCK_DIFFERENCE, now)))
                .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
                .send()
                .await;
            let is_newer = match cancelled {
                Ok(_) => false,
                Err(error) => match item_that_failed_condition(&error) {
                    Some(item) => codes::is_verifying(item, user)?,
                    None => return Err(StoreError::from_sdk("UpdateItem", &error)),
                },
            };
            if !is_newer {
                ended.push(phone.as_str().to_owned());
            }
        }
        if ended.is_empty() {
            return Ok(());
        }
        self.update_pending_phones(user, "DELETE", ended).await
    }

    async fn update_pending_phones(
        &self,
        user: UserId,
        verb: &str,
        phones: Vec<String>,
    ) -> Result<(), StoreError> {
        self.client
            .update_item()
            .table_name(&self.tables.users)
            .set_key(Some(keys::profile(user).into()))
            .update_expression(format!("{verb} pending_phones :phones"))
            .condition_expression("attribute_exists(pk)")
            .expression_attribute_values(":phones", AttributeValue::Ss(phones))
            .send()
            .await
            .map_err(|error| StoreError::from_sdk("UpdateItem", &error))?;
        Ok(())
    }

    /// Spends the code and changes the user's phone, in one transaction.
    pub async fn change_phone(&self, change: &ChangePhone<'_>) -> Result<(), ReserveError> {
        let writes = self.phone_change_writes(change)?;
        let changed = self.client.transact_write_items().set_transact_items(Some(writes)).send().await;
        let Err(error) = changed else { return Ok(()) };
        if item_that_failed_in_transaction(&error, 0).is_some() {
            return Err(WrongCode.into());
        }
        if item_that_failed_in_transaction(&error, 1).is_some() {
            return Err(VerificationError::PhoneTaken.into());
        }
        // Any other failed condition means that the profile changed since it was read. `from_sdk` classifies
        // the error as retryable.
        Err(StoreError::from_sdk("TransactWriteItems", &error).into())
    }

    fn phone_change_writes(&self, change: &ChangePhone<'_>) -> Result<Vec<TransactWriteItem>, StoreError> {
        let users = &self.tables.users;
        let ChangePhone { user, phone, code, nonce } = change;
        let spend = Update::builder()
            .table_name(users)
            .set_key(Some(keys::phone_codes(phone).into()))
            .update_expression("SET #code.used_by = :nonce")
            .condition_expression(SPENDABLE)
            .expression_attribute_names("#code", Purpose::Verify.as_str())
            .expression_attribute_values(":issue", text(&code.issue))
            .expression_attribute_values(":nonce", text(*nonce))
            .build()?;
        let own = Put::builder()
            .table_name(users)
            .set_item(Some(to_item(keys::phone_owner(phone), &PhoneOwner::from(*user))?))
            .condition_expression("attribute_not_exists(pk) OR user_id = :user")
            .expression_attribute_values(":user", number(user.id))
            .build()?;
        let record = Update::builder()
            .table_name(users)
            .set_key(Some(keys::profile(user.id).into()))
            .update_expression("SET phone = :new DELETE pending_phones :done")
            .condition_expression("phone = :old AND username = :name")
            .expression_attribute_values(":old", text(user.phone.as_str()))
            .expression_attribute_values(":new", text(phone.as_str()))
            .expression_attribute_values(":done", AttributeValue::Ss(vec![phone.as_str().to_owned()]))
            .expression_attribute_values(":name", text(user.username.as_str()))
            .build()?;
        let mut writes = vec![
            TransactWriteItem::builder().update(spend).build(),
            TransactWriteItem::builder().put(own).build(),
            TransactWriteItem::builder().update(record).build(),
        ];
        if user.phone != **phone {
            let disown = Delete::builder()
                .table_name(users)
                .set_key(Some(keys::phone_owner(&user.phone).into()))
                .condition_expression("user_id = :user")
                .expression_attribute_values(":user", number(user.id))
                .build()?;
            writes.push(TransactWriteItem::builder().delete(disown).build());
        }
        Ok(writes)
    }
}
