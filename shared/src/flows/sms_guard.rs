//! Decides whether a message may be sent to a phone. The rules are in [`crate::domain::sms_guard`].

use chrono::{DateTime, Utc};

use crate::domain::code::NetworkDigest;
use crate::domain::sms_guard::{Allowance, Stopped};
use crate::domain::{CallingPrefix, Phone};
use crate::storage::StoreError;
use crate::{App, Error};

/// A message that may be sent, unless [`reserve`] fails.
#[derive(Debug)]
pub struct Plan<'a> {
    pub prefix: CallingPrefix,
    phone: &'a Phone,
    network: Option<&'a NetworkDigest>,
    at: DateTime<Utc>,
    way: Way,
}

#[derive(Debug, Clone, Copy)]
enum Way {
    /// So many messages are left, and so many were sent in this hour.
    Allowed {
        left: i64,
        sent: i64,
    },
    Trial,
    /// The network is one from which the owner of the phone has logged in before.
    KnownNetwork,
}

/// How a message was counted before it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permit {
    /// Not at all: `tally` counts it when it is in the log.
    Unreserved,
    /// In the counters of its prefix.
    Reserved,
    /// As a trial. `tally` counts it for its prefix.
    Trial,
}

/// Checks the limits of the prefix of a phone, without a write.
pub async fn check<'a>(
    app: &App,
    phone: &'a Phone,
    network: Option<&'a NetworkDigest>,
    now: DateTime<Utc>,
) -> Result<Plan<'a>, Error> {
    let prefix = CallingPrefix::of(phone);
    let mut plan = Plan { prefix, phone, network, at: now, way: Way::KnownNetwork };
    let (history, is_full) = app.sms_counts.history(&app.store, &plan.prefix, now).await?;
    let rules = &app.config.sms_guard;
    let allowance = rules.allowance(&plan.prefix, &history, now).inspect_err(|refusal| {
        tracing::warn!(prefix = plan.prefix.as_str(), %refusal, "a limit of text messages is reached");
    })?;
    plan.way = match allowance {
        Allowance::Left(_) if is_full => {
            return unless_known(app, plan, Stopped::until_next_hour(now)).await;
        }
        Allowance::Left(left) => Way::Allowed { left, sent: history.sent_this_hour },
        Allowance::Trials if app.sms_counts.has_trials(now) => Way::Trial,
        Allowance::Trials => return unless_known(app, plan, Stopped::until_midnight(now)).await,
        Allowance::Stopped(stopped) => return unless_known(app, plan, stopped).await,
    };
    Ok(plan)
}

/// Counts a message, if it is near a limit.
pub async fn reserve(app: &App, plan: &mut Plan<'_>) -> Result<Permit, Error> {
    let (cache, at) = (&app.sms_counts, plan.at);
    match plan.way {
        Way::KnownNetwork => Ok(Permit::Unreserved),
        Way::Allowed { left, .. } if cache.takes_unreserved(&plan.prefix, left) => Ok(Permit::Unreserved),
        Way::Allowed { left, sent } => {
            if app.store.reserve_sms(&plan.prefix, sent.saturating_add(left), at).await? {
                return Ok(Permit::Reserved);
            }
            cache.set_full(&plan.prefix);
            require_known(app, plan, Stopped::until_next_hour(at)).await.map(|()| Permit::Unreserved)
        }
        Way::Trial => {
            if app.store.reserve_sms_trial(app.config.sms_guard.trials_per_day, at).await? {
                return Ok(Permit::Trial);
            }
            cache.set_no_trials(at);
            require_known(app, plan, Stopped::until_midnight(at)).await.map(|()| Permit::Unreserved)
        }
    }
}

/// Rolls back [`reserve`] when the message is not sent.
pub async fn release(app: &App, plan: &Plan<'_>, permit: Permit) -> Result<(), StoreError> {
    match permit {
        Permit::Unreserved => Ok(()),
        Permit::Reserved => app.store.release_sms(&plan.prefix, plan.at).await,
        Permit::Trial => app.store.release_sms_trial(plan.at).await,
    }
}

async fn unless_known<'a>(app: &App, mut plan: Plan<'a>, stopped: Stopped) -> Result<Plan<'a>, Error> {
    require_known(app, &plan, stopped).await?;
    plan.way = Way::KnownNetwork;
    Ok(plan)
}

/// Fails, unless the owner of the phone has logged in from the network before. So an attack does not lock users out.
async fn require_known(app: &App, plan: &Plan<'_>, stopped: Stopped) -> Result<(), Error> {
    if let Some(network) = plan.network
        && app.store.is_known_network(plan.phone, network).await?
    {
        return Ok(());
    }
    tracing::warn!(
        prefix = plan.prefix.as_str(),
        "no text messages are sent to a prefix for now: too few of its codes are entered"
    );
    Err(stopped.into())
}
