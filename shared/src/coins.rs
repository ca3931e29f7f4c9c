//! Moving coins: read the wallet, decide, write; and again where somebody else was quicker.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::App;
use crate::domain::UserId;
use crate::domain::coins::{Amount, Claim, CoinError, Entry, EntryKey, EntryKind, ReferenceId, Wallet};
use crate::domain::limit;
use crate::http::Error;
use crate::storage::wallets::{Movement, Posted};
use crate::storage::{Retry, StoreError};

/// An entry, and whether it was made by an earlier request.
#[derive(Debug)]
pub struct Receipt {
    pub entry: Entry,
    pub is_replay: bool,
}

/// How often a movement starts over from the wallet as it is by then. With the waits between, that is about
/// five seconds: time for two hundred at once, and no phone sends that many.
const ATTEMPTS: u32 = 16;

/// Takes coins out of a wallet, once for each key.
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
            // It may have been this very movement, made before, that emptied the wallet. Both are read at
            // one moment: a transaction's halves can be seen one after the other.
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

/// Adds coins to a wallet, once for each reference.
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

/// Claims the bonus of the day.
pub async fn claim(app: &App, user: UserId) -> Result<Entry, Error> {
    let request = Request::new(app, user, EntryKind::Daily, None);
    let settings = &app.config.coins;
    let wallet = app.store.admit_claim(user, settings.claims, &request.mark, request.now).await?;
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
            .map_or_else(Error::from, |_| Error::Broken("a bonus that was claimed and was not")));
    }
    Ok(receipt.entry)
}

/// What a movement does to the wallet as it stands.
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
    /// By this it knows its own entry again.
    mark: String,
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
            mark: limit::mark(now, app.random.number()),
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
                    mark: self.mark.clone(),
                },
            };
            let posted = match app.store.post(&wallet, &movement).await {
                // It may be done all the same, and only the answers lost. Whoever hears 503 asks again; for
                // what has no reference, that would be another movement.
                Err(error @ StoreError::Busy { .. }) => match app.store.entry(self.user, key).await {
                    Ok(Some(entry)) if entry.mark == self.mark => Posted::Now(entry),
                    _ => return Err(error.into()),
                },
                posted => posted?,
            };
            match posted {
                Posted::Now(entry) => return Ok(Receipt { entry, is_replay: false }),
                Posted::Before(entry) => return Ok(Receipt { entry, is_replay: true }),
                Posted::Changed(now) => wallet = now,
            }
            // A wait of any length up to one that grows, so that those who met once do not meet again.
            let longest = 8_u32 << retry.failed().min(7);
            retry.again_after(Duration::from_millis(u64::from(app.random.below(longest)))).await?;
        }
    }
}
