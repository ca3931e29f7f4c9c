//! Checks that the balance of a wallet, or of every wallet, agrees with its entries.

use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::FutureExt as _;
use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};
use touchline::App;
use touchline::domain::UserId;
use touchline::domain::coins::{self, Entry, Fault, Wallet};
use touchline::storage::StoreError;
use touchline::storage::keys::Key;
use touchline::storage::wallets::WalletItem;

/// How many segments of the table are read concurrently.
const SEGMENTS: usize = 8;

/// How long to wait before a wallet that looks faulty is read again. A movement of coins writes two items,
/// which can become visible one after the other.
const BETWEEN_READS: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 500 });

/// The maximum number of faults that a report lists.
const LISTED: usize = 100;

#[derive(Debug, Default, Deserialize)]
pub struct Order {
    /// The user whose wallet is audited. `None` audits every wallet.
    user_id: Option<u32>,
    /// The `resume` list from the report of an earlier audit that stopped early.
    resume: Option<Vec<Position>>,
}

impl Order {
    /// Returns whether `resume` is an empty list. The handler rejects such an order, because the audit would read
    /// nothing and report no faults.
    pub fn is_empty_resume(&self) -> bool {
        self.resume.as_ref().is_some_and(Vec::is_empty)
    }
}

/// How far the audit of a segment has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Position {
    Start,
    After { pk: String, sk: String },
    Done,
}

#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub wallets: u64,
    pub entries: u64,
    /// How many wallets have faults.
    pub faulty: u64,
    /// The first hundred faults.
    pub faults: Vec<Found>,
    /// Where the next audit continues in each segment, if this audit stopped early.
    pub resume: Option<Vec<Position>>,
}

#[derive(Debug, Serialize)]
pub struct Found {
    pub user_id: UserId,
    #[serde(flatten)]
    pub fault: Fault,
}

impl Report {
    fn add(&mut self, user: UserId, entries: usize, faults: Vec<Fault>) {
        self.wallets += 1;
        self.entries += entries as u64;
        self.faulty += u64::from(!faults.is_empty());
        for fault in &faults {
            // Each fault is logged immediately, because an audit whose process is killed returns no report.
            tracing::error!(user = user.0, %fault, "a wallet has a fault");
        }
        let room = LISTED - self.faults.len().min(LISTED);
        self.faults.extend(faults.into_iter().take(room).map(|fault| Found { user_id: user, fault }));
    }
}

pub async fn audit(app: &App, order: Order, until: DateTime<Utc>) -> Result<Report, StoreError> {
    if let Some(user) = order.user_id.map(UserId) {
        let mut report = Report::default();
        let (entries, faults) = confirmed_faults(app, user).await?;
        report.add(user, entries, faults);
        return Ok(report);
    }
    let positions = order.resume.unwrap_or_else(|| vec![Position::Start; SEGMENTS]);
    let segments = i32::try_from(positions.len()).unwrap_or(1);
    // Boxed and collected: otherwise the compiler cannot prove that the future is `Send`.
    let audits: Vec<_> = (0..segments)
        .zip(positions)
        .map(|(segment, position)| audit_segment(app, segment, segments, position, until).boxed())
        .collect();
    let mut report = Report::default();
    let mut resume = Vec::new();
    for (part, position) in try_join_all(audits).await? {
        report.wallets += part.wallets;
        report.entries += part.entries;
        report.faulty += part.faulty;
        let room = LISTED - report.faults.len().min(LISTED);
        report.faults.extend(part.faults.into_iter().take(room));
        resume.push(position);
    }
    if resume.iter().any(|position| *position != Position::Done) {
        report.resume = Some(resume);
    }
    Ok(report)
}

/// A wallet whose items are being read. The items of a wallet are adjacent in the table, so the wallet is
/// complete when an item of another wallet follows.
#[derive(Default)]
struct Open {
    wallet: Wallet,
    entries: Vec<Entry>,
    is_unreadable: bool,
    last: Option<Key>,
}

