//! The deletion of accounts.
//!
//! One transaction deletes the profile, frees the phone and stores the remaining deletions as work for the function
//! `erasure`. It repeats all of the work until it succeeds, so the steps can run in any order, and no progress is stored.
//!
//! Predictions, the ledger and the rooms that the user created stay. They refer to the user only by id.

use aws_sdk_dynamodb::types::{Delete, TransactWriteItem, Update};
use chrono::{DateTime, Utc};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};

use super::super::client::Call as _;
use super::codes::{ReserveError, SPENDABLE, StoredCode, USER_CODE};
use super::names;
use crate::domain::cleanup::Work;
use crate::domain::code::{PhoneDigest, WrongCode};
use crate::domain::time::midnight_after;
use crate::domain::{MAX_CLOCK_DIFFERENCE, Phone, Purpose, User, UserId, Username};
use crate::storage::condition::{condition_held, item_that_failed_in_transaction};
use crate::storage::error::StoreError;
use crate::storage::item::{from_item, number, text};
use crate::storage::keys::{self, Key};
use crate::storage::store::{Store, every_item};

/// The code that confirms a deletion.
#[derive(Debug, Clone, Copy)]
pub enum DeletionCode<'a> {
    /// The code that a logged-in user requested for the deletion.
    Own(&'a StoredCode),
    /// A login code that this request has already spent.
    Login,
    /// No code: an operator deletes the account, also if the user is suspended.
    Operator,
}

/// The deletion of an account.
#[derive(Debug)]
pub struct DeleteAccount<'a> {
    pub user: &'a User,
    pub code: DeletionCode<'a>,
    pub nonce: &'a str,
}

/// What to delete after an account was deleted.
#[derive(Debug, Clone, Copy)]
pub struct Erasure<'a> {
    pub user: UserId,
    pub usernames: &'a [Username],
    pub phone: &'a Phone,
    /// The phone whose owner could undo a change. It can belong to somebody else by now.
    pub previous_phone: Option<&'a Phone>,
    /// When the account was deleted. The phone may belong to a new account since then.
    pub since: DateTime<Utc>,
}

/// How many accounts of one phone can be deleted in a UTC day.
const DELETIONS_PER_DAY: u32 = 3;

/// The number of concurrent writes.
const CONCURRENT_WRITES: usize = 10;

impl Store {
    /// Spends the code, deletes the profile, frees the phone and stores the remaining deletions as work for `erasure`, in one
    /// transaction.
    pub async fn delete_account(
        &self,
        deletion: &DeleteAccount<'_>,
        now: DateTime<Utc>,
    ) -> Result<(), ReserveError> {
        let writes = self.deletion_writes(deletion, now)?;
        let deleted = self.client.transact_write_items().set_transact_items(Some(writes)).call().await;
        let Err(error) = deleted else { return Ok(()) };
        if item_that_failed_in_transaction(&error, 0).is_some() {
            return Err(WrongCode.into());
        }
        // Any other failed condition means that the profile changed since it was read. `from_sdk` classifies the error as
        // retryable.
        Err(StoreError::from_sdk("TransactWriteItems", &error).into())
    }

    /// Counts the deletion of an account of this phone. Returns false if as many were deleted today as one day allows. A
    /// deletion also deletes the register of the phone's codes, so without this limit, an attacker could request any number of
    /// codes for one phone.
    pub async fn count_deletion(&self, phone: &PhoneDigest, now: DateTime<Utc>) -> Result<bool, StoreError> {
        let day = now.date_naive();
        let counted = self
            .client
            .update_item()
            .table_name(&self.tables.users)
            .set_key(Some(keys::deletions_of_phone(phone, day).into()))
            .update_expression("ADD deletions :one SET expires_at = :expires")
            .condition_expression("attribute_not_exists(deletions) OR deletions < :most")
            .expression_attribute_values(":one", number(1))
            .expression_attribute_values(":most", number(DELETIONS_PER_DAY))
            .expression_attribute_values(":expires", number(midnight_after(day).timestamp()))
            .call()
            .await;
        condition_held("UpdateItem", counted)
    }

    fn deletion_writes(
        &self,
        DeleteAccount { user, code, nonce }: &DeleteAccount<'_>,
        now: DateTime<Utc>,
    ) -> Result<Vec<TransactWriteItem>, StoreError> {
        let users = &self.tables.users;
        let codes = Delete::builder().table_name(users).set_key(Some(keys::phone_codes(&user.phone).into()));
        let spend = match code {
            DeletionCode::Own(code) => {
                // `erasure` deletes the item.
                let spend_code = Update::builder()
                    .table_name(users)
                    .set_key(Some(keys::deletion(user.id).into()))
                    .update_expression("SET #code.used_by = :nonce")
                    .condition_expression(SPENDABLE)
                    .expression_attribute_names("#code", USER_CODE)
                    .expression_attribute_values(":issue", text(&code.issue))
                    .expression_attribute_values(":nonce", text(*nonce))
                    .build()?;
                vec![
                    TransactWriteItem::builder().update(spend_code).build(),
                    TransactWriteItem::builder().delete(codes.build()?).build(),
                ]
            }
            DeletionCode::Login => {
                let spent = codes
                    .condition_expression("#code.used_by = :nonce")
                    .expression_attribute_names("#code", Purpose::Login.as_str())
                    .expression_attribute_values(":nonce", text(*nonce))
                    .build()?;
                vec![TransactWriteItem::builder().delete(spent).build()]
            }
            DeletionCode::Operator => vec![TransactWriteItem::builder().delete(codes.build()?).build()],
        };
        // A suspended user must not come back with a new account.
        let unless_suspended = match code {
            DeletionCode::Own(_) | DeletionCode::Login => " AND attribute_not_exists(suspended_at)",
            DeletionCode::Operator => "",
        };
        let profile = Delete::builder()
            .table_name(users)
            .set_key(Some(keys::profile(user.id).into()))
            .condition_expression(format!("phone = :phone AND username = :name{unless_suspended}"))
            .expression_attribute_values(":phone", text(user.phone.as_str()))
            .expression_attribute_values(":name", text(user.username.as_str()))
            .build()?;
        let owner = Delete::builder()
            .table_name(users)
            .set_key(Some(keys::phone_owner(&user.phone).into()))
            .condition_expression("user_id = :user")
            .expression_attribute_values(":user", number(user.id))
            .build()?;
        let usernames: Vec<Username> =
            [&user.username].into_iter().chain(&user.former_usernames).cloned().collect();
        let erase = Work::EraseUser {
            user: user.id,
            usernames: usernames.clone(),
            phone: user.phone.clone(),
            previous_phone: user.recovery.as_ref().map(|recovery| recovery.phone.clone()),
        };
        let erase_chat = Work::EraseChat { user: user.id, usernames };
        let mut writes = spend;
        writes.extend([
            TransactWriteItem::builder().delete(profile).build(),
            TransactWriteItem::builder().delete(owner).build(),
            self.cleanup_write(&erase, now)?,
            self.cleanup_write(&erase_chat, now)?,
        ]);
        Ok(writes)
    }

