use std::fmt::Write as _;

use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{
    Delete, Put, ReturnValue, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update,
};
use aws_smithy_types::error::operation::BuildError;
use chrono::serde::ts_milliseconds;
use chrono::{DateTime, NaiveDate, Utc};
use serde::{Deserialize, Serialize};

use super::{Owner, Session};
use crate::domain::profile::RenameError;
use crate::domain::{Email, Name, Phone, Token, User, UserId, Username};
use crate::storage::{
    Item, Reads, Store, StoreError, condition_failed, from_item, keys, number, text, to_item,
};

#[derive(Debug, Serialize, Deserialize)]
struct ProfileItem {
    id: UserId,
    phone: Phone,
    username: Username,
    #[serde(with = "ts_milliseconds")]
    created_at: DateTime<Utc>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<Name>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    email: Option<Email>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    date_of_birth: Option<NaiveDate>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pending_phone: Option<Phone>,
}

impl From<ProfileItem> for User {
    fn from(item: ProfileItem) -> Self {
        Self {
            id: item.id,
            phone: item.phone,
            username: item.username,
            created_at: item.created_at,
            name: item.name,
            email: item.email,
            date_of_birth: item.date_of_birth,
            pending_phone: item.pending_phone,
        }
    }
}

/// Somebody's first login.
#[derive(Debug)]
pub struct NewUser<'a> {
    pub id: UserId,
    pub phone: &'a Phone,
    pub username: &'a Username,
    pub token: &'a Token,
    pub session: &'a Session,
}

#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// Another login of the same phone came first.
    #[error("the phone is owned already")]
    PhoneOwned(UserId),
    #[error("the username is taken")]
    NameTaken,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What to change in a record; `None` stays as it is.
#[derive(Debug, Default)]
pub struct Changes {
    pub name: Option<Name>,
    pub email: Option<Email>,
    pub date_of_birth: Option<NaiveDate>,
}

#[derive(Debug, thiserror::Error)]
pub enum RenameFailed {
    #[error(transparent)]
    Refused(#[from] RenameError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Changes {
    /// The `SET` part of an update and its values; empty where nothing changes.
    fn expression(&self) -> (String, Item) {
        let fields = [
            ("#name", ":name", self.name.as_ref().map(|name| serde_json::json!(name))),
            ("email", ":email", self.email.as_ref().map(|email| serde_json::json!(email))),
            ("date_of_birth", ":born", self.date_of_birth.map(|date| serde_json::json!(date))),
        ];
        let (mut set, mut values) = (String::new(), Item::new());
        for (field, placeholder, value) in fields {
            if let Some(value) = value.as_ref().and_then(|value| value.as_str()) {
                let _ = write!(set, "{}{field} = {placeholder}", if set.is_empty() { "" } else { ", " });
                values.insert(placeholder.to_owned(), text(value));
            }
        }
        (set, values)
    }
}

impl Store {
    /// A user's record, with every write that was answered.
    pub async fn user(&self, id: UserId) -> Result<Option<User>, StoreError> {
        let item: Option<ProfileItem> =
            self.get(&self.tables.users, keys::profile(id), Reads::Consistent).await?;
        Ok(item.map(User::from))
    }

    /// A user's record for half the price, maybe some milliseconds old.
    pub async fn user_cheaply(&self, id: UserId) -> Result<Option<User>, StoreError> {
        let item: Option<ProfileItem> =
            self.get(&self.tables.users, keys::profile(id), Reads::Eventual).await?;
        Ok(item.map(User::from))
    }

    /// The next user id. An id that is drawn and not used leaves a gap, which nobody minds.
    pub async fn draw_user_id(&self) -> Result<UserId, StoreError> {
        let drawn = self
            .client
            .update_item()
            .table_name(&self.tables.users)
            .set_key(Some(keys::user_counter().into()))
            .update_expression("ADD last_id :one")
            .expression_attribute_values(":one", number(1))
            .return_values(ReturnValue::UpdatedNew)
            .send()
            .await
            .map_err(|error| StoreError::from_sdk("UpdateItem", &error))?;
        drawn
            .attributes()
            .and_then(|attributes| attributes.get("last_id")?.as_n().ok()?.parse().ok())
            .ok_or_else(|| StoreError::Unreadable("the user counter".into()))
    }

