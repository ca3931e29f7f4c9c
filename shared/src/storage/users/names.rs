//! Owners of usernames.

use std::collections::{HashMap, HashSet};

use aws_sdk_dynamodb::types::KeysAndAttributes;
use serde::{Deserialize, Serialize};

use super::super::client::Call as _;
use crate::domain::{UserId, Username};
use crate::storage::error::StoreError;
use crate::storage::item::{Item, from_item};
use crate::storage::keys::{self, Key};
use crate::storage::store::{Reads, Store};

/// The item of a username. The key has a hash of the username.
///
/// A user with the username `john_smith` has two items: `john_smith` with their `user_id`, and `johnsmith` with their id in
/// `held_by`. Nobody else can take `johnsmith` or another username that looks like it, but no user has that username. A
/// username that is its own look-alike key has one item.
///
/// The items of a user who has deleted the account have neither id. They keep the usernames reserved: a Matrix account cannot be
/// created again.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct NameOwner {
    /// The user who has the username, or had it before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<UserId>,
    /// The user who has a username that looks like it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<UserId>,
}

/// Returns the keys of the items that a user needs in order to have a username.
pub(super) fn keys_of(name: &Username) -> impl Iterator<Item = Key> {
    std::iter::once(keys::username_owner(name)).chain(keys::username_lookalikes(name))
}

impl Store {
    /// Returns whether a user has a username, or one that looks like it. Eventually consistent.
    pub async fn is_username_taken(&self, name: &Username) -> Result<bool, StoreError> {
        let keys = keys_of(name).map(Item::from).collect();
        let found = self.batch_get(&self.tables.users, keys, Reads::Eventual).await?;
        Ok(!found.is_empty())
    }

    /// Reads the owner of a username. Finds new users, too.
    pub async fn user_named(&self, name: &Username) -> Result<Option<UserId>, StoreError> {
        let owner: Option<NameOwner> = self.find(&self.tables.users, keys::username_owner(name)).await?;
        Ok(owner.and_then(|owner| owner.user_id))
    }

    /// Reads the owners of up to 100 usernames. Finds new users, too: names that an eventually consistent read does
    /// not find are read again, strongly consistent. Names without an owner are left out.
    pub async fn users_named(&self, names: &[Username]) -> Result<HashMap<Username, UserId>, StoreError> {
        #[derive(Deserialize)]
        struct Owned {
            pk: String,
            user_id: Option<UserId>,
        }
        // The key has a hash of the username.
        let names: HashMap<String, &Username> =
            names.iter().map(|name| (keys::username_owner(name).pk, name)).collect();
        let mut owners = HashMap::new();
        for reads in [Reads::Eventual, Reads::Consistent] {
            let missing = names.values().filter(|name| !owners.contains_key(**name));
            let keys: Vec<_> = missing.map(|name| keys::username_owner(name).into()).collect();
            if keys.is_empty() {
                break;
            }
            for item in self.batch_get(&self.tables.users, keys, reads).await? {
                let Owned { pk, user_id } = from_item(item)?;
                owners.extend(names.get(&pk).map(|name| (*name).clone()).zip(user_id));
            }
        }
        Ok(owners)
    }

    /// Returns the names that have no owner, and that look like no name with an owner, in the order of `names`. Accepts up
    /// to 50 names. Eventually consistent.
    pub async fn free_usernames(&self, names: Vec<Username>) -> Result<Vec<Username>, StoreError> {
        if names.is_empty() {
            return Ok(names);
        }
        let mut keys: Vec<Key> = names.iter().flat_map(keys_of).collect();
        // DynamoDB rejects a batch with the same key twice.
        keys.sort_unstable_by(|one, other| one.pk.cmp(&other.pk));
        keys.dedup_by(|one, other| one.pk == other.pk);
        let wanted = KeysAndAttributes::builder()
            .set_keys(Some(keys.into_iter().map(Item::from).collect()))
            .projection_expression("pk")
            .build()?;
        let found = self
            .client
            .batch_get_item()
            .request_items(&self.tables.users, wanted)
            .call()
            .await
            .map_err(|error| StoreError::from_sdk("BatchGetItem", &error))?;
        // Names that DynamoDB left unprocessed may have owners, so they count as taken.
        let unprocessed = found
            .unprocessed_keys
            .iter()
            .flat_map(|tables| tables.values())
            .flat_map(KeysAndAttributes::keys);
        let taken: HashSet<&String> = found
            .responses
            .iter()
            .flat_map(|tables| tables.values())
            .flatten()
            .chain(unprocessed)
            .filter_map(|item| item.get("pk")?.as_s().ok())
            .collect();
        let is_free = |name: &Username| keys_of(name).all(|key| !taken.contains(&key.pk));
        Ok(names.into_iter().filter(is_free).collect())
    }
}
