//! Counts a message before it is sent, if the limits allow it. The rules are in [`crate::domain::sms_guard`].

use chrono::{DateTime, Utc};

use crate::domain::code::Requester;
use crate::domain::limit;
use crate::domain::month::Month;
use crate::domain::sms_guard::{Counted, Message, Step, Stopped, entry};
use crate::domain::{CallingPrefix, Phone};
use crate::storage::sms_counts::SmsCounters;
use crate::storage::users::StoredCode;
use crate::storage::{Reads, StoreError};
use crate::{App, Error};

/// A message that is counted.
#[derive(Debug)]
pub struct Reserved {
    counters: SmsCounters,
    steps: Counted<Vec<Step>>,
}

/// Counts a message. Fails if a limit does not allow it.
///
/// Whether the owner of the phone has logged in from the network before is read only if other networks get no message.
pub async fn reserve(
    app: &App,
    mut message: Message,
    phone: &Phone,
    requester: Option<&Requester>,
    now: DateTime<Utc>,
) -> Result<Reserved, Error> {
    let (rules, prefix) = (&app.config.sms_guard, CallingPrefix::of(phone));
    let network = requester.map(|requester| requester.counted_for.clone());
    let counters = SmsCounters { network, prefix, month: Month::of(now) };
    // A counter that many requests change at the same moment is read again.
    for reads in [Reads::Eventual, Reads::Consistent, Reads::Consistent] {
        let counts = app.store.sms_counts(&counters, reads).await?;
        let mut checked = rules.check(message, &counters.prefix, &counts, now);
        if checked.is_err() && message == Message::Code && is_known(app, phone, requester).await? {
            message = Message::CodeForKnownNetwork;
            checked = rules.check(message, &counters.prefix, &counts, now);
        }
        let steps = checked.inspect_err(|refusal| {
            tracing::warn!(prefix = counters.prefix.as_str(), %refusal, "a limit of text messages is reached");
        })?;
        if app.store.reserve_sms(&counters, &counts, &steps, now).await? {
            return Ok(Reserved { counters, steps });
        }
    }
    Err(Stopped::until_next_hour(now).into())
}

async fn is_known(app: &App, phone: &Phone, requester: Option<&Requester>) -> Result<bool, StoreError> {
    match requester {
        Some(requester) => app.store.is_known_network(phone, &requester.network).await,
        None => Ok(false),
    }
}

/// Rolls back [`reserve`] when the message is not sent.
pub async fn release(app: &App, reserved: &Reserved) -> Result<(), StoreError> {
    app.store.release_sms(&reserved.counters, &reserved.steps).await
}

/// Counts that a code was entered. Call it once for each code, after the code is spent for good. A code that is not counted
/// makes the limits a little stricter, so a failure does not fail the request.
pub async fn count_entry(app: &App, phone: &Phone, code: &StoredCode) {
    let Some(sent_at) = limit::time_of(&code.issue) else { return };
    let (network, prefix) = (code.counted_for.clone(), CallingPrefix::of(phone));
    let counters = SmsCounters { network, prefix, month: Month::of(sent_at) };
    if let Err(error) = app.store.count_entered_sms(&counters, entry(sent_at, code.is_test)).await {
        tracing::warn!(%error, "cannot count the entry of a code");
    }
}
