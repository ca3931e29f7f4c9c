use std::collections::HashSet;

use aws_sdk_dynamodb::types::KeysAndAttributes;

use serde::{Deserialize, Serialize};

use crate::domain::{UserId, Username};
use crate::storage::{Reads, Store, StoreError, keys};

/// Whose a username is.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct NameOwner {
    pub user_id: UserId,
}

impl Store {
    pub async fn is_username_taken(&self, name: &Username) -> Result<bool, StoreError> {
        let owner: Option<NameOwner> =
            self.get(&self.tables.users, keys::username_owner(name), Reads::Eventual).await?;
        Ok(owner.is_some())
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
