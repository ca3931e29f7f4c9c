use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use touchline::domain::UserId;
use touchline::domain::coins::{Amount, CoinError, Entry, EntryKey, EntryKind, ReferenceId};
use touchline::domain::limit;
use touchline::flows::coins::{self, Receipt};
use touchline::{App, Error};
use touchline_testing::TestClock;

use crate::dice::Dice;

/// A movement of coins that a client wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    Deduct { reference: u32, amount: u32 },
    DeductWithoutReference { amount: u32 },
    Claim { at: DateTime<Utc> },
    Grant { reference: u32, amount: u32 },
}

/// The result of an order, as far as the client knows it.
#[derive(Debug)]
pub enum Outcome {
    Moved {
        entry: Entry,
        is_replay: bool,
    },
    /// A rule about coins rejected the order, and no coins moved.
    Rejected(CoinError),
    /// The process crashed, or responded that the store was busy. The coins may have moved or not.
    Unknown,
}

impl Order {
    /// Draws a few orders that compete for the same balance, reference ids and days.
    pub fn draw(dice: &Dice) -> Vec<Self> {
        let midnight: DateTime<Utc> = "2028-02-29T00:00:00Z".parse().expect("the date is valid");
        let amounts = [1 + dice.below(20), 1 + dice.below(20)];
        (0..2 + dice.below(4))
            .map(|_| match dice.below(8) {
                0..=2 => {
                    let reference = dice.below(2);
                    // Sometimes an order reuses a reference id with a different amount.
                    let difference = u32::from(dice.once_in(8));
                    Self::Deduct { reference, amount: amounts[reference as usize] + difference }
                }
                3 => Self::DeductWithoutReference { amount: 1 + dice.below(10) },
                4 => Self::Grant { reference: dice.below(2), amount: amounts[0] },
                // Claims happen within 3 ms of midnight. Each claim has its own clock, so a claim that runs later
                // can have an earlier time.
                _ => {
                    let at = midnight + TimeDelta::days(i64::from(dice.below(3)))
                        - TimeDelta::milliseconds(3)
                        + TimeDelta::milliseconds(i64::from(dice.below(6)));
                    Self::Claim { at }
                }
            })
            .collect()
    }

    /// Executes the order once, as a Lambda function does.
    pub async fn execute(&self, app: &App, user: UserId) -> Outcome {
        let amount = |coins: u32| Amount::new(i64::from(coins)).expect("the amount is valid");
        let reference =
            |number: u32| ReferenceId::parse(&format!("r{number}")).expect("the reference is valid");
        let result = match self {
            Self::Deduct { reference: number, amount: coins } => {
                let key = EntryKey::Reference(reference(*number));
                coins::deduct(app, user, amount(*coins), "purchase", key).await
            }
            Self::DeductWithoutReference { amount: coins } => {
                let key = EntryKey::Generated(limit::request_id(app.clock.now(), app.random.number()));
                coins::deduct(app, user, amount(*coins), "purchase", key).await
            }
            Self::Grant { reference: number, amount: coins } => {
                coins::grant(app, user, amount(*coins), "promotion", reference(*number)).await
            }
            Self::Claim { at } => {
                let app = App { clock: Arc::new(TestClock::at(*at)), ..app.clone() };
                coins::claim(&app, user).await.map(|entry| Receipt { entry, is_replay: false })
            }
        };
        match result {
            Ok(Receipt { entry, is_replay }) => Outcome::Moved { entry, is_replay },
            Err(Error::Coins(error)) => Outcome::Rejected(error),
            Err(_) => Outcome::Unknown,
        }
    }

    /// Returns whether the entry is the movement that was ordered.
    pub fn matches(&self, entry: &Entry) -> bool {
        match self {
            Self::Deduct { amount, .. } => self.shares_key_with(entry) && entry.amount == -i64::from(*amount),
            Self::Grant { amount, .. } => self.shares_key_with(entry) && entry.amount == i64::from(*amount),
            Self::DeductWithoutReference { amount } => {
                entry.kind == EntryKind::Deduct
                    && entry.reference_id.is_none()
                    && entry.amount == -i64::from(*amount)
            }
            Self::Claim { at } => {
                entry.kind == EntryKind::Daily && entry.created_at.date_naive() == at.date_naive()
            }
        }
    }

    /// Returns whether the entry has the kind and the reference id of this order.
    pub fn shares_key_with(&self, entry: &Entry) -> bool {
        let (kind, number) = match self {
            Self::Deduct { reference, .. } => (EntryKind::Deduct, reference),
            Self::Grant { reference, .. } => (EntryKind::Grant, reference),
            Self::DeductWithoutReference { .. } | Self::Claim { .. } => return false,
        };
        entry.kind == kind
            && entry.reference_id.as_ref().is_some_and(|id| id.as_str() == format!("r{number}"))
    }
}
