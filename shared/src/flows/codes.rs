//! Sends and checks one-time codes: for login, phone verification and the deletion of an account.

use std::slice;

use chrono::{DateTime, Utc};

use crate::api::Invalid;
use crate::domain::code::{self, CodeRequest, NetworkDigest, PhoneDigest, WrongCode};
use crate::domain::limit::HourlyAction;
use crate::domain::sms::{self, SmsLogEntry, SmsStatus};
use crate::domain::sms_guard::Message;
use crate::domain::{Address, CodePepper, OneTimeCode, Phone, Purpose, UserId, limit};
use crate::flows::sms_guard;
use crate::ports::sms::Delivery;
use crate::storage::StoreError;
use crate::storage::users::{
    Admission, Attempt, Counted, Issue, IssueError, StoredCode, UserCode, Verification,
};
use crate::{App, Error};

/// Stores a new code, sends it and adds an entry to the SMS log. Returns how many seconds the code is valid.
///
/// The request counts against the rate limits and the limits of text messages before the message is sent, so that concurrent
/// requests cannot exceed them. If the message is not sent, the request no longer counts.
///
/// A test phone has a fixed code, and no message is sent to it. All limits apply to it, so that nobody can tell it from others.
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
    let requester = address.map(|address| pepper(app).map(|pepper| pepper.requester(phone, address)));
    let requester = requester.transpose()?;
    let id = limit::request_id(now, app.random.number());
    // Check the rate limit of the caller's network first, in a separate write: a caller over that limit must
    // not replace the code that is stored for the phone number.
    admit_address(app, address, &id, now).await?;
    let release_address = release_address(app, address, &id, now);
    let reserved = match sms_guard::reserve(app, Message::Code, phone, requester.as_ref(), now).await {
        Ok(reserved) => reserved,
        Err(error) => {
            log_failure(release_address.await);
            return Err(error);
        }
    };
    let fixed_code = fixed_code(app, phone, request);
    let code = fixed_code.cloned().unwrap_or_else(|| OneTimeCode::from_number(app.random.below(1_000_000)));
    let digest = pepper(app)?.digest(phone, request.purpose(), &id, &code);
    let requester = requester.as_ref();
    let issue = Issue { phone, id: &id, digest: &digest, requester, is_test: fixed_code.is_some() };
    let stored = match store_code_within_limits(app, request, &issue, now).await {
        Ok(stored) => stored,
        Err(error) => {
            log_failure(sms_guard::release(app, &reserved).await);
            log_failure(release_address.await);
            return Err(error.into());
        }
    };

    let text = match request.purpose() {
        Purpose::Login | Purpose::Verify => sms::text(&code, settings.autofill.as_ref()),
        Purpose::Delete => sms::deletion_text(&code, settings.autofill.as_ref()),
    };
    let (provider, delivery) = if issue.is_test {
        (TEST_PROVIDER, Delivery { attempts: 0, outcome: Ok(()) })
    } else {
        (app.sms.provider(), app.sms.send(phone, &text).await)
    };
    let entry = SmsLogEntry {
        id: SmsLogEntry::id(now, app.random.number()),
        code_id: id.clone(),
        phone: phone.clone(),
        code: app.config.environment.shows_codes().then_some(code),
        status: if delivery.outcome.is_ok() { SmsStatus::Sent } else { SmsStatus::Failed },
        provider: provider.to_owned(),
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
            let (withdrawn, released, guard_released, logged) = futures_util::join!(
                withdraw(app, &issue, stored),
                release_address,
                sms_guard::release(app, &reserved),
                app.store.log_sms(&entry)
            );
            [withdrawn, released, guard_released, logged].into_iter().for_each(log_failure);
            Err(failed.into())
        }
    }
}

/// The name of the provider in the log entries of test phones.
const TEST_PROVIDER: &str = "test";

/// Returns the fixed code of a test phone. A verification gets a real one, because it could take the phone from its user.
fn fixed_code<'a>(app: &'a App, phone: &Phone, request: CodeRequest) -> Option<&'a OneTimeCode> {
    let is_verification = request.purpose() == Purpose::Verify;
    app.config.codes.test_phones.code(phone).filter(|_| !is_verification)
}

