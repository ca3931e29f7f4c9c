//! The `rooms` table: invite links.
//!
//! The link of a member for a room is an item of the member, so it is deleted with the account. It alone decides whether a
//! code is valid. A second item leads from the hash of a code to the member and the room. It is written first, so a link that
//! is stored can always be found. A code item without its link is of no use, and expires with it.
//!
//! The creator of a room revokes all of its links with one write: it increases a number, and a link is valid only with the
//! number that it was made with.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::client::Call as _;
use super::condition::condition_held;
use super::error::StoreError;
use super::item::{from_item, number, text, to_item};
use super::keys;
use super::store::{Reads, Store, every_item};
use crate::domain::invite_link::{InviteLink, LinkCode};
use crate::domain::{RoomId, UserId};

/// The item that leads from a code to its link.
#[derive(Debug, Serialize, Deserialize)]
struct CodeItem {
    room_id: RoomId,
    /// Not `user_id`: see [`InviteLink::made_by`].
    made_by: UserId,
    #[serde(with = "chrono::serde::ts_seconds")]
    expires_at: DateTime<Utc>,
}

impl Store {
    /// Reads the link that a member made for a room. It may have expired or be revoked.
    pub async fn invite_link(&self, room: &RoomId, user: UserId) -> Result<Option<InviteLink>, StoreError> {
        self.get(&self.tables.rooms, keys::invite_link(user, room), Reads::Consistent).await
    }

    /// Reads the link with this code. It may have expired, and all links of the room may be revoked.
    pub async fn invite_link_by_code(&self, code: &LinkCode) -> Result<Option<InviteLink>, StoreError> {
        let key = keys::invite_link_code(code);
        let found: Option<CodeItem> = self.get(&self.tables.rooms, key, Reads::Consistent).await?;
        let Some(CodeItem { room_id, made_by, .. }) = found else { return Ok(None) };
        let link = self.invite_link(&room_id, made_by).await?;
        Ok(link.filter(|link| link.code == *code))
    }

    /// Returns how often all links of a room were revoked.
    pub async fn link_revocations(&self, room: &RoomId) -> Result<u32, StoreError> {
        #[derive(Deserialize)]
        struct Revocations {
            revocations: u32,
        }
        let found: Option<Revocations> =
            self.get(&self.tables.rooms, keys::link_revocations(room), Reads::Consistent).await?;
        Ok(found.map_or(0, |found| found.revocations))
    }

    /// Stores a link. Returns false if the stored link of this member and room is not `before` any more.
    pub async fn save_invite_link(
        &self,
        link: &InviteLink,
        before: Option<&InviteLink>,
    ) -> Result<bool, StoreError> {
        let InviteLink { room_id, made_by, expires_at, .. } = link.clone();
        let code_item = CodeItem { room_id, made_by, expires_at };
        self.client
            .put_item()
            .table_name(&self.tables.rooms)
            .set_item(Some(to_item(keys::invite_link_code(&link.code), &code_item)?))
            .call()
            .await
            .map_err(|error| StoreError::from_sdk("PutItem", &error))?;
        let put = self
            .client
            .put_item()
            .table_name(&self.tables.rooms)
            .set_item(Some(to_item(keys::invite_link(link.made_by, &link.room_id), link)?));
        let put = match before {
            // The second condition holds if the SDK retries this write.
            Some(before) => put
                .condition_expression("code = :before OR code = :code")
                .expression_attribute_values(":before", text(before.code.as_str())),
            None => put.condition_expression("attribute_not_exists(pk) OR code = :code"),
        };
        let saved = put.expression_attribute_values(":code", text(link.code.as_str())).call().await;
        condition_held("PutItem", saved)
    }

    /// Revokes the link of a member for a room. Returns whether there was one.
    pub async fn revoke_invite_link(&self, room: &RoomId, user: UserId) -> Result<bool, StoreError> {
        let revoked = self
            .client
            .delete_item()
            .table_name(&self.tables.rooms)
            .set_key(Some(keys::invite_link(user, room).into()))
            .condition_expression("attribute_exists(pk)")
            .call()
            .await;
        condition_held("DeleteItem", revoked)
    }

    /// Revokes all links of a room.
    pub async fn revoke_invite_links(&self, room: &RoomId) -> Result<(), StoreError> {
        self.client
            .update_item()
            .table_name(&self.tables.rooms)
            .set_key(Some(keys::link_revocations(room).into()))
            .update_expression("ADD revocations :one")
            .expression_attribute_values(":one", number(1))
            .call()
            .await
            .map_err(|error| StoreError::from_sdk("UpdateItem", &error))?;
        Ok(())
    }

    /// Reads all links that a user has made, also expired ones.
    pub async fn invite_links_of(&self, user: UserId) -> Result<Vec<InviteLink>, StoreError> {
        let query = self
            .client
            .query()
            .table_name(&self.tables.rooms)
            .key_condition_expression("pk = :user AND begins_with(sk, :link)")
            .expression_attribute_values(":user", text(keys::user_partition(user)))
            .expression_attribute_values(":link", text(keys::INVITE_LINK))
            .consistent_read(true);
        every_item(query).await?.into_iter().map(from_item).collect()
    }

    /// Reads the links of a user that can be used: that have not expired, and whose room did not revoke all links since.
    pub async fn valid_invite_links_of(
        &self,
        user: UserId,
        now: DateTime<Utc>,
    ) -> Result<Vec<InviteLink>, StoreError> {
        #[derive(Deserialize)]
        struct Row {
            pk: String,
            revocations: u32,
        }
        let mut links = self.invite_links_of(user).await?;
        let mut revocations = HashMap::new();
        for links in links.chunks(100) {
            let keys = links.iter().map(|link| keys::link_revocations(&link.room_id).into()).collect();
            for item in self.batch_get(&self.tables.rooms, keys, Reads::Consistent).await? {
                let row: Row = from_item(item)?;
                revocations.insert(row.pk, row.revocations);
            }
        }
        links.retain(|link| {
            let key = keys::link_revocations(&link.room_id);
            link.is_valid(revocations.get(&key.pk).copied().unwrap_or(0), now)
        });
        Ok(links)
    }

    /// Deletes the code items of all links that a user has made. The links themselves are deleted with the partition of the
    /// user, after this, so that another run still finds them if this one fails.
    pub(super) async fn delete_link_codes(&self, user: UserId) -> Result<(), StoreError> {
        for link in self.invite_links_of(user).await? {
            self.delete_item(&self.tables.rooms, keys::invite_link_code(&link.code)).await?;
        }
        Ok(())
    }
}
