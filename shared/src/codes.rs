//! Sending one-time codes, and checking them: what login and phone verification have in common.

use crate::App;
use crate::api::Invalid;
use crate::domain::code::{self, Sending, WrongCode};
use crate::domain::sms::{self, SmsLogEntry, SmsStatus};
use crate::domain::{Address, CodeKey, OneTimeCode, Phone, Purpose, UserId, limit};
use crate::http::Error;
use crate::storage::users::{Attempt, Issue, StoredCode};

/// Keeps a new code, sends it and logs the attempt. Returns for how many seconds it is valid.
///
/// The limits are taken before the message goes out, so that requests in parallel cannot share a place.
/// Whatever was not sent gives its places back.
pub async fn send(
    app: &App,
    phone: &Phone,
    sending: Sending,
    address: Option<&Address>,
) -> Result<i64, Error> {
    let settings = &app.config.codes;
    if !phone.is_allowed(&settings.prefixes) {
        return Err(Invalid::field("phone", "is in a country that is not served").into());
    }
    let now = app.clock.now();
    let id = limit::mark(now, app.random.number());
    // The address first, and alone: a caller over that limit must not replace anybody's code.
    if let Some(address) = address {
        app.store.admit_address(address, settings.per_address, &id, now).await?;
    }
    let free_the_address = async {
        match address {
            Some(address) => app.store.release_address(address, settings.per_address, &id).await,
            None => Ok(()),
        }
    };
    let code = OneTimeCode::from_number(app.random.below(1_000_000));
    let digest = key(app)?.digest(phone, sending.purpose(), &id, &code);
    let issue = Issue { phone, sending, id: &id, digest: &digest, limits: &settings.per_phone };
    if let Err(error) = app.store.issue_code(&issue, now).await {
        note(free_the_address.await);
        return Err(error.into());
    }

    let delivery = app.sms.send(phone, &sms::text(&code)).await;
    let entry = SmsLogEntry {
        id: SmsLogEntry::id(now, app.random.number()),
        issue: id.clone(),
        phone: phone.clone(),
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
            note(app.store.log_sms(&entry).await);
            Ok(code::VALID_FOR.num_seconds())
        }
        Err(failed) => {
            let (withdrawn, freed, logged) = futures_util::join!(
                app.store.withdraw_code(&issue),
                free_the_address,
                app.store.log_sms(&entry)
            );
            for done in [withdrawn, freed, logged] {
                note(done);
            }
            Err(failed.into())
        }
    }
}

/// For what should be done and cannot change the answer any more.
fn note(done: Result<(), crate::storage::StoreError>) {
    if let Err(error) = done {
        tracing::error!(%error, "a sending could not be cleared up");
    }
}

/// Compares a code with the one kept, for the price of one attempt.
pub async fn check(
    app: &App,
    phone: &Phone,
    purpose: Purpose,
    user: Option<UserId>,
    code: &OneTimeCode,
) -> Result<StoredCode, Error> {
    let nonce = app.random.word(16);
    let attempt = Attempt { phone, purpose, user, nonce: &nonce };
    let kept = app.store.reserve_attempt(&attempt, app.clock.now()).await?;
    let given = key(app)?.digest(phone, purpose, &kept.issue, code);
    if given.matches(&kept.digest) { Ok(kept) } else { Err(WrongCode.into()) }
}

/// Only functions that send or check codes are told it.
fn key(app: &App) -> Result<&CodeKey, Error> {
    app.config.codes.key.as_ref().ok_or(Error::Broken("a function that handles codes has no pepper"))
}