    /// Deletes everything that is stored about a user whose account was deleted, except predictions, the ledger, the rooms
    /// that the user created, the reservations of usernames and the audit. Reports stay, without their text. The user leaves the
    /// boards.
    pub async fn erase_user(&self, erasure: &Erasure<'_>) -> Result<(), StoreError> {
        let Erasure { user, usernames, phone, previous_phone, since } = *erasure;
        for name in usernames {
            self.delete_item(&self.tables.users, keys::searched_username(name)).await?;
            self.forget_username(user, name).await?;
        }
        if let Some(phone) = previous_phone {
            self.forget_recovery(user, phone).await?;
        }
        self.erase_partition(&self.tables.users, &keys::user_partition(user)).await?;
        self.delete_link_codes(user).await?;
        self.erase_partition(&self.tables.rooms, &keys::user_partition(user)).await?;
        self.erase_partition(&self.tables.rooms, &keys::room_creations(user)).await?;
        self.delete_memberships(user).await?;
        self.sync_ranked(user).await?;
        for cleanup in self.cleanups().await? {
            if cleanup.work.ends_with_account(user) {
                self.finish_cleanup(&cleanup).await?;
            }
        }
        // Last, because it reads the log of all phones in the same shards.
        self.delete_sms_logs(phone, since + MAX_CLOCK_DIFFERENCE).await
    }

    /// Removes the user from the items that reserve a username. The username stays reserved.
    async fn forget_username(&self, user: UserId, name: &Username) -> Result<(), StoreError> {
        for key in names::keys_of(name) {
            let forgotten = self
                .client
                .update_item()
                .table_name(&self.tables.users)
                .set_key(Some(key.into()))
                .update_expression("REMOVE user_id, held_by")
                .condition_expression("user_id = :user OR held_by = :user")
                .expression_attribute_values(":user", number(user))
                .call()
                .await;
            condition_held("UpdateItem", forgotten)?;
        }
        Ok(())
    }

    /// Deletes the item with which the owner of a phone could take the account back.
    async fn forget_recovery(&self, user: UserId, phone: &Phone) -> Result<(), StoreError> {
        let forgotten = self
            .client
            .delete_item()
            .table_name(&self.tables.users)
            .set_key(Some(keys::phone_recovery(phone).into()))
            .condition_expression("user_id = :user")
            .expression_attribute_values(":user", number(user))
            .call()
            .await;
        condition_held("DeleteItem", forgotten).map(|_| ())
    }

    /// Deletes all items of a partition, except reports. Of a report, only the text is deleted: moderators still need to know
    /// what was reported.
    async fn erase_partition(&self, table: &str, partition: &str) -> Result<(), StoreError> {
        let query = self
            .client
            .query()
            .table_name(table)
            .key_condition_expression("pk = :partition")
            .expression_attribute_values(":partition", text(partition))
            .projection_expression("pk, sk")
            .consistent_read(true);
        let found = every_item(query).await?;
        let keys = found.into_iter().map(from_item).collect::<Result<Vec<Key>, _>>()?;
        let erase = keys.into_iter().map(|key| async move {
            if key.sk.starts_with(keys::REPORT) {
                self.delete_report_text(key).await
            } else {
                self.delete_item(table, key).await
            }
        });
        stream::iter(erase.collect::<Vec<_>>()).buffer_unordered(CONCURRENT_WRITES).try_collect().await
    }

    async fn delete_report_text(&self, report: Key) -> Result<(), StoreError> {
        let deleted = self
            .client
            .update_item()
            .table_name(&self.tables.users)
            .set_key(Some(report.into()))
            .update_expression("REMOVE #text")
            .condition_expression("attribute_exists(pk)")
            .expression_attribute_names("#text", "text")
            .call()
            .await;
        condition_held("UpdateItem", deleted).map(|_| ())
    }

    /// Deletes all memberships of a user. `tally` then subtracts them from the counts of the rooms.
    async fn delete_memberships(&self, user: UserId) -> Result<(), StoreError> {
        let memberships = self.memberships(user, usize::MAX).await?;
        let deletions: Vec<_> =
            memberships.iter().map(|row| self.delete_item(&self.tables.rooms, row.key())).collect();
        stream::iter(deletions).buffer_unordered(CONCURRENT_WRITES).try_collect().await
    }
}
