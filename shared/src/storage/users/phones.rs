use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{Delete, Put, ReturnValue, TransactWriteItem, Update};
use aws_smithy_types::error::operation::BuildError;

use super::codes::SPENDABLE;
use super::{KeptCode, Owner, ReserveError};
use crate::domain::code::{VerificationError, WrongCode};
use crate::domain::{Phone, Purpose, User, UserId};
use crate::storage::{Reads, Store, StoreError, condition_failed, keys, number, text, to_item};

/// A verified phone to become its user's own.
#[derive(Debug)]
pub struct ChangePhone<'a> {
    pub user: &'a User,
    pub phone: &'a Phone,
    pub code: &'a KeptCode,
    pub nonce: &'a str,
}

impl Store {
    pub async fn phone_owner(&self, phone: &Phone) -> Result<Option<UserId>, StoreError> {
        let owner: Option<Owner> =
            self.get(&self.tables.users, keys::phone_owner(phone), Reads::Eventual).await?;
        Ok(owner.map(|owner| owner.user_id))
    }

    /// Notes which phone a user is verifying; returns the one noted before.
    pub async fn set_pending_phone(&self, user: UserId, phone: &Phone) -> Result<Option<Phone>, StoreError> {
        let noted = self
            .client
            .update_item()
            .table_name(&self.tables.users)
            .set_key(Some(keys::profile(user).into()))
            .update_expression("SET pending_phone = :phone")
            .condition_expression("attribute_exists(pk)")
            .expression_attribute_values(":phone", text(phone.as_str()))
            .return_values(ReturnValue::UpdatedOld)
            .send()
            .await
            .map_err(|error| StoreError::from_sdk("UpdateItem", &error))?;
        let before = noted.attributes.unwrap_or_default();
        Ok(before.get("pending_phone").and_then(|value| Phone::parse(value.as_s().ok()?).ok()))
    }

    /// Forgets a verification that another phone has taken the place of.
    pub async fn cancel_verification(&self, user: UserId, phone: &Phone) -> Result<(), StoreError> {
        let cancelled = self
            .client
            .update_item()
            .table_name(&self.tables.users)
            .set_key(Some(keys::phone_codes(phone).into()))
            .update_expression("REMOVE #code")
            .condition_expression("#code.user_id = :user")
            .expression_attribute_names("#code", Purpose::Verify.as_str())
            .expression_attribute_values(":user", number(user))
            .send()
            .await;
        match cancelled {
            Ok(_) => Ok(()),
            Err(error)
                if matches!(
                    error.as_service_error(),
                    Some(UpdateItemError::ConditionalCheckFailedException(_))
                ) =>
            {
                Ok(())
            }
            Err(error) => Err(StoreError::from_sdk("UpdateItem", &error)),
        }
    }

    /// Spends the code and moves the user to the phone, or does neither.
    pub async fn change_phone(&self, change: &ChangePhone<'_>) -> Result<(), ReserveError> {
        let writes =
            self.phone_change_writes(change).map_err(|error| StoreError::Unreadable(error.to_string()))?;
        let Err(error) = self.client.transact_write_items().set_transact_items(Some(writes)).send().await
        else {
            return Ok(());
        };
        if let SdkError::ServiceError(service) = &error
            && let TransactWriteItemsError::TransactionCanceledException(cancelled) = service.err()
        {
            let reasons = cancelled.cancellation_reasons();
            if condition_failed(reasons, 0) {
                return Err(WrongCode.into());
            }
            if condition_failed(reasons, 1) {
                return Err(VerificationError::PhoneMismatch.into());
            }
            if condition_failed(reasons, 2) {
                return Err(VerificationError::PhoneTaken.into());
            }
        }
        Err(StoreError::from_sdk("TransactWriteItems", &error).into())
    }

    fn phone_change_writes(&self, change: &ChangePhone<'_>) -> Result<Vec<TransactWriteItem>, BuildError> {
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
        let record = Update::builder()
            .table_name(users)
            .set_key(Some(keys::profile(user.id).into()))
            .update_expression("SET phone = :new REMOVE pending_phone")
            .condition_expression("phone = :old AND pending_phone = :new")
            .expression_attribute_values(":old", text(user.phone.as_str()))
            .expression_attribute_values(":new", text(phone.as_str()))
            .build()?;
        let owner =
            to_item(keys::phone_owner(phone), &Owner { user_id: user.id }).map_err(BuildError::other)?;
        let own = Put::builder()
            .table_name(users)
            .set_item(Some(owner))
            .condition_expression("attribute_not_exists(pk) OR user_id = :user")
            .expression_attribute_values(":user", number(user.id))
            .build()?;
        let mut writes = vec![
            TransactWriteItem::builder().update(spend).build(),
            TransactWriteItem::builder().update(record).build(),
            TransactWriteItem::builder().put(own).build(),
        ];
        if user.phone != **phone {
            let disown = Delete::builder()
                .table_name(users)
                .set_key(Some(keys::phone_owner(&user.phone).into()))
                .condition_expression("attribute_not_exists(pk) OR user_id = :user")
                .expression_attribute_values(":user", number(user.id))
                .build()?;
            writes.push(TransactWriteItem::builder().delete(disown).build());
        }
        Ok(writes)
    }
}
