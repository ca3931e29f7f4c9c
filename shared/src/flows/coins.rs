//! Moves coins: reads the wallet, decides on the movement and writes it. If another request changed the
//! wallet in the meantime, the flow starts over.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::domain::UserId;
use crate::domain::coins::{Amount, Claim, CoinError, Entry, EntryKey, EntryKind, ReferenceId, Wallet};
use crate::domain::limit;
use crate::domain::time::midnight_after;
use crate::storage::wallets::{Movement, Posted};
use crate::storage::{Retry, StoreError};
use crate::{App, Error};

/// An entry of a wallet's history, and whether an earlier request wrote it.
#[derive(Debug)]
pub struct Receipt {
    pub entry: Entry,
    pub is_replay: bool,
}

/// How many times a request tries to write its movement while other requests change the wallet. The attempts
/// and the waits between them take about five seconds in total. That is enough for 200 concurrent requests of
/// one user.
const ATTEMPTS: u32 = 16;

/// Deducts coins from a wallet, once per key.
pub async fn deduct(
    app: &App,
    user: UserId,
    amount: Amount,
    reason: &str,
    key: EntryKey,
) -> Result<Receipt, Error> {
    let request = Request::new(app, user, EntryKind::Deduct, Some(reason));
    let decide = |wallet: &Wallet| wallet.deduct(amount).map(|_| Decision::coins(-i64::from(amount.coins())));
    let mut wallet = app.store.wallet(user).await?;
    let receipt = loop {
        match request.post(app, &key, wallet, decide).await {
            // The balance can be too low because an earlier request with the same key has deducted the coins.
            // Then the entry exists, and this request is a replay. Look for the entry with a transactional
            // read, which reads the wallet and the entry at the same moment.
            Err(Error::Coins(CoinError::Insufficient { .. })) if !matches!(key, EntryKey::Generated(_)) => {
                let (current, entry) = app.store.wallet_and_entry(user, &key).await?;
                if let Some(entry) = entry {
                    break Receipt { entry, is_replay: true };
                }
                wallet = current;
                decide(&wallet)?;
            }
            posted => break posted?,
        }
    };
    let is_same =
        receipt.entry.amount == -i64::from(amount.coins()) && receipt.entry.reason.as_deref() == Some(reason);
    let by_header = matches!(key, EntryKey::Header(_));
    if is_same { Ok(receipt) } else { Err(CoinError::ReferenceReused { by_header }.into()) }
}

/// Adds coins to a wallet, once per reference id.
pub async fn grant(
    app: &App,
    user: UserId,
    amount: Amount,
    reason: &str,
    reference: ReferenceId,
) -> Result<Receipt, Error> {
    let key = EntryKey::Grant(reference);
    let request = Request::new(app, user, EntryKind::Grant, Some(reason));
    let coins = i64::from(amount.coins());
    let receipt =
        request.post(app, &key, app.store.wallet(user).await?, |_| Ok(Decision::coins(coins))).await?;
    let is_same = receipt.entry.amount == coins && receipt.entry.reason.as_deref() == Some(reason);
    if is_same { Ok(receipt) } else { Err(CoinError::ReferenceReused { by_header: false }.into()) }
}

/// Claims the daily coins.
pub async fn claim(app: &App, user: UserId) -> Result<Entry, Error> {
    let request = Request::new(app, user, EntryKind::Daily, None);
    let settings = &app.config.coins;
    let wallet = app.store.admit_claim(user, settings.claims, &request.id, request.now).await?;
    let today = request.now.date_naive();
    let receipt = request
        .post(app, &EntryKey::Day(today), wallet, |wallet| {
            wallet
                .claim(settings.daily, today)
                .map(|claim| Decision { coins: i64::from(claim.coins), claim: Some(claim) })
        })
        .await?;
    if receipt.is_replay {
        return Err(CoinError::AlreadyClaimed { next_claim_at: midnight_after(today) }.into());
    }
    Ok(receipt.entry)
}

/// The effect of a movement on the current wallet.
struct Decision {
    /// The change of the balance; negative for a deduction.
    coins: i64,
    claim: Option<Claim>,
}

impl Decision {
    fn coins(coins: i64) -> Self {
        Self { coins, claim: None }
    }
}

/// A request to move coins.
struct Request {
    user: UserId,
    kind: EntryKind,
    reason: Option<String>,
    now: DateTime<Utc>,
    /// The id of this request, which the entry stores. If the response to a write is lost, the request finds
    /// out by this id whether it wrote the entry.
    id: String,
    transaction_id: String,
}

impl Request {
    fn new(app: &App, user: UserId, kind: EntryKind, reason: Option<&str>) -> Self {
        let now = app.clock.now();
        Self {
            user,
            kind,
            reason: reason.map(str::to_owned),
            now,
            id: limit::request_id(now, app.random.number()),
            transaction_id: format!("tx_{}", app.random.word(20)),
        }
    }

    /// Writes the movement that `decide` chooses. Decides again if another request changed the wallet.
    async fn post(
        &self,
        app: &App,
        key: &EntryKey,
        mut wallet: Wallet,
        decide: impl Fn(&Wallet) -> Result<Decision, CoinError>,
    ) -> Result<Receipt, Error> {
        let mut retry = Retry::immediate("wallet", ATTEMPTS).of_own_item();
        loop {
            let Decision { coins, claim } = decide(&wallet)?;
            let movement = Movement {
                key: key.clone(),
                claimed: claim.map(|claim| (self.now.date_naive(), claim.streak_days)),
                entry: Entry {
                    transaction_id: self.transaction_id.clone(),
                    user_id: self.user,
                    sequence: wallet.entries + 1,
                    kind: self.kind,
                    amount: coins,
                    previous_balance: wallet.balance,
                    balance: wallet.balance + coins,
                    reason: self.reason.clone(),
                    reference_id: match key {
                        EntryKey::Reference(id) | EntryKey::Grant(id) => Some(id.clone()),
                        EntryKey::Header(_) | EntryKey::Generated(_) | EntryKey::Day(_) => None,
                    },
                    streak_days: claim.map(|claim| claim.streak_days),
                    streak_bonus: claim.map(|claim| claim.bonus),
                    created_at: self.now,
                    request_id: self.id.clone(),
                },
            };
            let posted = match app.store.post(&wallet, &movement).await {
                // The write may have succeeded although its response was lost. Without this check, the caller
                // would get 503 and retry, and a movement without an idempotency key would happen twice.
                Err(error @ (StoreError::Busy { .. } | StoreError::Overtaken { .. })) => {
                    match app.store.entry(self.user, key).await {
                        Ok(Some(entry)) if entry.request_id == self.id => Posted::Applied(entry),
                        _ => return Err(error.into()),
                    }
                }
                posted => posted?,
            };
            match posted {
                Posted::Applied(entry) => return Ok(Receipt { entry, is_replay: false }),
                Posted::Duplicate(entry) => return Ok(Receipt { entry, is_replay: true }),
                Posted::WalletChanged(now) => wallet = now,
            }
            // Exponential backoff with full jitter, so that concurrent requests spread out.
            let longest = 8_u32 << retry.failed().min(7);
            retry.again_after(Duration::from_millis(u64::from(app.random.below(longest)))).await?;
        }
    }
}