/// Audits one segment of the table, wallet by wallet, until the segment ends or the time is up.
async fn audit_segment(
    app: &App,
    segment: i32,
    segments: i32,
    position: Position,
    until: DateTime<Utc>,
) -> Result<(Report, Position), StoreError> {
    let mut report = Report::default();
    let mut from = match position {
        Position::Start => None,
        Position::After { pk, sk } => Some(Key { pk, sk }),
        Position::Done => return Ok((report, Position::Done)),
    };
    // The key of the last item of the last wallet whose audit is complete.
    let mut safe = from.clone();
    let mut open: Option<(UserId, Open)> = None;
    loop {
        if app.clock.now() >= until {
            return Ok((report, position_after(safe)));
        }
        let (items, next) = match app.store.wallet_items(segment, segments, from).await {
            // If the store is busy, the audit stops early. The next audit resumes after the last complete
            // wallet.
            Err(error @ StoreError::Busy { .. }) => {
                tracing::warn!(%error, segment, "the audit of a segment stops early");
                return Ok((report, position_after(safe)));
            }
            page => page?,
        };
        for (key, user, item) in items {
            if let Some((_, done)) = open.as_ref().filter(|(of, _)| *of != user) {
                safe.clone_from(&done.last);
                close(app, &mut report, open.take()).await?;
                if app.clock.now() >= until {
                    return Ok((report, position_after(safe)));
                }
            }
            let (_, held) = open.get_or_insert_with(|| (user, Open::default()));
            match item {
                WalletItem::Balance(wallet) => held.wallet = wallet,
                WalletItem::Entry(entry) => held.entries.push(entry),
                WalletItem::Unreadable => held.is_unreadable = true,
            }
            held.last = Some(key);
        }
        if next.is_none() {
            close(app, &mut report, open.take()).await?;
            return Ok((report, Position::Done));
        }
        from = next;
    }
}

fn position_after(key: Option<Key>) -> Position {
    key.map_or(Position::Start, |Key { pk, sk }| Position::After { pk, sk })
}

/// Audits a wallet whose items are all read. A wallet that looks faulty is read again with consistent reads,
/// because coins may have moved while its items were read.
async fn close(app: &App, report: &mut Report, open: Option<(UserId, Open)>) -> Result<(), StoreError> {
    let Some((user, Open { wallet, mut entries, is_unreadable, .. })) = open else { return Ok(()) };
    if !is_unreadable && coins::audit(&wallet, &mut entries).is_empty() {
        report.add(user, entries.len(), Vec::new());
        return Ok(());
    }
    let (entries, faults) = confirmed_faults(app, user).await?;
    report.add(user, entries, faults);
    Ok(())
}

/// Returns the number of entries of a wallet, and its faults. A wallet with faults is read a second time,
/// because one read can see half of a movement. Only the faults that both reads find are returned.
async fn confirmed_faults(app: &App, user: UserId) -> Result<(usize, Vec<Fault>), StoreError> {
    let (entries, mut faults) = faults(app, user).await?;
    if faults.is_empty() {
        return Ok((entries, faults));
    }
    tokio::time::sleep(BETWEEN_READS).await;
    let (entries, again) = self::faults(app, user).await?;
    faults.retain(|fault| again.contains(fault));
    Ok((entries, faults))
}

async fn faults(app: &App, user: UserId) -> Result<(usize, Vec<Fault>), StoreError> {
    match app.store.statement(user).await {
        Ok(Some((wallet, mut entries))) => {
            let faults = coins::audit(&wallet, &mut entries);
            Ok((entries.len(), faults))
        }
        Ok(None) => Ok((0, vec![Fault::Moving])),
        Err(StoreError::Unreadable(_)) => Ok((0, vec![Fault::Unreadable])),
        Err(error) => Err(error),
    }
}
