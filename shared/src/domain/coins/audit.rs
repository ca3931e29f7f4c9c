//! Audits a wallet: finds inconsistencies between the wallet and its entries.

use serde::Serialize;

use super::{Entry, Wallet};

/// An inconsistency between a wallet and its entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum Fault {
    #[error("the entries add up to {sum}, but the balance is {balance}")]
    Sum { sum: i64, balance: i64 },
    #[error("entry {expected} is missing, or the entry before it is duplicated")]
    Sequence { expected: u64 },
    #[error("the wallet counts {counted} entries, but {found} exist")]
    Count { counted: u64, found: u64 },
    #[error("the balance after entry {sequence} is negative: {balance}")]
    Negative { sequence: u64, balance: i64 },
    #[error("the balances of entry {sequence} contradict its amount or the previous entry")]
    Chain { sequence: u64 },
    #[error("an item of the wallet is unreadable")]
    Unreadable,
    #[error("the wallet changed too often to be audited")]
    Moving,
}

/// Checks a wallet against all of its entries, which can be in any order.
#[must_use]
pub fn audit(wallet: &Wallet, entries: &mut [Entry]) -> Vec<Fault> {
    entries.sort_by_key(|entry| entry.sequence);
    let mut faults = Vec::new();
    let mut previous_balance = 0;
    for (entry, expected) in entries.iter().zip(1..) {
        if entry.sequence != expected {
            faults.push(Fault::Sequence { expected });
            break;
        }
        if entry.previous_balance != previous_balance
            || entry.previous_balance + entry.amount != entry.balance
        {
            faults.push(Fault::Chain { sequence: entry.sequence });
        }
        if entry.balance < 0 {
            faults.push(Fault::Negative { sequence: entry.sequence, balance: entry.balance });
        }
        previous_balance = entry.balance;
    }
    let sum = entries.iter().map(|entry| entry.amount).sum();
    let found = entries.len() as u64;
    if wallet.entries != found {
        faults.push(Fault::Count { counted: wallet.entries, found });
    }
    if sum != wallet.balance {
        faults.push(Fault::Sum { sum, balance: wallet.balance });
    }
    if wallet.balance < 0 && faults.is_empty() {
        faults.push(Fault::Negative { sequence: found, balance: wallet.balance });
    }
    faults
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use proptest::prelude::*;

    use super::super::EntryKind;
    use super::*;
    use crate::domain::UserId;

    proptest! {
        #[test]
        fn the_audit_finds_lost_duplicated_and_changed_entries(
            amounts in proptest::collection::vec(1..1_000_i64, 2..12),
            at in any::<prop::sample::Index>(),
        ) {
            let mut wallet = Wallet::default();
            let mut entries = Vec::new();
            for amount in amounts {
                let amount = if amount % 3 == 0 && wallet.balance >= amount { -amount } else { amount };
                wallet.entries += 1;
                entries.push(Entry {
                    transaction_id: String::new(), user_id: UserId(7), sequence: wallet.entries,
                    kind: EntryKind::Grant, amount, previous_balance: wallet.balance,
                    balance: wallet.balance + amount, reason: None, reference_id: None, streak_days: None,
                    streak_bonus: None, created_at: DateTime::UNIX_EPOCH, request_id: String::new(),
                });
                wallet.balance += amount;
            }
            prop_assert_eq!(audit(&wallet, &mut entries.clone()), vec![]);
            let at = at.index(entries.len());
            let mut lost = entries.clone();
            lost.remove(at);
            prop_assert!(!audit(&wallet, &mut lost).is_empty());
            let mut doubled = entries.clone();
            doubled.push(entries[at].clone());
            prop_assert!(!audit(&wallet, &mut doubled).is_empty());
            let mut changed = entries.clone();
            changed[at].amount += 1;
            prop_assert!(!audit(&wallet, &mut changed).is_empty());
            let overdrawn = Wallet { balance: -1, ..Wallet::default() };
            prop_assert!(!audit(&overdrawn, &mut []).is_empty());
        }
    }
}
