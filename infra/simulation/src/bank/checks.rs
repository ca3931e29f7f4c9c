use std::collections::BTreeSet;

use chrono::NaiveDate;
use touchline::domain::UserId;
use touchline::domain::coins::{CoinError, Entry, EntryKind, audit};
use touchline::storage::Store;

use super::order::{Order, Outcome};

/// The outcomes of a schedule.
#[derive(Debug)]
pub struct History {
    pub outcomes: Vec<(Order, Outcome)>,
    /// The number of outcomes before the sequential retries: the outcome of the initial grant, if there is
    /// one, and the outcomes of the concurrent orders. The order of the concurrent outcomes is arbitrary.
    pub concurrent: usize,
}

/// Checks the wallet and every outcome; returns the number of the wallet's ledger entries.
pub async fn check(store: &Store, user: UserId, history: &History) -> Result<usize, String> {
    let statement = store.statement(user).await.map_err(|error| error.to_string())?;
    let (wallet, mut entries) = statement.ok_or("the wallet changed while it was read")?;
    check_ledger(wallet.balance, &mut entries)?;
    if let Some(fault) = audit(&wallet, &mut entries).first() {
        return Err(format!("the audit finds a fault: {fault}"));
    }
    check_outcomes(history, &entries)?;
    Ok(entries.len())
}

/// Checks a wallet against all of its entries, which can be in any order. Does not use the product's own rules, because
/// the check would have the same bugs.
pub fn check_ledger(balance: i64, entries: &mut [Entry]) -> Result<(), String> {
    entries.sort_by_key(|entry| entry.sequence);
    let mut held = 0;
    for (entry, number) in entries.iter().zip(1..) {
        if entry.sequence != number {
            return Err(format!("entry {} is in the place of entry {number}", entry.sequence));
        }
        if (entry.previous_balance, entry.balance) != (held, held + entry.amount) || entry.balance < 0 {
            return Err(format!("entry {number} does not continue from a balance of {held}: {entry:?}"));
        }
        held = entry.balance;
    }
    if balance != held {
        return Err(format!("the balance is {balance}, but the entries add up to {held}"));
    }
    check_awards(entries)?;
    check_references(entries)
}

/// Checks that there is at most one daily award for each day, and that each has the amount that docs/coins.md promises.
fn check_awards(entries: &[Entry]) -> Result<(), String> {
    let mut last: Option<(NaiveDate, i64)> = None;
    for entry in entries.iter().filter(|entry| entry.kind == EntryKind::Daily) {
        let day = entry.created_at.date_naive();
        let streak = match last {
            Some((last, _)) if last >= day => {
                return Err(format!("an award for {day} after that for {last}"));
            }
            Some((last, streak)) if last.succ_opt() == Some(day) => streak + 1,
            _ => 1,
        };
        if entry.amount != 10 + (5 * (streak - 1)).min(30) {
            return Err(format!("{} coins for day {streak} of a streak", entry.amount));
        }
        last = Some((day, streak));
    }
    Ok(())
}

/// Checks that there is at most one deduction and one grant for each reference id.
fn check_references(entries: &[Entry]) -> Result<(), String> {
    let mut references = BTreeSet::new();
    for entry in entries {
        if let Some(id) = &entry.reference_id
            && !references.insert((id.as_str().to_owned(), entry.kind == EntryKind::Grant))
        {
            return Err("two movements with one reference".into());
        }
    }
    Ok(())
}

/// Checks that every outcome agrees with the ledger. A reported movement must be in the ledger, and at most
/// one outcome may report it as new. The ledger must confirm the reason for a rejection.
fn check_outcomes(history: &History, entries: &[Entry]) -> Result<(), String> {
    let mut new = BTreeSet::new();
    for (index, (order, outcome)) in history.outcomes.iter().enumerate() {
        match outcome {
            Outcome::Unknown => {}
            Outcome::Moved { entry, is_replay } => {
                if !entries.contains(entry) {
                    return Err(format!("{order:?} returned an entry that is not in the ledger"));
                }
                if !order.matches(entry) {
                    return Err(format!("{order:?} returned another movement: {entry:?}"));
                }
                if !is_replay && !new.insert(entry.transaction_id.clone()) {
                    return Err(format!("{order:?}: another outcome also reported this entry as new"));
                }
            }
            Outcome::Rejected(error) => {
                check_rejection(order, error, entries)?;
                if let CoinError::Insufficient { .. } = error
                    && history.succeeded_before(index)
                {
                    return Err(format!("{order:?} was rejected after it had succeeded"));
                }
            }
        }
    }
    check_deductions_without_reference(history, entries)
}

fn check_rejection(order: &Order, error: &CoinError, entries: &[Entry]) -> Result<(), String> {
    match error {
        CoinError::ReferenceReused { .. } => {
            if !entries.iter().any(|entry| order.shares_key_with(entry) && !order.matches(entry)) {
                return Err(format!("{order:?} was rejected, but no other movement has its reference"));
            }
        }
        CoinError::AlreadyClaimed { .. } => {
            let Order::Claim { at } = order else {
                return Err(format!("{order:?} is not a claim, but was rejected as already claimed"));
            };
            let is_later_claim = |entry: &Entry| {
                entry.kind == EntryKind::Daily && entry.created_at.date_naive() >= at.date_naive()
            };
            if !entries.iter().any(is_later_claim) {
                return Err("an unclaimed award was rejected as already claimed".into());
            }
        }
        CoinError::Insufficient { balance, required } => {
            let was_held = *balance == 0 || entries.iter().any(|entry| entry.balance == *balance);
            if i64::from(*required) <= *balance || !was_held {
                return Err(format!("{order:?} was rejected, but {balance} is enough or was never held"));
            }
        }
    }
    Ok(())
}

/// Checks that the ledger has at most as many deductions without a reference id as there were such requests.
fn check_deductions_without_reference(history: &History, entries: &[Entry]) -> Result<(), String> {
    let is_without = |order: &Order| matches!(order, Order::DeductWithoutReference { .. });
    let requests = history.outcomes.iter().filter(|(order, _)| is_without(order)).count();
    let deductions = entries
        .iter()
        .filter(|entry| entry.kind == EntryKind::Deduct && entry.reference_id.is_none())
        .count();
    if deductions > requests {
        return Err(format!("{deductions} deductions without a reference for {requests} requests"));
    }
    Ok(())
}

impl History {
    /// Returns whether the order at `index` had already succeeded in an earlier outcome. Returns false if
    /// this is unknown: in the concurrent part, and for deductions without a reference id.
    fn succeeded_before(&self, index: usize) -> bool {
        let order = &self.outcomes[index].0;
        index >= self.concurrent
            && !matches!(order, Order::DeductWithoutReference { .. })
            && self.outcomes[..index]
                .iter()
                .any(|(earlier, outcome)| earlier == order && matches!(outcome, Outcome::Moved { .. }))
    }
}
