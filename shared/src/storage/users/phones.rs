//! Owners of phones, and changes of a user's phone.

use aws_sdk_dynamodb::types::{
    AttributeValue, Delete, Put, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update,
};
use chrono::serde::{ts_milliseconds, ts_milliseconds_option, ts_seconds};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::super::client::Call as _;
use super::codes::{ReserveError, SPENDABLE, StoredCode};
use super::sessions::Session;
use crate::domain::cleanup::Work;
use crate::domain::code::{NetworkDigest, VerificationError, WrongCode};
use crate::domain::recovery::{Recovery, UndoError};
use crate::domain::session::SessionId;
use crate::domain::{Phone, Purpose, Token, User, UserId, Username};
use crate::storage::condition::{condition_held, item_that_failed_in_transaction};
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
    /// The networks from which the owner has logged in or verified the phone, in the order in which they were added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<NetworkDigest>,
    /// Since when the owner is suspended. A suspended user cannot log in.
    #[serde(default, with = "ts_milliseconds_option", skip_serializing_if = "Option::is_none")]
    pub suspended_at: Option<DateTime<Utc>>,
}

/// How many networks of a phone are stored. Most people log in from few.
const MAX_NETWORKS: usize = 8;

impl From<&User> for PhoneOwner {
    fn from(user: &User) -> Self {
        Self {
            user_id: user.id,
            username: user.username.clone(),
            created_at: user.created_at,
            networks: Vec::new(),
            suspended_at: None,
        }
    }
}

/// A change of a user's phone, with the code that verifies the new phone.
#[derive(Debug)]
pub struct ChangePhone<'a> {
    pub user: &'a User,
    pub phone: &'a Phone,
    pub code: &'a StoredCode,
    /// The network from which the code was entered.
    pub network: Option<&'a NetworkDigest>,
    pub nonce: &'a str,
    /// The session of the request. All others end.
    pub session: SessionId,
}

/// The return of an account to its previous phone, with the login code that the phone's owner entered.
#[derive(Debug)]
pub struct UndoPhoneChange<'a> {
    pub user: &'a User,
    /// The previous phone.
    pub phone: &'a Phone,
    pub code: &'a StoredCode,
    pub network: Option<&'a NetworkDigest>,
    pub nonce: &'a str,
    /// The new session. All others end.
    pub token: &'a Token,
    pub session: &'a Session,
}

