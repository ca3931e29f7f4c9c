//! The `wallets` table: a balance per user, and every movement of it.
//!
//! Balance and entry are written in one transaction. The entry's key is the idempotency key; the balance is
//! replaced on condition that it is the one that was read. So a movement is made once or not at all,
//! however often it is sent, and no two movements start from the same balance.

use aws_sdk_dynamodb::types::{
    Get, Put, ReturnValue, ReturnValuesOnConditionCheckFailure, TransactGetItem, TransactWriteItem, Update,
};
use chrono::{DateTime, NaiveDate, Utc};
use serde::Deserialize;

use super::keys::{self, Key};
use super::register::{self, Shift};
use super::{
    Item, Reads, Store, StoreError, every_item, from_item, number, refused_item, refused_write, text, to_item,
};
use crate::domain::UserId;
use crate::domain::coins::{Entry, EntryKey, Wallet};
use crate::domain::limit::{self, Limit, Limited};

/// The index of entries in their order: a wallet, and an entry's sequence.
const IN_ORDER: &str = "in_order";

/// A movement to be made.
#[derive(Debug, Clone)]
pub struct Movement {
    pub key: EntryKey,
    pub entry: Entry,
    /// The day and streak of a claim.
    pub claimed: Option<(NaiveDate, u32)>,
}

/// What became of it.
#[derive(Debug)]
pub enum Posted {
    Now(Entry),
    /// Made before, by another request under the same key.
    Before(Entry),
    /// Not made: the wallet is no longer as it was read, but this.
    Changed(Wallet),
}

/// What lies in the table.
#[derive(Debug)]
pub enum WalletItem {
    Balance(Wallet),
    Entry(Entry),
    Unreadable,
}

