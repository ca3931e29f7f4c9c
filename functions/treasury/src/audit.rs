//! Checks that wallets are what their entries say: every one, or one.

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

/// How many parts of the table are read at once.
const SEGMENTS: usize = 8;

/// How long a movement may take to be seen whole.
const BETWEEN_LOOKS: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 500 });

/// How many faults are told one by one.
const TOLD: usize = 100;

#[derive(Debug, Default, Deserialize)]
pub struct Order {
    user_id: Option<u32>,
    /// What an audit that ran out of time answered.
    resume: Option<Vec<Place>>,
}

impl Order {
    /// A list of no parts would read nothing and find nothing wrong.
    pub fn is_empty_resume(&self) -> bool {
        self.resume.as_ref().is_some_and(Vec::is_empty)
    }
}

/// How far a part of the table is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    Start,
    After { pk: String, sk: String },
    Done,
}

#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub wallets: u64,
    pub entries: u64,
    /// How many wallets are not sound.
    pub faulty: u64,
    /// What is wrong; the first hundred.
    pub faults: Vec<Found>,
    /// To be given to the next audit, where the time was up.
    pub resume: Option<Vec<Place>>,
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
            // At once: should the time run out, the log has it.
            tracing::error!(user = user.0, %fault, "a wallet is not sound");
        }
        let room = TOLD - self.faults.len().min(TOLD);
        self.faults.extend(faults.into_iter().take(room).map(|fault| Found { user_id: user, fault }));
    }
}

pub async fn audit(app: &App, order: Order, until: DateTime<Utc>) -> Result<Report, StoreError> {
    if let Some(user) = order.user_id.map(UserId) {
        let mut report = Report::default();
        let (entries, faults) = look_closely(app, user).await?;
        report.add(user, entries, faults);
        return Ok(report);
    }
    let places = order.resume.unwrap_or_else(|| vec![Place::Start; SEGMENTS]);
    let segments = i32::try_from(places.len()).unwrap_or(1);
    // Boxed and collected: the compiler cannot see through the closure otherwise.
    let parts: Vec<_> = (0..segments)
        .zip(places)
        .map(|(segment, place)| part(app, segment, segments, place, until).boxed())
        .collect();
    let mut report = Report::default();
    let mut resume = Vec::new();
    for (part, place) in try_join_all(parts).await? {
        report.wallets += part.wallets;
        report.entries += part.entries;
        report.faulty += part.faulty;
        let room = TOLD - report.faults.len().min(TOLD);
        report.faults.extend(part.faults.into_iter().take(room));
        resume.push(place);
    }
    if resume.iter().any(|place| *place != Place::Done) {
        report.resume = Some(resume);
    }
    Ok(report)
}

/// A wallet while its items come in: they lie side by side.
#[derive(Default)]
struct Open {
    wallet: Wallet,
    entries: Vec<Entry>,
    is_unreadable: bool,
    last: Option<Key>,
}

/// Audits one part of the table, wallet by wallet, until its end or that of the time.
async fn part(
    app: &App,
    segment: i32,
    segments: i32,
    place: Place,
    until: DateTime<Utc>,
) -> Result<(Report, Place), StoreError> {
    let mut report = Report::default();
    let mut from = match place {
        Place::Start => None,
        Place::After { pk, sk } => Some(Key { pk, sk }),
        Place::Done => return Ok((report, Place::Done)),
    };
    // The last item of the last wallet that is audited whole.
    let mut safe = from.clone();
    let mut open: Option<(UserId, Open)> = None;
    loop {
        if app.clock.now() >= until {
            return Ok((report, place_after(safe)));
        }
        let (items, next) = match app.store.wallet_items(segment, segments, from).await {
            // What was found so far is worth telling; the rest can be resumed.
            Err(error @ StoreError::Busy { .. }) => {
                tracing::warn!(%error, segment, "the audit of a part stops here");
                return Ok((report, place_after(safe)));
            }
            page => page?,
        };
        for (key, user, item) in items {
            if let Some((_, done)) = open.as_ref().filter(|(of, _)| *of != user) {
                safe.clone_from(&done.last);
                close(app, &mut report, open.take()).await?;
                if app.clock.now() >= until {
                    return Ok((report, place_after(safe)));
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
            return Ok((report, Place::Done));
        }
        from = next;
    }
}

fn place_after(key: Option<Key>) -> Place {
    key.map_or(Place::Start, |Key { pk, sk }| Place::After { pk, sk })
}

/// Audits a wallet that has come in whole. What looks wrong is looked at once more, closely: coins may have
/// moved while its items were read.
async fn close(app: &App, report: &mut Report, open: Option<(UserId, Open)>) -> Result<(), StoreError> {
    let Some((user, Open { wallet, mut entries, is_unreadable, .. })) = open else { return Ok(()) };
    if !is_unreadable && coins::audit(&wallet, &mut entries).is_empty() {
        report.add(user, entries.len(), Vec::new());
        return Ok(());
    }
    let (entries, faults) = look_closely(app, user).await?;
    report.add(user, entries, faults);
    Ok(())
}

/// How many entries a wallet has, and what is wrong with it for certain: twice, with some time between. The
/// two halves of a movement can be seen one after the other.
async fn look_closely(app: &App, user: UserId) -> Result<(usize, Vec<Fault>), StoreError> {
    let (entries, mut faults) = look(app, user).await?;
    if faults.is_empty() {
        return Ok((entries, faults));
    }
    tokio::time::sleep(BETWEEN_LOOKS).await;
    let (entries, again) = look(app, user).await?;
    faults.retain(|fault| again.contains(fault));
    Ok((entries, faults))
}

async fn look(app: &App, user: UserId) -> Result<(usize, Vec<Fault>), StoreError> {
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
