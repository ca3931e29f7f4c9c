use touchline::api::MessageOnly;
use touchline::api::account::ConfirmDeletion;
use touchline::domain::time::midnight_after;
use touchline::domain::{Limited, User, UserId};
use touchline::flows::{codes, sms_guard};
use touchline::storage::Reads;
use touchline::storage::users::{DeleteAccount, DeletionCode, Which};
use touchline::{App, Call, Error, Reply};

use crate::delete_account::check_phone_is_settled;
use crate::no_profile::NO_PROFILE;

pub async fn handle(app: App, call: Call<ConfirmDeletion>) -> Result<Reply<MessageOnly>, Error> {
    let user = app.store.user(call.caller.user, Reads::Consistent).await?.ok_or(NO_PROFILE)?;
    check_phone_is_settled(&app, &user)?;
    let code = codes::check_deletion(&app, &user.phone, user.id, &call.input.code).await?;
    let nonce = app.random.word(16);
    prepare(&app, &user).await?;
    let deletion = DeleteAccount { user: &user, code: DeletionCode::Own(&code), nonce: &nonce };
    app.store.delete_account(&deletion, app.clock.now()).await?;
    sms_guard::count_entry(&app, &user.phone, &code).await;
    end_all_sessions(&app, user.id).await;
    Ok(deleted().into())
}

/// Stores what must outlive the account, under an HMAC of the phone: the number of deletions today, and a refused age, so that
/// a child cannot enter another date of birth with a new account.
pub async fn prepare(app: &App, user: &User) -> Result<(), Error> {
    let (phone, now) = (codes::phone_digest(app, &user.phone)?, app.clock.now());
    if !app.store.count_deletion(&phone, now).await? {
        return Err(Limited { retry_after: midnight_after(now.date_naive()) - now }.into());
    }
    if let Some(refused_at) = user.age_refused_at {
        app.store.refuse_age_of_phone(&phone, refused_at).await?;
    }
    Ok(())
}

/// Ends all sessions of a deleted user. If this fails, `erasure` deletes them a moment later.
pub async fn end_all_sessions(app: &App, user: UserId) {
    let now = app.clock.now();
    let all = Which::All { until: chrono::DateTime::<chrono::Utc>::MAX_UTC, except: None };
    if let Err(error) = app.store.end_sessions(user, all, now).await {
        tracing::warn!(%error, "the sessions of a deleted user have not ended yet");
    }
}

pub fn deleted() -> MessageOnly {
    MessageOnly { message: "Your account is deleted. We are deleting the rest of your data.".into() }
}

#[cfg(test)]
mod tests;
