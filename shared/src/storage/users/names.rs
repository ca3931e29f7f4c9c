//! Owners of usernames.

use std::collections::{HashMap, HashSet};

use aws_sdk_dynamodb::types::KeysAndAttributes;
use serde::{Deserialize, Serialize};

use crate::domain::{UserId, Username};
use crate::storage::error::StoreError;
use crate::storage::item::from_item;
use crate::storage::keys;
use crate::storage::store::{Reads, Store};

/// The owner of a username.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct NameOwner {
    pub user_id: UserId,
}

impl Store {
    /// Returns whether a username has an owner. Eventually consistent.
    pub async fn is_username_taken(&self, name: &Username) -> Result<bool, StoreError> {
        let owner = self.get_item(&self.tables.users, keys::username_owner(name), Reads::Eventual).await?;
        Ok(owner.is_some())
    }

    /// Reads the owner of a username. Finds new users, too.
    pub async fn user_named(&self, name: &Username) -> Result<Option<UserId>, StoreError> {
        let owner: Option<NameOwner> = self.find(&self.tables.users, keys::username_owner(name)).await?;
        Ok(owner.map(|owner| owner.user_id))
    }

    /// Reads the owners of up to 100 usernames. Finds new users, too: names that an eventually consistent read does
    /// not find are read again, strongly consistent. Names without an owner are left out.
    pub async fn users_named(&self, names: &[Username]) -> Result<HashMap<Username, UserId>, StoreError> {
        #[derive(Deserialize)]
        struct Owned {
            pk: String,
            user_id: UserId,
        }
        let mut owners = HashMap::new();
        for reads in [Reads::Eventual, Reads::Consistent] {
            let missing = names.iter().filter(|name| !owners.contains_key(*name));
            let keys: Vec<_> = missing.map(|name| keys::username_owner(name).into()).collect();
            if keys.is_empty() {
                break;
            }
            for item in self.batch_get(&self.tables.users, keys, reads).await? {
                let Owned { pk, user_id } = from_item(item)?;
                owners.extend(keys::owned_name(&pk).map(|name| (name, user_id)));
            }
        }
        Ok(owners)
    }

    /// Returns the names that have no owner, in the order of `names`. Accepts up to 100 names. Eventually
    /// consistent.
    pub async fn free_usernames(&self, names: Vec<Username>) -> Result<Vec<Username>, StoreError> {
        if names.is_empty() {
            return Ok(names);
        }
        let wanted = KeysAndAttributes::builder()
            .set_keys(Some(names.iter().map(|name| keys::username_owner(name).into()).collect()))
            .projection_expression("pk")
            .build()?;
        let found = self
            .client
            .batch_get_item()
            .request_items(&self.tables.users, wanted)
            .send()
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
        Ok(names.into_iter().filter(|name| !taken.contains(&keys::username_owner(name).pk)).collect())
    }
}
