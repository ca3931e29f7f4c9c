//! Sending one-time codes, and checking them: what login and phone verification have in common.

use crate::App;
use crate::api::Invalid;
use crate::domain::code::{self, WrongCode};
use crate::domain::sms::{self, SmsLogEntry, SmsStatus};
use crate::domain::{Address, OneTimeCode, Phone, Purpose, UserId, limit};
use crate::http::Error;
use crate::storage::users::{Issue, KeptCode};

/// A code to be sent.
#[derive(Debug)]
pub struct Request<'a> {
    pub phone: &'a Phone,
    pub purpose: Purpose,
    pub user: Option<UserId>,
    /// Only to repeat a verification that is pending.
    pub again: bool,
    pub address: Option<Address>,
}

/// Keeps a new code, sends it and logs the attempt. Returns for how many seconds it is valid.
///
/// The limit is taken before the message goes out, so that requests in parallel cannot share a place;
/// a message that could not be sent gives the place back.
pub async fn send(app: &App, request: Request<'_>) -> Result<i64, Error> {
    let settings = &app.config.codes;
    if !request.phone.is_allowed(&settings.prefixes) {
        return Err(Invalid::field("phone", "is in a country that is not served").into());
    }
    let now = app.clock.now();
    let id = limit::mark(now, app.random.number());
    if let Some(address) = &request.address {
        app.store.admit_address(address, settings.per_address, &id, now).await?;
    }
    let code = OneTimeCode::from_number(app.random.below(1_000_000));
    let digest = settings.key.digest(request.phone, request.purpose, &id, &code);
    let issue = Issue {
        phone: request.phone,
        purpose: request.purpose,
        id: &id,
        digest: &digest,
        user: request.user,
        again: request.again,
        limits: &settings.per_phone,
    };
    app.store.issue_code(&issue, now).await?;

    let delivery = app.sms.send(request.phone, &sms::text(&code)).await;
    let entry = SmsLogEntry {
        id: SmsLogEntry::id(now, app.random.number()),
        issue: id.clone(),
        phone: request.phone.clone(),
        code: app.config.environment.shows_codes().then_some(code),
        status: if delivery.outcome.is_ok() { SmsStatus::Sent } else { SmsStatus::Failed },
        provider: app.sms.provider().to_owned(),
        error: delivery.outcome.as_ref().err().map(ToString::to_string),
        created_at: now,
        attempts: delivery.attempts,
    };
    match delivery.outcome {
        Ok(()) => {
            // The message is out: a log that cannot be written must not turn it into a failure.
            if let Err(error) = app.store.log_sms(&entry).await {
                tracing::error!(%error, "a sent message could not be logged");
            }
            Ok(code::VALID_FOR.num_seconds())
        }
        Err(refused) => {
            let free_the_address = async {
                match &request.address {
                    Some(address) => app.store.give_back_address(address, settings.per_address, &id).await,
                    None => Ok(()),
                }
            };
            let (withdrawn, freed, logged) = futures_util::join!(
                app.store.withdraw_code(&issue),
                free_the_address,
                app.store.log_sms(&entry)
            );
            for error in [withdrawn.err(), freed.err(), logged.err()].into_iter().flatten() {
                tracing::error!(%error, "a failed message could not be cleared up");
            }
            Err(refused.into())
        }
    }
}

/// Compares a code with the one kept, for the price of one attempt.
pub async fn check(
    app: &App,
    phone: &Phone,
    purpose: Purpose,
    user: Option<UserId>,
    code: &OneTimeCode,
) -> Result<KeptCode, Error> {
    let kept = app.store.reserve_attempt(phone, purpose, user, app.clock.now()).await?;
    let given = app.config.codes.key.digest(phone, purpose, &kept.issue, code);
    if given.matches(&kept.digest) { Ok(kept) } else { Err(WrongCode.into()) }
}
