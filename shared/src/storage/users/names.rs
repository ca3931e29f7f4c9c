use std::collections::{HashMap, HashSet};

use aws_sdk_dynamodb::types::KeysAndAttributes;

use serde::{Deserialize, Serialize};

use crate::domain::{UserId, Username};
use crate::storage::{Reads, Store, StoreError, from_item, keys};

/// Whose a username is.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct NameOwner {
    pub user_id: UserId,
}

impl Store {
    pub async fn is_username_taken(&self, name: &Username) -> Result<bool, StoreError> {
        Ok(self.user_named(name).await?.is_some())
    }

    /// Whose a username is.
    pub async fn user_named(&self, name: &Username) -> Result<Option<UserId>, StoreError> {
        let owner: Option<NameOwner> =
            self.get(&self.tables.users, keys::username_owner(name), Reads::Eventual).await?;
        Ok(owner.map(|owner| owner.user_id))
    }

    /// Whose these usernames are, of those that are somebody's. At most 100 at once.
    pub async fn users_named(&self, names: &[Username]) -> Result<HashMap<Username, UserId>, StoreError> {
        #[derive(Deserialize)]
        struct Owned {
            pk: String,
            user_id: UserId,
        }
        let keys = names.iter().map(|name| keys::username_owner(name).into()).collect();
        let items = self.batch_get(&self.tables.users, keys, Reads::Eventual).await?;
        let mut owners = HashMap::new();
        for item in items {
            let Owned { pk, user_id } = from_item(item)?;
            owners.extend(keys::owned_name(&pk).map(|name| (name, user_id)));
        }
        Ok(owners)
    }

    /// Those of `names` that nobody has, in their order.
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
        // What the store did not get to is unknown, and so not offered.
        let unread = found
            .unprocessed_keys
            .iter()
            .flat_map(|tables| tables.values())
            .flat_map(aws_sdk_dynamodb::types::KeysAndAttributes::keys);
        let taken: HashSet<&String> = found
            .responses
            .iter()
            .flat_map(|tables| tables.values())
            .flatten()
            .chain(unread)
            .filter_map(|item| item.get("pk")?.as_s().ok())
            .collect();
        Ok(names.into_iter().filter(|name| !taken.contains(&keys::username_owner(name).pk)).collect())
    }
}
