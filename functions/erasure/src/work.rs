//! What each piece of work does. All of it can be repeated.

use chrono::{DateTime, Utc};

use touchline::domain::cleanup::Work;
use touchline::domain::sms;
use touchline::flows::blocks;
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
        Work::TellOldPhone { phone, .. } => {
            app.sms.send(phone, &sms::phone_changed_text()).await.outcome?;
        }
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
