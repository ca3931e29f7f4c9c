//! Coins: deductions, the daily coins, the balance and the history.

use serde::Serialize;

use super::{Cursor, Message, NextPage, NoInput, PerPage, Position, SignedIn, endpoint, input};
use crate::domain::coins::{Amount, Entry, EntryKind, ReferenceId, Wallet};
use crate::domain::time::midnight_after;
use crate::domain::{Field, Raw, Reason, Timestamp};

endpoint! {
    /// Deduct coins for a purchase or a wager
    ///
    /// `reference_id` is the idempotency key: a retry with the same values returns the first result with
    /// `Idempotency-Replayed: true` and deducts nothing. Without `reference_id`, the header `Idempotency-Key`
    /// is the idempotency key. If a request has neither, it always deducts coins.
    Deduct: POST "/api/auth/coins/deduct", in "coins", by SignedIn, DeductInput => Message<Deduction>,
        errors [InsufficientBalance, ReferenceReused, ConcurrentChange], idempotent by "Idempotency-Key"
}

endpoint! {
    /// Claim the daily coins
    ///
    /// Once per UTC day. Every further day of a streak adds a bonus, up to a maximum. A missed day ends the
    /// streak.
    ClaimDaily: POST "/api/auth/daily-coins", in "coins", by SignedIn, NoInput => Message<DailyClaim>,
        errors [AlreadyClaimed, ConcurrentChange, RateLimited]
}

endpoint! {
    /// Read the balance, the streak and the history
    ///
    /// The history lists the movements of coins, the newest first.
    Coins: GET "/api/auth/coins", in "coins", by SignedIn, CoinsQuery => CoinsPage
}

input! {
    DeductInput { amount: Amount, reason: ReasonWord, reference_id: Option<ReferenceId> }
}

input! {
    CoinsQuery { per_page: PerPage<50>, cursor: Option<Cursor<BelowEntry>> }
}

/// A word that says why coins are deducted. The allowed words are a setting of the deployment, so the handler
/// checks the word; this type accepts any text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReasonWord(pub String);

impl Field for ReasonWord {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        Ok(Self(raw.text()?.to_owned()))
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        serde_json::json!({
            "type": "string", "examples": ["purchase", "wager", "gift", "other"],
            "description": "One of the words in the deployment's setting `CoinReasons`. The examples are the default.",
        })
    }
}

/// A position in a wallet's history: the sequence number of an entry. The history lists the newest entry first,
/// so the next page has the entries with lower sequence numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BelowEntry(pub u64);

impl Position for BelowEntry {
    const LIST: &'static str = "coins";

    fn encode(&self) -> String {
        self.0.to_string()
    }

    fn decode(text: &str) -> Option<Self> {
        text.parse().ok().map(Self)
    }
}

/// A completed deduction.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Deduction {
    /// The balance before the deduction, in coins.
    pub previous_balance: i64,
    /// How many coins were deducted.
    pub amount_deducted: i64,
    /// The balance after the deduction, in coins.
    pub new_balance: i64,
    /// The id of the deduction in the wallet's history.
    pub transaction_id: String,
}

impl From<Entry> for Deduction {
    fn from(entry: Entry) -> Self {
        Self {
            previous_balance: entry.previous_balance,
            amount_deducted: -entry.amount,
            new_balance: entry.balance,
            transaction_id: entry.transaction_id,
        }
    }
}

/// The claimed daily coins.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct DailyClaim {
    /// How many coins were awarded, the streak bonus included.
    pub coins_awarded: i64,
    /// The balance after the claim, in coins.
    pub new_balance: i64,
    /// When the next daily coins can be claimed: the next midnight UTC.
    pub next_claim_at: Timestamp,
    /// How many days in a row the daily coins were claimed, this day included.
    pub streak_days: u32,
    /// How many of the awarded coins are the bonus for the streak.
    pub streak_bonus: u32,
}

impl From<Entry> for DailyClaim {
    fn from(entry: Entry) -> Self {
        Self {
            coins_awarded: entry.amount,
            new_balance: entry.balance,
            next_claim_at: midnight_after(entry.created_at.date_naive()).into(),
            streak_days: entry.streak_days.unwrap_or_default(),
            streak_bonus: entry.streak_bonus.unwrap_or_default(),
        }
    }
}

/// A page of a wallet's history.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct CoinsPage {
    /// The wallet, with the movements of coins on this page.
    pub data: CoinsView,
    /// How to get the next page.
    pub meta: NextPage,
}

/// A wallet.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct CoinsView {
    /// How many coins the wallet holds.
    pub balance: i64,
    /// How many days in a row the daily coins were claimed; 0 once a day was missed.
    pub streak_days: u32,
    /// The time at which the next daily coins become available. If they are available now, it is the time of this
    /// response.
    pub next_claim_at: Timestamp,
    /// The movements of coins on this page, the newest first.
    pub entries: Vec<EntryView>,
}

impl CoinsView {
    #[must_use]
    pub fn of(wallet: &Wallet, entries: Vec<Entry>, now: chrono::DateTime<chrono::Utc>) -> Self {
        Self {
            balance: wallet.balance,
            streak_days: wallet.streak(now.date_naive()),
            next_claim_at: wallet.next_claim_at(now).into(),
            entries: entries.into_iter().map(EntryView::from).collect(),
        }
    }
}

/// A movement of coins.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct EntryView {
    /// The id of the movement.
    pub transaction_id: String,
    /// The kind of movement: a deduction, the daily coins, or a grant by an operator.
    #[serde(rename = "type")]
    pub kind: EntryKind,
    /// The change of the balance, in coins; negative for a deduction.
    pub amount: i64,
    /// The balance after the movement, in coins.
    pub balance: i64,
    /// The reason of a deduction or grant; `null` for daily coins.
    pub reason: Option<String>,
    /// The `reference_id` of a deduction or grant; `null` for daily coins and for deductions without one.
    pub reference_id: Option<ReferenceId>,
    /// When the coins moved.
    pub created_at: Timestamp,
}

impl From<Entry> for EntryView {
    fn from(entry: Entry) -> Self {
        Self {
            transaction_id: entry.transaction_id,
            kind: entry.kind,
            amount: entry.amount,
            balance: entry.balance,
            reason: entry.reason,
            reference_id: entry.reference_id,
            created_at: entry.created_at.into(),
        }
    }
}
