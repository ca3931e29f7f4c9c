//! Sending and checking one-time codes, for login and phone verification.

use crate::api::Invalid;
use crate::domain::code::{self, Sending, WrongCode};
use crate::domain::sms::{self, SmsLogEntry, SmsStatus};
use crate::domain::{Address, CodeKey, OneTimeCode, Phone, Purpose, UserId, limit};
use crate::storage::users::{Attempt, Issue, StoredCode};
use crate::{App, Error};

/// Stores a new code, sends it and logs the attempt. Returns how many seconds the code is valid.
///
/// The rate limits are charged before the message goes out, so that concurrent requests cannot exceed them. A
/// message that was not sent is refunded.
pub async fn send(
    app: &App,
    phone: &Phone,
    sending: Sending,
    address: Option<&Address>,
) -> Result<i64, Error> {
    let settings = &app.config.codes;
    if !phone.is_allowed(&settings.prefixes) {
        return Err(Invalid::field("phone", "Codes cannot be sent to this country yet.").into());
    }
    let now = app.clock.now();
    let id = limit::request_id(now, app.random.number());
    // The address limit comes first, in a write of its own: a caller over it must not replace a code.
    if let Some(address) = address {
        app.store.admit_address(address, settings.per_address, &id, now).await?;
    }
    let refund_address = async {
        match address {
            Some(address) => app.store.release_address(address, settings.per_address, &id).await,
            None => Ok(()),
        }
    };
    let code = OneTimeCode::from_number(app.random.below(1_000_000));
    let digest = key(app)?.digest(phone, sending.purpose(), &id, &code);
    let issue = Issue { phone, sending, id: &id, digest: &digest, limits: &settings.per_phone };
    if let Err(error) = app.store.issue_code(&issue, now).await {
        log_failure(refund_address.await);
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
            // The message is sent, so a failed log write must not fail the request.
            log_failure(app.store.log_sms(&entry).await);
            Ok(code::VALID_FOR.num_seconds())
        }
        Err(failed) => {
            let (withdrawn, freed, logged) = futures_util::join!(
                app.store.withdraw_code(&issue),
                refund_address,
                app.store.log_sms(&entry)
            );
            for done in [withdrawn, freed, logged] {
                log_failure(done);
            }
            Err(failed.into())
        }
    }
}

/// Logs a failed clean-up. It does not change the response any more.
fn log_failure(done: Result<(), crate::storage::StoreError>) {
    if let Err(error) = done {
        tracing::error!(%error, "clean-up after a code was sent or failed did not complete");
    }
}

/// Compares a code with the stored one. Each call uses up one attempt.
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

/// Only functions that send or check codes have the key.
fn key(app: &App) -> Result<&CodeKey, Error> {
    app.config
        .codes
        .key
        .as_ref()
        .ok_or(Error::Broken("CODE_PEPPER is not set for a function that handles codes"))
}
