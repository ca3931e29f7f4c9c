//! What each piece of work does. All of it can be repeated.

use touchline::domain::cleanup::Work;
use touchline::domain::sms;
use touchline::storage::users::Which;
use touchline::{App, Error};

pub async fn run(app: &App, work: &Work) -> Result<(), Error> {
    match work {
        Work::LogOutDevice { username, device_id, .. } => Ok(app.chat.log_out(username, device_id).await?),
        Work::LogOutDevices { username } => Ok(app.chat.log_out_everywhere(username).await?),
        Work::EndSessions { user, until, except } => {
            let which = Which::All { until: *until, except: except.as_ref() };
            app.store.end_sessions(*user, which, app.clock.now()).await?;
            Ok(())
        }
        Work::TellOldPhone { phone, .. } => {
            app.sms.send(phone, &sms::phone_changed_text()).await.outcome?;
            Ok(())
        }
    }
}
