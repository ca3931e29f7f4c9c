//! The `wallets` table: each user's balance, and a ledger with an entry for every movement of coins.
//!
//! One transaction writes the new balance and the ledger entry. The entry's key contains the idempotency key,
//! so a retried movement is posted at most once. The transaction succeeds only if the balance has not
//! changed since it was read. So of two concurrent movements that read the same balance, only one succeeds.

use aws_sdk_dynamodb::types::{
    Get, Put, ReturnValue, ReturnValuesOnConditionCheckFailure, TransactGetItem, TransactWriteItem, Update,
};
use chrono::{DateTime, NaiveDate, Utc};
use serde::Deserialize;

use super::client::Call as _;
use super::condition::{item_that_failed_condition, item_that_failed_in_transaction, own_transaction_error};
use super::error::StoreError;
use super::item::{Item, Key, from_item, number, text, to_item};
use super::keys;
use super::rate_limit::{self, Shift};
use super::store::{Reads, Store, every_item};
use crate::domain::UserId;
use crate::domain::coins::{Entry, EntryKey, Wallet};
use crate::domain::limit::{self, Limit, Limited};

/// The index of a wallet's ledger entries by sequence number.
const IN_ORDER: &str = "in_order";

/// A movement of coins that is not in the ledger yet.
#[derive(Debug, Clone)]
pub struct Movement {
    pub key: EntryKey,
    pub entry: Entry,
    /// The day and the streak in days, if the movement is a claim of daily coins.
    pub claimed: Option<(NaiveDate, u32)>,
}

/// The result of [`Store::post`].
#[derive(Debug)]
pub enum Posted {
    Applied(Entry),
    /// Nothing was posted, because an earlier request with the same key posted this entry.
    Duplicate(Entry),
    /// Nothing was posted, because the wallet changed since it was read. Holds the current wallet.
    WalletChanged(Wallet),
}

