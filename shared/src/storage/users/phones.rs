//! Owners of phones, and changes of a user's phone.

use aws_sdk_dynamodb::types::{AttributeValue, Delete, TransactWriteItem, Update};
use chrono::serde::ts_milliseconds;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::codes::{ReserveError, SPENDABLE, StoredCode};
use crate::domain::code::{NetworkDigest, VerificationError, WrongCode};
use crate::domain::{Phone, Purpose, User, UserId, Username};
use crate::storage::condition::{condition_held, item_that_failed_in_transaction};
use crate::storage::error::StoreError;
use crate::storage::item::{number, text};
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
}

/// How many networks of a phone are stored. Most people log in from few.
const MAX_NETWORKS: usize = 8;

impl From<&User> for PhoneOwner {
    fn from(user: &User) -> Self {
        let networks = Vec::new();
        Self { user_id: user.id, username: user.username.clone(), created_at: user.created_at, networks }
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
            .send()
            .await;
        condition_held("UpdateItem", added).map(|_| ())
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
        let ChangePhone { user, phone, code, network, nonce } = change;
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
        let record = Update::builder()
            .table_name(users)
            .set_key(Some(keys::profile(user.id).into()))
            // Earlier versions stored the phones of verifications there.
            .update_expression("SET phone = :new REMOVE pending_phones")
            .condition_expression("phone = :old AND username = :name")
            .expression_attribute_values(":old", text(user.phone.as_str()))
            .expression_attribute_values(":new", text(phone.as_str()))
            .expression_attribute_values(":name", text(user.username.as_str()))
            .build()?;
        let mut writes = vec![
            TransactWriteItem::builder().update(spend).build(),
            TransactWriteItem::builder().update(own).build(),
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
