//! Sends and checks one-time codes, for login and phone verification.

use chrono::{DateTime, Utc};

use crate::api::Invalid;
use crate::domain::code::{self, CodeRequest, WrongCode};
use crate::domain::sms::{self, SmsLogEntry, SmsStatus};
use crate::domain::{Address, CodePepper, OneTimeCode, Phone, Purpose, UserId, limit};
use crate::storage::StoreError;
use crate::storage::users::{Attempt, Counted, Issue, IssueError, StoredCode, Verification};
use crate::{App, Error};

/// Stores a new code, sends it and adds an entry to the SMS log. Returns how many seconds the code is valid.
///
/// The request counts against the rate limits before the message is sent, so that concurrent requests cannot
/// exceed them. If the message is not sent, the request no longer counts.
pub async fn send(
    app: &App,
    phone: &Phone,
    request: CodeRequest,
    address: Option<&Address>,
) -> Result<i64, Error> {
    let settings = &app.config.codes;
    if !phone.is_allowed(&settings.prefixes) {
        return Err(Invalid::field("phone", "Codes cannot be sent to this country yet.").into());
    }
    let now = app.clock.now();
    let id = limit::request_id(now, app.random.number());
    // Check the rate limit of the caller's network first, in a separate write: a caller over that limit must
    // not replace the code that is stored for the phone number.
    let per_address = &[settings.per_address];
    if let Some(address) = address {
        app.store.admit(Counted::Address(address), per_address, &id, now).await?;
    }
    let release_address = async {
        match address {
            Some(address) => app.store.release(Counted::Address(address), per_address, &id).await,
            None => Ok(()),
        }
    };
    let code = OneTimeCode::from_number(app.random.below(1_000_000));
    let digest = pepper(app)?.digest(phone, request.purpose(), &id, &code);
    let issue = Issue { phone, id: &id, digest: &digest, limits: &settings.per_phone };
    let undo = match store_code(app, request, &issue, now).await {
        Ok(undo) => undo,
        Err(error) => {
            log_failure(release_address.await);
            return Err(error.into());
        }
    };

    let delivery = app.sms.send(phone, &sms::text(&code)).await;
    let entry = SmsLogEntry {
        id: SmsLogEntry::id(now, app.random.number()),
        code_id: id.clone(),
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
            // The message is sent, so the request succeeds even if the log entry cannot be written.
            log_failure(app.store.log_sms(&entry).await);
            Ok(code::VALID_FOR.num_seconds())
        }
        Err(failed) => {
            let (withdrawn, released, logged) =
                futures_util::join!(withdraw(app, &issue, undo), release_address, app.store.log_sms(&entry));
            [withdrawn, released, logged].into_iter().for_each(log_failure);
            Err(failed.into())
        }
    }
}

/// What to restore if a stored code cannot be sent.
enum Undo {
    Login,
    Verification { user: UserId, new: Verification, before: Option<Verification> },
}

/// Stores a code, if the rate limit of its phone allows another message.
async fn store_code(
    app: &App,
    request: CodeRequest,
    issue: &Issue<'_>,
    now: DateTime<Utc>,
) -> Result<Undo, IssueError> {
    let (store, phone) = (&app.store, issue.phone);
    let user = match request {
        CodeRequest::Login => {
            store.issue_code(issue, now).await?;
            return Ok(Undo::Login);
        }
        CodeRequest::StartVerification(user) => user,
        CodeRequest::ResendVerification(user) => {
            store.require_pending_verification(user, phone, now).await?;
            user
        }
    };
    store.admit(Counted::Phone(phone), issue.limits, issue.id, now).await?;
    let new = Verification::new(phone, issue.id, issue.digest, now);
    match store.save_verification(user, &new, now).await {
        Ok(before) => Ok(Undo::Verification { user, new, before }),
        Err(error) => {
            log_failure(store.release(Counted::Phone(phone), issue.limits, issue.id).await);
            Err(error)
        }
    }
}

/// Rolls back [`store_code`]: the code becomes void and no longer counts against the rate limit of its phone. A verification
/// that was pending before is pending again.
async fn withdraw(app: &App, issue: &Issue<'_>, undo: Undo) -> Result<(), StoreError> {
    match undo {
        Undo::Login => app.store.withdraw_code(issue).await,
        Undo::Verification { user, new, before } => {
            app.store.restore_verification(user, &new, before.as_ref()).await?;
            app.store.release(Counted::Phone(issue.phone), issue.limits, issue.id).await
        }
    }
}

/// Logs a failed write whose failure does not change the response.
fn log_failure(result: Result<(), StoreError>) {
    if let Err(error) = result {
        tracing::error!(%error, "a write that belongs to a code request failed");
    }
}

/// Compares a code with the stored code: that of the phone's login or, if there is a `user`, that of the user's verification of
/// the phone. Each call uses up one of the stored code's attempts.
pub async fn check(
    app: &App,
    phone: &Phone,
    user: Option<UserId>,
    code: &OneTimeCode,
) -> Result<StoredCode, Error> {
    let nonce = app.random.word(16);
    let purpose = if user.is_some() { Purpose::Verify } else { Purpose::Login };
    let attempt = Attempt { phone, user, nonce: &nonce };
    let stored = app.store.reserve_attempt(&attempt, app.clock.now()).await?;
    let given = pepper(app)?.digest(phone, purpose, &stored.issue, code);
    if given.matches(&stored.digest) { Ok(stored) } else { Err(WrongCode.into()) }
}

fn pepper(app: &App) -> Result<&CodePepper, Error> {
    let pepper = app.config.codes.pepper.as_ref();
    pepper.ok_or(Error::Broken("CODE_PEPPER is not set for a function that handles codes"))
}