/// An item of the `wallets` table.
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
    /// Reads a user's wallet, strongly consistent. A wallet that was never used is empty.
    pub async fn wallet(&self, user: UserId) -> Result<Wallet, StoreError> {
        let wallet = self.get(&self.tables.wallets, keys::balance(user), Reads::Consistent).await?;
        Ok(wallet.unwrap_or_default())
    }

    /// Reads the ledger entry stored under `key` in a user's wallet, strongly consistent.
    pub async fn entry(&self, user: UserId, key: &EntryKey) -> Result<Option<Entry>, StoreError> {
        self.get(&self.tables.wallets, keys::entry(user, key), Reads::Consistent).await
    }

    /// Reads a user's wallet and the entry stored under `key`, in one transaction.
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
            .call()
            .await
            .map_err(|error| StoreError::from_sdk("TransactGetItems", &error))?;
        let mut items = found.responses.unwrap_or_default().into_iter().map(|response| response.item);
        let wallet = items.next().flatten().map(from_item).transpose()?.unwrap_or_default();
        let entry = items.next().flatten().map(from_item).transpose()?;
        Ok((wallet, entry))
    }

    /// Counts a claim of daily coins against the user's rate limit and returns the wallet, in one write.
    pub async fn admit_claim(
        &self,
        user: UserId,
        limit: Limit,
        request_id: &str,
        now: DateTime<Utc>,
    ) -> Result<Wallet, AdmitError> {
        let limits = [limit];
        let Shift { set, condition, values } =
            rate_limit::admit(&limits, limit::depth(&limits), request_id, now);
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
            .call()
            .await;
        match admitted {
            Ok(done) => Ok(from_item(done.attributes.unwrap_or_default())?),
            Err(error) => {
                let Some(item) = item_that_failed_condition(&error) else {
                    return Err(StoreError::from_sdk("UpdateItem", &error).into());
                };
                let admitted = rate_limit::request_ids(&item);
                // If the item contains our request id, our first write succeeded, its response was lost, and
                // the SDK retried the write.
                if admitted.iter().any(|admitted| admitted == request_id) {
                    return Ok(from_item(item)?);
                }
                Err(Limited { retry_after: limit::retry_after(&admitted, &limits, now) }.into())
            }
        }
    }

    /// Posts a movement to the wallet, if the wallet has not changed since it was read as `from`.
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
            // We set the token, because the SDK's default token comes from a random number generator that is
            // not cryptographically secure.
            .client_request_token(format!("{}-{}", entry.request_id, entry.sequence))
            .transact_items(
                TransactWriteItem::builder().update(balance.update_expression(set).build()?).build(),
            )
            .transact_items(TransactWriteItem::builder().put(put).build())
            .call()
            .await;
        let Err(error) = written else { return Ok(Posted::Applied(entry.clone())) };
        if let Some(item) = item_that_failed_in_transaction(&error, 1) {
            let found: Entry = from_item(item)?;
            // If the entry has our own request id, our first write succeeded, its response was lost, and the
            // SDK retried the write.
            let is_ours = found.request_id == entry.request_id;
            return Ok(if is_ours { Posted::Applied(found) } else { Posted::Duplicate(found) });
        }
        match item_that_failed_in_transaction(&error, 0) {
            Some(item) => Ok(Posted::WalletChanged(from_item(item)?)),
            None => Err(own_transaction_error("wallet", &error)),
        }
    }

    /// Reads up to `limit` ledger entries with sequence numbers below `below`, newest first. Returns the
    /// entries and whether older ones exist. Strongly consistent.
    pub async fn history(
        &self,
        user: UserId,
        below: Option<u64>,
        limit: usize,
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
            .limit(i32::try_from(limit + 1).unwrap_or(i32::MAX));
        let page = query.call().await.map_err(|error| StoreError::from_sdk("Query", &error))?;
        let mut entries =
            page.items.unwrap_or_default().into_iter().map(from_item).collect::<Result<Vec<Entry>, _>>()?;
        let has_more = entries.len() > limit;
        entries.truncate(limit);
        Ok((entries, has_more))
    }

    /// Reads a wallet and all its ledger entries, all as of the same moment. Returns `None` if the wallet
    /// changed during each of five attempts.
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
            // Each movement adds an entry. If the number of entries is the same before and after the reads,
            // no movement was posted meanwhile.
            if self.wallet(user).await?.entries == before.entries {
                return Ok(Some((before, entries)));
            }
        }
        Ok(None)
    }

    /// Reads one page of a parallel scan with `segments` segments. Returns the items, and the key after which
    /// the next page begins: `None` on the last page.
    pub async fn wallet_items(
        &self,
        segment: i32,
        segments: i32,
        from: Option<Key>,
    ) -> Result<(Vec<(Key, UserId, WalletItem)>, Option<Key>), StoreError> {
        #[derive(Deserialize)]
        struct RawKey {
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
            .call()
            .await
            .map_err(|error| StoreError::from_sdk("Scan", &error))?;
        let mut items = Vec::new();
        for item in page.items.unwrap_or_default() {
            // Before the first movement is posted, the balance item holds only the rate limit. Such an item
            // is skipped.
            let is_used = ["balance", "entries", "sequence"].iter().any(|name| item.contains_key(*name));
            let RawKey { pk, sk } = from_item(item.clone())?;
            let user = keys::wallet_owner(&pk).ok_or(StoreError::Unreadable("a wallet's key"))?;
            let read = if sk.starts_with(keys::ENTRY) {
                from_item(item).map(WalletItem::Entry)
            } else if is_used {
                from_item(item).map(WalletItem::Balance)
            } else {
                continue;
            };
            items.push((Key { pk, sk }, user, read.unwrap_or(WalletItem::Unreadable)));
        }
        let next = page.last_evaluated_key.map(from_item::<RawKey>).transpose()?;
        Ok((items, next.map(|RawKey { pk, sk }| Key { pk, sk })))
    }
}