/// Counts a request for a code against the limits of its network, and of the IPv6 /48 that the network is a part of.
async fn admit_address(
    app: &App,
    address: Option<&Address>,
    id: &str,
    now: DateTime<Utc>,
) -> Result<(), Error> {
    let (settings, Some(address)) = (&app.config.codes, address) else { return Ok(()) };
    let admission = Admission::new(slice::from_ref(&settings.per_address));
    app.store.admit(Counted::Address(address), admission, id, now).await?;
    if let Some(wider) = address.wider()
        && let Err(error) =
            app.store.count_in_hour(HourlyAction::RequestCode, &wider, settings.per_ipv6_48, now).await
    {
        log_failure(app.store.release(Counted::Address(address), admission.depth, id).await);
        return Err(error.into());
    }
    Ok(())
}

/// Rolls back [`admit_address`].
async fn release_address(
    app: &App,
    address: Option<&Address>,
    id: &str,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let Some(address) = address else { return Ok(()) };
    if let Some(wider) = address.wider() {
        log_failure(app.store.release_in_hour(HourlyAction::RequestCode, &wider, now).await);
    }
    let depth = Admission::new(slice::from_ref(&app.config.codes.per_address)).depth;
    app.store.release(Counted::Address(address), depth, id).await
}

/// A stored code, with what to restore if it cannot be sent.
struct Stored {
    /// The number of requests in the register of the phone.
    depth: usize,
    /// `None` for a login code.
    verification: Option<Begun>,
}

/// A verification or a deletion that was stored, and the one that it has replaced.
struct Begun {
    which: UserCode,
    new: Verification,
    before: Option<Verification>,
}

/// Stores a code, if the rate limits of its phone allow another message. They allow more to a network from which the owner of
/// the phone has logged in before.
async fn store_code_within_limits(
    app: &App,
    request: CodeRequest,
    issue: &Issue<'_>,
    now: DateTime<Utc>,
) -> Result<Stored, IssueError> {
    let settings = &app.config.codes;
    let for_known = settings.per_phone_if_known();
    let depth = limit::depth(&for_known);
    let stored = store_code(app, request, issue, Admission { limits: &settings.per_phone, depth }, now).await;
    match (stored, issue.requester) {
        (Err(IssueError::Limited(limited)), Some(requester)) => {
            if !app.store.is_known_network(issue.phone, &requester.network).await? {
                return Err(limited.into());
            }
            store_code(app, request, issue, Admission { limits: &for_known, depth }, now).await
        }
        (stored, _) => stored,
    }
}

async fn store_code(
    app: &App,
    request: CodeRequest,
    issue: &Issue<'_>,
    admission: Admission<'_>,
    now: DateTime<Utc>,
) -> Result<Stored, IssueError> {
    let (store, phone, depth) = (&app.store, issue.phone, admission.depth);
    let (which, resends) = match request {
        CodeRequest::Login => {
            store.issue_code(issue, admission, now).await?;
            if issue.is_test {
                store.issue_own_code(issue, now).await?;
            }
            return Ok(Stored { depth, verification: None });
        }
        CodeRequest::StartVerification(user) => (UserCode::Verification(user), false),
        CodeRequest::DeleteAccount(user) => (UserCode::Deletion(user), false),
        CodeRequest::ResendVerification(user) => {
            store.require_pending_verification(user, phone, now).await?;
            (UserCode::Verification(user), true)
        }
    };
    store.admit(Counted::Phone(phone), admission, issue.id, now).await?;
    let new = Verification::new(issue, now);
    match store.save_verification(which, &new, resends, now).await {
        Ok(before) => Ok(Stored { depth, verification: Some(Begun { which, new, before }) }),
        Err(error) => {
            log_failure(store.release(Counted::Phone(phone), depth, issue.id).await);
            Err(error)
        }
    }
}

/// Rolls back [`store_code`]: the code becomes void and no longer counts against the rate limit of its phone. A verification
/// that was pending before is pending again.
async fn withdraw(app: &App, issue: &Issue<'_>, stored: Stored) -> Result<(), StoreError> {
    let Some(Begun { which, new, before }) = stored.verification else {
        return app.store.withdraw_code(issue, stored.depth).await;
    };
    app.store.restore_verification(which, &new, before.as_ref()).await?;
    app.store.release(Counted::Phone(issue.phone), stored.depth, issue.id).await
}

/// Logs a failed write whose failure does not change the response.
fn log_failure(result: Result<(), StoreError>) {
    if let Err(error) = result {
        tracing::error!(%error, "a write that belongs to a code request failed");
    }
}

