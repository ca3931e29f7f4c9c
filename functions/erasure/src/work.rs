//! What each piece of work does. All of it can be repeated.

use chrono::{DateTime, Utc};

use touchline::domain::Phone;
use touchline::domain::cleanup::Work;
use touchline::domain::recovery::UNDO_FOR;
use touchline::domain::sms;
use touchline::domain::sms_guard::Message;
use touchline::flows::{blocks, sms_guard};
use touchline::storage::users::{Erasure, Which};
use touchline::{App, Error};

/// Runs work that was stored at `since`. Returns false if a part of it is left.
pub async fn run(app: &App, work: &Work, since: DateTime<Utc>) -> Result<bool, Error> {
    match work {
        Work::LogOutDevice { username, device_id, .. } => app.chat.log_out(username, device_id).await?,
        Work::LogOutDevices { username } => app.chat.log_out_everywhere(username).await?,
        Work::EndSessions { user, until, except } => {
            let which = Which::All { until: *until, except: except.as_ref() };
            app.store.end_sessions(*user, which, app.clock.now()).await?;
        }
        Work::SyncIgnoredUsers { user } => {
            // The homeserver may have carried out an older request after a newer one, so write the list in any case.
            app.store.mark_blocks_unsynced(*user).await?;
            blocks::sync_ignored_users(app, *user).await?;
        }
        // After this time, the owner cannot undo the change any more.
        Work::TellOldPhone { user, .. } if app.clock.now() - since >= UNDO_FOR => {
            tracing::error!(%user, "the owner of a replaced phone was not told: no text message could be sent");
        }
        Work::TellOldPhone { phone, .. } => tell_old_phone(app, phone).await?,
        Work::EraseUser { user, usernames, phone, previous_phone } => {
            let previous_phone = previous_phone.as_ref();
            app.store.erase_user(&Erasure { user: *user, usernames, phone, previous_phone, since }).await?;
        }
        Work::EraseChat { usernames, .. } => {
            for username in usernames {
                if !app.chat.erase_user(username).await? {
                    return Ok(false);
                }
            }
        }
    }
    Ok(true)
}

/// Sends the notice within the limits of text messages. If they do not allow it yet, a later run sends it.
async fn tell_old_phone(app: &App, phone: &Phone) -> Result<(), Error> {
    let reserved = sms_guard::reserve(app, Message::Notice, phone, None, app.clock.now()).await?;
    let sent = app.sms.send(phone, &sms::phone_changed_text()).await.outcome;
    if sent.is_err() {
        sms_guard::release(app, &reserved).await?;
    }
    Ok(sent?)
}