#[derive(Debug, thiserror::Error)]
pub enum AdmitError {
    #[error(transparent)]
    Limited(#[from] Limited),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Store {
    /// A wallet, with every write that was answered. One that was never used is empty.
    pub async fn wallet(&self, user: UserId) -> Result<Wallet, StoreError> {
        let wallet = self.get(&self.tables.wallets, keys::balance(user), Reads::Consistent).await?;
        Ok(wallet.unwrap_or_default())
    }

    /// The entry under a key.
    pub async fn entry(&self, user: UserId, key: &EntryKey) -> Result<Option<Entry>, StoreError> {
        self.get(&self.tables.wallets, keys::entry(user, key), Reads::Consistent).await
    }

    /// A wallet and the entry under a key, both of one moment.
    pub async fn wallet_and_entry(
        &self,
        user: UserId,
        key: &EntryKey,
    ) -> Result<(Wallet, Option<Entry>), StoreError> {
        let mut reads = Vec::new();
        for key in [keys::balance(user), keys::entry(user, key)] {
            let get = Get::builder().table_name(&self.tables.wallets).set_key(Some(key.into())).build()?;
            reads.push(TransactGetItem::builder().get(get).build());
        }
        let found = self
            .client
            .transact_get_items()
            .set_transact_items(Some(reads))
            .send()
            .await
            .map_err(|error| StoreError::from_sdk("TransactGetItems", &error))?;
        let mut items = found.responses.unwrap_or_default().into_iter().map(|response| response.item);
        let wallet = items.next().flatten().map(from_item).transpose()?.unwrap_or_default();
        let entry = items.next().flatten().map(from_item).transpose()?;
        Ok((wallet, entry))
    }

    /// Notes a call, if the limit allows it, and returns the wallet: one write, and no read beside it.
    pub async fn admit_claim(
        &self,
        user: UserId,
        limit: Limit,
        mark: &str,
        now: DateTime<Utc>,
    ) -> Result<Wallet, AdmitError> {
        let limits = [limit];
        let Shift { set, condition, values } = register::admit(&limits, mark, now);
        let admitted = self
            .client
            .update_item()
            .table_name(&self.tables.wallets)
            .set_key(Some(keys::balance(user).into()))
            .update_expression(format!("SET {set}"))
            .condition_expression(condition)
            .set_expression_attribute_values(Some(values))
            .return_values(ReturnValue::AllNew)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .send()
            .await;
        match admitted {
            Ok(done) => Ok(from_item(done.attributes.unwrap_or_default())?),
            Err(error) => {
                let Some(item) = refused_item(&error) else {
                    return Err(StoreError::from_sdk("UpdateItem", &error).into());
                };
                let marks = register::marks(&item);
                // Our own write, whose answer was lost and which the SDK sent again.
                if marks.iter().any(|noted| noted == mark) {
                    return Ok(from_item(item)?);
                }
                Err(Limited { retry_after: limit::retry_after(&marks, &limits, now) }.into())
            }
        }
    }

    /// Makes a movement from the wallet as it was read, or says why not.
    pub async fn post(&self, from: &Wallet, movement: &Movement) -> Result<Posted, StoreError> {
        let Movement { key, entry, claimed } = movement;
        let mut set = "SET balance = :balance, entries = :entries, user_id = :user".to_owned();
        let mut balance = Update::builder()
            .table_name(&self.tables.wallets)
            .set_key(Some(keys::balance(entry.user_id).into()))
            .expression_attribute_values(":balance", number(entry.balance))
            .expression_attribute_values(":entries", number(entry.sequence))
            .expression_attribute_values(":user", number(entry.user_id))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        balance = if from.entries == 0 {
            balance.condition_expression("attribute_not_exists(entries)")
        } else {
            balance
                .condition_expression("entries = :before AND balance = :held")
                .expression_attribute_values(":before", number(from.entries))
                .expression_attribute_values(":held", number(from.balance))
        };
        if let Some((day, streak)) = claimed {
            set.push_str(", claimed_on = :day, streak_days = :streak");
            balance = balance
                .expression_attribute_values(":day", text(day.to_string()))
                .expression_attribute_values(":streak", number(streak));
        }
        let put = Put::builder()
            .table_name(&self.tables.wallets)
            .set_item(Some(to_item(keys::entry(entry.user_id, key), entry)?))
            .condition_expression("attribute_not_exists(pk)")
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .build()?;
        let written = self
            .client
            .transact_write_items()
            // The SDK would draw one from a source that is not meant for keys.
            .client_request_token(format!("{}-{}", entry.request_id, entry.sequence))
            .transact_items(
                TransactWriteItem::builder().update(balance.update_expression(set).build()?).build(),
            )
            .transact_items(TransactWriteItem::builder().put(put).build())
            .send()
            .await;
        let Err(error) = written else { return Ok(Posted::Now(entry.clone())) };
        if let Some(item) = refused_write(&error, 1) {
            let found: Entry = from_item(item)?;
            // Our own write, whose answer was lost and which the SDK sent again; or somebody else's.
            return Ok(if found.request_id == entry.request_id {
                Posted::Now(found)
            } else {
                Posted::Before(found)
            });
        }
        match refused_write(&error, 0) {
            Some(item) => Ok(Posted::Changed(from_item(item)?)),
            None => Err(StoreError::from_sdk("TransactWriteItems", &error)),
        }
    }

    /// A wallet's entries, newest first, from below a sequence; and whether there are more.
    pub async fn history(
        &self,
        user: UserId,
        below: Option<u64>,
        most: usize,
    ) -> Result<(Vec<Entry>, bool), StoreError> {
        let query = self
            .client
            .query()
            .table_name(&self.tables.wallets)
            .index_name(IN_ORDER)
            .expression_attribute_names("#sequence", "sequence")
            .consistent_read(true)
            .expression_attribute_values(":wallet", text(keys::balance(user).pk))
            .expression_attribute_values(":below", number(below.unwrap_or(u64::from(u32::MAX))))
            .key_condition_expression("pk = :wallet AND #sequence < :below")
            .scan_index_forward(false)
            .limit(i32::try_from(most + 1).unwrap_or(i32::MAX));
        let page = query.send().await.map_err(|error| StoreError::from_sdk("Query", &error))?;
        let mut entries =
            page.items.unwrap_or_default().into_iter().map(from_item).collect::<Result<Vec<Entry>, _>>()?;
        let more = entries.len() > most;
        entries.truncate(most);
        Ok((entries, more))
    }

    /// A wallet with all its entries, as they were at one moment; `None` where they would not stand still.
    pub async fn statement(&self, user: UserId) -> Result<Option<(Wallet, Vec<Entry>)>, StoreError> {
        for _ in 0..5 {
            let before = self.wallet(user).await?;
            let query = self
                .client
                .query()
                .table_name(&self.tables.wallets)
                .key_condition_expression("pk = :wallet AND begins_with(sk, :entry)")
                .expression_attribute_values(":wallet", text(keys::balance(user).pk))
                .expression_attribute_values(":entry", text(keys::ENTRY))
                .consistent_read(true);
            let found = every_item(query).await?;
            let entries = found.into_iter().map(from_item).collect::<Result<Vec<Entry>, _>>()?;
            // Entries grow with each movement: the same number before and after means that none was made.
            if self.wallet(user).await?.entries == before.entries {
                return Ok(Some((before, entries)));
            }
        }
        Ok(None)
    }

    /// Some items of one of `segments` parts of the table, in order, and where to go on.
    pub async fn wallet_items(
        &self,
        segment: i32,
        segments: i32,
        from: Option<Key>,
    ) -> Result<(Vec<(Key, UserId, WalletItem)>, Option<Key>), StoreError> {
        #[derive(Deserialize)]
        struct Place {
            pk: String,
            sk: String,
        }
        let page = self
            .client
            .scan()
            .table_name(&self.tables.wallets)
            .segment(segment)
            .total_segments(segments)
            .set_exclusive_start_key(from.map(Item::from))
            .send()
            .await
            .map_err(|error| StoreError::from_sdk("Scan", &error))?;
        let mut items = Vec::new();
        for item in page.items.unwrap_or_default() {
            // One that has only been asked for a bonus, and got none, holds nothing.
            let holds = ["balance", "entries", "sequence"].iter().any(|name| item.contains_key(*name));
            let Place { pk, sk } = from_item(item.clone())?;
            let user = keys::wallet_owner(&pk).ok_or(StoreError::Unreadable("a wallet's key"))?;
            let read = if sk.starts_with(keys::ENTRY) {
                from_item(item).map(WalletItem::Entry)
            } else if holds {
                from_item(item).map(WalletItem::Balance)
            } else {
                continue;
            };
            items.push((Key { pk, sk }, user, read.unwrap_or(WalletItem::Unreadable)));
        }
        let next = page.last_evaluated_key.map(from_item::<Place>).transpose()?;
        Ok((items, next.map(|Place { pk, sk }| Key { pk, sk })))
    }
}