#[derive(Debug, thiserror::Error)]
pub enum UndoFailed {
    #[error(transparent)]
    Rejected(#[from] UndoError),
    #[error(transparent)]
    Wrong(#[from] WrongCode),
    #[error("the user is suspended")]
    Suspended,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The account that the owner of a phone can take back.
#[derive(Debug, Serialize, Deserialize)]
struct RecoveryItem {
    user_id: UserId,
    #[serde(with = "ts_seconds")]
    expires_at: DateTime<Utc>,
}

impl Store {
    /// Reads the owner of a phone. The read is strongly consistent: after a stale read, a login would sign in as
    /// the phone's previous owner.
    pub async fn phone_owner(&self, phone: &Phone) -> Result<Option<PhoneOwner>, StoreError> {
        self.get(&self.tables.users, keys::phone_owner(phone), Reads::Consistent).await
    }

    /// Returns whether the owner of a phone has logged in from this network before. Eventually consistent.
    pub async fn is_known_network(&self, phone: &Phone, network: &NetworkDigest) -> Result<bool, StoreError> {
        let owner: Option<PhoneOwner> =
            self.get(&self.tables.users, keys::phone_owner(phone), Reads::Eventual).await?;
        Ok(owner.is_some_and(|owner| owner.networks.contains(network)))
    }

    /// Stores that the owner of a phone has logged in from this network. Removes the oldest network if there are more than
    /// `MAX_NETWORKS`. Of two concurrent logins from new networks, one can overwrite the network of the other. The next login
    /// from that network adds it again.
    pub async fn add_network(
        &self,
        phone: &Phone,
        owner: &PhoneOwner,
        network: &NetworkDigest,
    ) -> Result<(), StoreError> {
        let dropped = owner.networks.len().saturating_sub(MAX_NETWORKS - 1);
        let networks = owner.networks[dropped..].iter().chain([network]);
        let networks = networks.map(|network| text(network.as_str())).collect();
        let added = self
            .client
            .update_item()
            .table_name(&self.tables.users)
            .set_key(Some(keys::phone_owner(phone).into()))
            .update_expression("SET networks = :networks")
            .condition_expression("user_id = :user")
            .expression_attribute_values(":networks", AttributeValue::L(networks))
            .expression_attribute_values(":user", number(owner.user_id))
            .call()
            .await;
        condition_held("UpdateItem", added).map(|_| ())
    }

    /// Reads the id of the user whose previous phone this is, strongly consistent. The user's profile decides whether the
    /// owner of the phone can take the account back.
    pub async fn previous_owner(&self, phone: &Phone) -> Result<Option<UserId>, StoreError> {
        let item: Option<RecoveryItem> =
            self.get(&self.tables.users, keys::phone_recovery(phone), Reads::Consistent).await?;
        Ok(item.map(|item| item.user_id))
    }

    /// Spends the code and changes the user's phone, in one transaction. If the phone is a new one, all other sessions of the
    /// user end, and the owner of the old phone is told and can undo the change.
    pub async fn change_phone(
        &self,
        change: &ChangePhone<'_>,
        now: DateTime<Utc>,
    ) -> Result<(), ReserveError> {
        let writes = self.phone_change_writes(change, now)?;
        let changed = self.client.transact_write_items().set_transact_items(Some(writes)).call().await;
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

    fn phone_change_writes(
        &self,
        change: &ChangePhone<'_>,
        now: DateTime<Utc>,
    ) -> Result<Vec<TransactWriteItem>, StoreError> {
        let users = &self.tables.users;
        let ChangePhone { user, phone, code, network, nonce, session } = change;
        let spend = Update::builder()
            .table_name(users)
            .set_key(Some(keys::verification(user.id).into()))
            .update_expression("SET #code.used_by = :nonce")
            .condition_expression(SPENDABLE)
            .expression_attribute_names("#code", Purpose::Verify.as_str())
            .expression_attribute_values(":issue", text(&code.issue))
            .expression_attribute_values(":nonce", text(*nonce))
            .build()?;
        let networks = network.iter().map(|network| text(network.as_str())).collect();
        let own = Update::builder()
            .table_name(users)
            .set_key(Some(keys::phone_owner(phone).into()))
            .update_expression(
                "SET user_id = :user, username = :name, created_at = :created, \
                 networks = if_not_exists(networks, :networks)",
            )
            .condition_expression("attribute_not_exists(pk) OR user_id = :user")
            .expression_attribute_values(":user", number(user.id))
            .expression_attribute_values(":name", text(user.username.as_str()))
            .expression_attribute_values(":created", number(user.created_at.timestamp_millis()))
            .expression_attribute_values(":networks", AttributeValue::L(networks))
            .build()?;
        let is_new = user.phone != **phone;
        let current = user.recovery.as_ref();
        let recovery =
            if is_new { Recovery::after_change(current, &user.phone, phone, now) } else { current.cloned() };
        // Earlier versions stored the phones of verifications in `pending_phones`.
        let set = match &recovery {
            Some(_) => {
                "SET phone = :new, recovery_phone = :recovery, recovery_until = :until REMOVE pending_phones"
            }
            None => "SET phone = :new REMOVE pending_phones, recovery_phone, recovery_until",
        };
        let mut record = Update::builder()
            .table_name(users)
            .set_key(Some(keys::profile(user.id).into()))
            .update_expression(set)
            // A suspended user must not get a phone whose owner item lacks the suspension.
            .condition_expression("phone = :old AND username = :name AND attribute_not_exists(suspended_at)")
            .expression_attribute_values(":old", text(user.phone.as_str()))
            .expression_attribute_values(":new", text(phone.as_str()))
            .expression_attribute_values(":name", text(user.username.as_str()));
        if let Some(recovery) = &recovery {
            record = record
                .expression_attribute_values(":recovery", text(recovery.phone.as_str()))
                .expression_attribute_values(":until", number(recovery.until.timestamp_millis()));
        }
        let mut writes = vec![
            TransactWriteItem::builder().update(spend).build(),
            TransactWriteItem::builder().update(own).build(),
            TransactWriteItem::builder().update(record.build()?).build(),
        ];
        if is_new {
            writes.push(self.disown_write(user)?);
            writes.push(self.cleanup_write(&Work::end_sessions(user.id, Some(session.clone()), now), now)?);
            let notice = Work::TellOldPhone { user: user.id, phone: user.phone.clone() };
            writes.push(self.cleanup_write(&notice, now)?);
        }
        // If an earlier change can still be undone, the item of its phone exists already.
        if let Some(recovery) = recovery.filter(|recovery| is_new && recovery.phone == user.phone) {
            let item = RecoveryItem { user_id: user.id, expires_at: recovery.until };
            let put = Put::builder()
                .table_name(users)
                .set_item(Some(to_item(keys::phone_recovery(&recovery.phone), &item)?))
                .build()?;
            writes.push(TransactWriteItem::builder().put(put).build());
        }
        Ok(writes)
    }

    /// Returns the write that removes the user's current phone from them.
    fn disown_write(&self, user: &User) -> Result<TransactWriteItem, StoreError> {
        let disown = Delete::builder()
            .table_name(&self.tables.users)
            .set_key(Some(keys::phone_owner(&user.phone).into()))
            .condition_expression("user_id = :user")
            .expression_attribute_values(":user", number(user.id))
            .build()?;
        Ok(TransactWriteItem::builder().delete(disown).build())
    }

    /// Spends the code, gives the user their previous phone back and starts a session, in one transaction. All other sessions
    /// of the user end.
    pub async fn undo_phone_change(
        &self,
        undo: &UndoPhoneChange<'_>,
        now: DateTime<Utc>,
    ) -> Result<PhoneOwner, UndoFailed> {
        let owner = PhoneOwner {
            networks: undo.network.into_iter().cloned().collect(),
            ..PhoneOwner::from(undo.user)
        };
        let writes = self.undo_writes(undo, &owner, now)?;
        let undone = self.client.transact_write_items().set_transact_items(Some(writes)).call().await;
        let Err(error) = undone else { return Ok(owner) };
        if item_that_failed_in_transaction(&error, 0).is_some() {
            return Err(WrongCode.into());
        }
        if item_that_failed_in_transaction(&error, 1).is_some() {
            return Err(UndoError::PhoneInUse.into());
        }
        let profile = item_that_failed_in_transaction(&error, 2);
        if profile.is_some_and(|profile| profile.contains_key("suspended_at")) {
            return Err(UndoFailed::Suspended);
        }
        // Any other failed condition means that the profile changed since it was read.
        Err(StoreError::from_sdk("TransactWriteItems", &error).into())
    }

    fn undo_writes(
        &self,
        undo: &UndoPhoneChange<'_>,
        owner: &PhoneOwner,
        now: DateTime<Utc>,
    ) -> Result<Vec<TransactWriteItem>, StoreError> {
        let users = &self.tables.users;
        let UndoPhoneChange { user, phone, code, nonce, token, session, .. } = undo;
        let spend = Update::builder()
            .table_name(users)
            .set_key(Some(code.key(phone).into()))
            .update_expression("SET #code.used_by = :nonce")
            .condition_expression(SPENDABLE)
            .expression_attribute_names("#code", Purpose::Login.as_str())
            .expression_attribute_values(":issue", text(&code.issue))
            .expression_attribute_values(":nonce", text(*nonce))
            .build()?;
        let own = Put::builder()
            .table_name(users)
            .set_item(Some(to_item(keys::phone_owner(phone), owner)?))
            .condition_expression("attribute_not_exists(pk)")
            .build()?;
        let record = Update::builder()
            .table_name(users)
            .set_key(Some(keys::profile(user.id).into()))
            .update_expression("SET phone = :phone REMOVE recovery_phone, recovery_until")
            .condition_expression(
                "phone = :current AND username = :name AND recovery_phone = :phone \
                 AND attribute_not_exists(suspended_at)",
            )
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .expression_attribute_values(":current", text(user.phone.as_str()))
            .expression_attribute_values(":phone", text(phone.as_str()))
            .expression_attribute_values(":name", text(user.username.as_str()))
            .build()?;
        let recovery =
            Delete::builder().table_name(users).set_key(Some(keys::phone_recovery(phone).into())).build()?;
        let start = Put::builder()
            .table_name(users)
            .set_item(Some(to_item(keys::session(user.id, &token.digest()), session)?))
            .build()?;
        let kept = SessionId(session.device_id.clone());
        Ok(vec![
            TransactWriteItem::builder().update(spend).build(),
            TransactWriteItem::builder().put(own).build(),
            TransactWriteItem::builder().update(record).build(),
            self.disown_write(user)?,
            TransactWriteItem::builder().delete(recovery).build(),
            TransactWriteItem::builder().put(start).build(),
            self.cleanup_write(&Work::end_sessions(user.id, Some(kept), now), now)?,
        ])
    }
}