/// Compares a code with the login code of a phone. Each call uses up one of the code's attempts.
///
/// All networks that did not request the code share a second set of attempts. Each can enter only a limited number of wrong
/// codes in an hour. Otherwise a stranger could use up the attempts of the user, or guess the codes of many users.
pub async fn check_login(
    app: &App,
    phone: &Phone,
    code: &OneTimeCode,
    address: Option<&Address>,
    network: Option<&NetworkDigest>,
) -> Result<StoredCode, Error> {
    let (now, nonce) = (app.clock.now(), app.random.word(16));
    let attempt = Attempt { phone, of_user: None, network, nonce: &nonce };
    let checked = check_login_of_phone(app, &attempt, code, address, now).await;
    if matches!(checked, Err(Error::WrongCode(_))) && fixed_code(app, phone, CodeRequest::Login).is_some() {
        // The responses to wrong codes are those of any phone, but strangers cannot lock out whoever has the right one.
        let stored = app.store.reserve_own_attempt(&attempt, now).await?;
        return compare(app, phone, Purpose::Login, stored, code);
    }
    checked
}

async fn check_login_of_phone(
    app: &App,
    attempt: &Attempt<'_>,
    code: &OneTimeCode,
    address: Option<&Address>,
    now: DateTime<Utc>,
) -> Result<StoredCode, Error> {
    let phone = attempt.phone;
    if let Some(stored) = app.store.reserve_attempt(attempt, now).await? {
        return compare(app, phone, Purpose::Login, stored, code);
    }
    // The code counts as wrong before it is compared, so that concurrent guesses cannot exceed the limit.
    let id = limit::request_id(now, app.random.number());
    let settings = &app.config.codes;
    let admission = Admission::new(slice::from_ref(&settings.wrong_per_address));
    if let Some(address) = address {
        // This limit comes first: a network over it must not use up the limit of the /48.
        app.store.admit(Counted::WrongCodes(address), admission, &id, now).await?;
        if let Some(wider) = address.wider() {
            app.store.count_in_hour(HourlyAction::EnterWrongCode, &wider, settings.per_ipv6_48, now).await?;
        }
    }
    let stored = app.store.reserve_other_attempt(attempt, now).await?;
    let right = compare(app, phone, Purpose::Login, stored, code)?;
    if let Some(address) = address {
        if let Some(wider) = address.wider() {
            log_failure(app.store.release_in_hour(HourlyAction::EnterWrongCode, &wider, now).await);
        }
        log_failure(app.store.release(Counted::WrongCodes(address), admission.depth, &id).await);
    }
    Ok(right)
}

/// Compares a code with that of a user's verification of a phone. Each call uses up one of the code's attempts.
pub async fn check_verification(
    app: &App,
    phone: &Phone,
    user: UserId,
    code: &OneTimeCode,
) -> Result<StoredCode, Error> {
    check_user_code(app, phone, UserCode::Verification(user), Purpose::Verify, code).await
}

/// Compares a code with the one that a user requested to delete the account. Each call uses up one of the code's attempts.
pub async fn check_deletion(
    app: &App,
    phone: &Phone,
    user: UserId,
    code: &OneTimeCode,
) -> Result<StoredCode, Error> {
    check_user_code(app, phone, UserCode::Deletion(user), Purpose::Delete, code).await
}

async fn check_user_code(
    app: &App,
    phone: &Phone,
    which: UserCode,
    purpose: Purpose,
    code: &OneTimeCode,
) -> Result<StoredCode, Error> {
    let nonce = app.random.word(16);
    let attempt = Attempt { phone, of_user: Some(which), network: None, nonce: &nonce };
    let stored = app.store.reserve_attempt(&attempt, app.clock.now()).await?;
    compare(app, phone, purpose, stored.ok_or(WrongCode)?, code)
}

fn compare(
    app: &App,
    phone: &Phone,
    purpose: Purpose,
    stored: StoredCode,
    code: &OneTimeCode,
) -> Result<StoredCode, Error> {
    let given = pepper(app)?.digest(phone, purpose, &stored.issue, code);
    if given.matches(&stored.digest) { Ok(stored) } else { Err(WrongCode.into()) }
}

/// Returns the HMAC of the caller's network for a phone. `None` for loopback.
pub fn network(app: &App, phone: &Phone, address: Option<&Address>) -> Result<Option<NetworkDigest>, Error> {
    address.map(|address| pepper(app).map(|pepper| pepper.network(phone, address))).transpose()
}

/// Returns the HMAC of a phone.
pub fn phone_digest(app: &App, phone: &Phone) -> Result<PhoneDigest, Error> {
    pepper(app).map(|pepper| pepper.phone(phone))
}

fn pepper(app: &App) -> Result<&CodePepper, Error> {
    let pepper = app.config.codes.pepper.as_ref();
    pepper.ok_or(Error::Broken("CODE_PEPPER is not set for a function that handles codes"))
}
