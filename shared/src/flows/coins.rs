//! Coin movements: read the wallet, decide, write. A concurrent change starts over.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::domain::UserId;
use crate::domain::coins::{Amount, Claim, CoinError, Entry, EntryKey, EntryKind, ReferenceId, Wallet};
use crate::domain::limit;
use crate::storage::wallets::{Movement, Posted};
use crate::storage::{Retry, StoreError};
use crate::{App, Error};

/// An entry, and whether an earlier request wrote it.
#[derive(Debug)]
pub struct Receipt {
    pub entry: Entry,
    pub is_replay: bool,
}

/// How many times a movement starts over after a concurrent change. With the waits between, that takes about
/// five seconds: enough for two hundred concurrent requests, and no phone sends that many.
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
            // Perhaps an earlier try of this movement emptied the wallet. A transactional read gets both items
            // at one moment, because plain reads can see one half of a transaction before the other.
            Err(Error::Coins(CoinError::Insufficient { .. })) if !matches!(key, EntryKey::Alone(_)) => {
                let (held, entry) = app.store.wallet_and_entry(user, &key).await?;
                if let Some(entry) = entry {
                    break Receipt { entry, is_replay: true };
                }
                wallet = held;
                decide(&wallet)?;
            }
            moved => break moved?,
        }
    };
    let same =
        receipt.entry.amount == -i64::from(amount.coins()) && receipt.entry.reason.as_deref() == Some(reason);
    let by_header = matches!(key, EntryKey::Header(_));
    if same { Ok(receipt) } else { Err(CoinError::ReferenceReused { by_header }.into()) }
}

/// Adds coins to a wallet, once per reference.
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
    let same = receipt.entry.amount == coins && receipt.entry.reason.as_deref() == Some(reason);
    if same { Ok(receipt) } else { Err(CoinError::ReferenceReused { by_header: false }.into()) }
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
        return Err(Wallet { claimed_on: Some(today), ..Wallet::default() }
            .claim(settings.daily, today)
            .map_or_else(Error::from, |_| {
                Error::Broken("the day has an entry, but the wallet can still claim it")
            }));
    }
    Ok(receipt.entry)
}

/// What a movement does to the current wallet.
struct Decision {
    coins: i64,
    claim: Option<Claim>,
}

impl Decision {
    fn coins(coins: i64) -> Self {
        Self { coins, claim: None }
    }
}

/// One request's attempt at a movement.
struct Request {
    user: UserId,
    kind: EntryKind,
    reason: Option<String>,
    now: DateTime<Utc>,
    /// Stored in the entry. A retry recognises its own entry by it.
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

    async fn post(
        &self,
        app: &App,
        key: &EntryKey,
        mut wallet: Wallet,
        decide: impl Fn(&Wallet) -> Result<Decision, CoinError>,
    ) -> Result<Receipt, Error> {
        let mut retry = Retry::immediate("wallet", ATTEMPTS);
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
                        EntryKey::Header(_) | EntryKey::Alone(_) | EntryKey::Day(_) => None,
                    },
                    streak_days: claim.map(|claim| claim.streak_days),
                    streak_bonus: claim.map(|claim| claim.bonus),
                    created_at: self.now,
                    request_id: self.id.clone(),
                },
            };
            let posted = match app.store.post(&wallet, &movement).await {
                // Perhaps the write succeeded and only its response was lost. Without this check the caller would
                // get 503 and retry, and a movement without a reference would happen twice.
                Err(error @ StoreError::Busy { .. }) => match app.store.entry(self.user, key).await {
                    Ok(Some(entry)) if entry.request_id == self.id => Posted::Applied(entry),
                    _ => return Err(error.into()),
                },
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