    /// Makes the user, with phone, name and first session, or nothing at all.
    pub async fn register(&self, new: &NewUser<'_>, now: DateTime<Utc>) -> Result<User, RegisterError> {
        let item = ProfileItem {
            id: new.id,
            phone: new.phone.clone(),
            username: new.username.clone(),
            created_at: now,
            name: None,
            email: None,
            date_of_birth: None,
            pending_phone: None,
        };
        let writes = [
            to_item(keys::phone_owner(new.phone), &Owner { user_id: new.id })?,
            to_item(keys::username_owner(new.username), &Owner { user_id: new.id })?,
            to_item(keys::profile(new.id), &item)?,
            to_item(keys::session(new.id, &new.token.digest()), new.session)?,
        ]
        .into_iter()
        .map(|item| {
            let put = Put::builder()
                .table_name(&self.tables.users)
                .set_item(Some(item))
                .condition_expression("attribute_not_exists(pk)")
                .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
                .build()?;
            Ok(TransactWriteItem::builder().put(put).build())
        })
        .collect::<Result<Vec<_>, BuildError>>()
        .map_err(|error| StoreError::Unreadable(error.to_string()))?;

        let Err(error) = self.client.transact_write_items().set_transact_items(Some(writes)).send().await
        else {
            return Ok(item.into());
        };
        if let SdkError::ServiceError(service) = &error
            && let TransactWriteItemsError::TransactionCanceledException(cancelled) = service.err()
        {
            let reasons = cancelled.cancellation_reasons();
            if condition_failed(reasons, 0) {
                let owner: Owner = from_item(reasons[0].item().cloned().unwrap_or_default())?;
                return Err(RegisterError::PhoneOwned(owner.user_id));
            }
            if condition_failed(reasons, 1) {
                return Err(RegisterError::NameTaken);
            }
        }
        Err(StoreError::from_sdk("TransactWriteItems", &error).into())
    }

    /// Changes a record; `None` where there is no such user.
    pub async fn update_user(&self, id: UserId, changes: &Changes) -> Result<Option<User>, StoreError> {
        let (set, values) = changes.expression();
        if set.is_empty() {
            return self.user(id).await;
        }
        let mut update = self
            .client
            .update_item()
            .table_name(&self.tables.users)
            .set_key(Some(keys::profile(id).into()))
            .update_expression(format!("SET {set}"))
            .condition_expression("attribute_exists(pk)")
            .set_expression_attribute_values(Some(values))
            .return_values(ReturnValue::AllNew);
        if changes.name.is_some() {
            update = update.expression_attribute_names("#name", "name");
        }
        match update.send().await {
            Ok(updated) => {
                let item: ProfileItem = from_item(updated.attributes.unwrap_or_default())?;
                Ok(Some(item.into()))
            }
            Err(error)
                if matches!(
                    error.as_service_error(),
                    Some(UpdateItemError::ConditionalCheckFailedException(_))
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(StoreError::from_sdk("UpdateItem", &error)),
        }
    }

    /// Gives `user` another username, and the other changes with it, or nothing at all.
    pub async fn rename_user(
        &self,
        user: &User,
        to: &Username,
        changes: &Changes,
    ) -> Result<(), RenameFailed> {
        let writes = self
            .rename_writes(user, to, changes)
            .map_err(|error| StoreError::Unreadable(error.to_string()))?;
        let Err(error) = self.client.transact_write_items().set_transact_items(Some(writes)).send().await
        else {
            return Ok(());
        };
        if let SdkError::ServiceError(service) = &error
            && let TransactWriteItemsError::TransactionCanceledException(cancelled) = service.err()
        {
            let reasons = cancelled.cancellation_reasons();
            if condition_failed(reasons, 0) {
                return Err(RenameError::Taken.into());
            }
            if condition_failed(reasons, 1) {
                let before = reasons[1].item();
                return Err(if before.is_some_and(|item| item.contains_key("chat_since")) {
                    RenameError::Locked.into()
                } else {
                    // The same user's other device renamed them between our read and our write.
                    StoreError::Busy { operation: "TransactWriteItems", code: "RenamedMeanwhile".into() }
                        .into()
                });
            }
        }
        Err(StoreError::from_sdk("TransactWriteItems", &error).into())
    }

    fn rename_writes(
        &self,
        user: &User,
        to: &Username,
        changes: &Changes,
    ) -> Result<Vec<TransactWriteItem>, BuildError> {
        let users = &self.tables.users;
        let owner =
            to_item(keys::username_owner(to), &Owner { user_id: user.id }).map_err(BuildError::other)?;
        let own = Put::builder()
            .table_name(users)
            .set_item(Some(owner))
            .condition_expression("attribute_not_exists(pk)")
            .build()?;
        let (set, values) = changes.expression();
        let mut record = Update::builder()
            .table_name(users)
            .set_key(Some(keys::profile(user.id).into()))
            .update_expression(format!("SET username = :new{}{set}", if set.is_empty() { "" } else { ", " }))
            // `chat_since` appears with the first room: from then on the name is a chat identity.
            .condition_expression("username = :old AND attribute_not_exists(chat_since)")
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .set_expression_attribute_values(Some(values))
            .expression_attribute_values(":old", text(user.username.as_str()))
            .expression_attribute_values(":new", text(to.as_str()));
        if changes.name.is_some() {
            record = record.expression_attribute_names("#name", "name");
        }
        let disown = Delete::builder()
            .table_name(users)
            .set_key(Some(keys::username_owner(&user.username).into()))
            .condition_expression("user_id = :user")
            .expression_attribute_values(":user", number(user.id))
            .build()?;
        Ok(vec![
            TransactWriteItem::builder().put(own).build(),
            TransactWriteItem::builder().update(record.build()?).build(),
            TransactWriteItem::builder().delete(disown).build(),
        ])
    }
}
