use chrono::NaiveDate;
use futures_util::join;
use touchline::api::login::{LoggedIn, LoginData, LoginInput, UserSummary, VerifyCode};
use touchline::api::{Data, Invalid};
use touchline::domain::code::{NetworkDigest, WrongCode};
use touchline::domain::profile::BirthDateError;
use touchline::domain::session::DeviceName;
use touchline::domain::username::{self, UsernameBase};
use touchline::domain::{Address, BirthDate, Phone, Token, Username};
use touchline::flows::{codes, sessions, sms_guard};
use touchline::http::log_user;
use touchline::storage::users::{NewUser, PhoneOwner, RegisterError, ReserveError, Session, StoredCode};
use touchline::{App, Call, Error, Reply};

pub async fn handle(app: App, call: Call<VerifyCode>) -> Result<Reply<LoggedIn>, Error> {
    Ok(log_in(&app, call.input, call.address.as_ref()).await?.into())
}

/// What a new user enters at the first login.
#[derive(Clone, Copy)]
struct Details<'a> {
    username: Option<&'a Username>,
    date_of_birth: Option<BirthDate>,
}

struct CompletedLogin {
    user: PhoneOwner,
    token: Token,
    is_new_user: bool,
}

/// Logs in with a phone and its code. The first login of a phone creates the user.
pub async fn log_in(app: &App, input: LoginInput, address: Option<&Address>) -> Result<LoggedIn, Error> {
    let LoginInput { phone, code, username, date_of_birth, device_name } = input;
    let wanted = username
        .map(|wanted| wanted.accepted_by(&app.config.names))
        .transpose()
        .map_err(|reason| Invalid::field("username", reason))?;
    let details = Details { username: wanted.as_ref(), date_of_birth };
    let network = codes::network(app, &phone, address)?;
    let code = codes::check_login(app, &phone, &code, address, network.as_ref()).await?;
    let session = new_session(app, device_name);
    let login = complete_login(app, &phone, &code, details, &session, network.as_ref()).await?;
    let CompletedLogin { user, token, is_new_user } = login;
    let notice = wanted.filter(|wanted| is_new_user && *wanted != user.username).map(|wanted| {
        format!(
            "{} is taken, so your username is {} for now. You can change it until you join a chat room.",
            wanted.as_str(),
            user.username.as_str()
        )
    });
    logged_in(app, phone, user, &code, &token, &session, notice).await
}

/// Returns a session that begins now.
pub fn new_session(app: &App, device_name: Option<DeviceName>) -> Session {
    let (now, lifetime) = (app.clock.now(), app.config.sessions);
    Session::starting(app.random.word(10), lifetime.end(now, now) - now, now).named(device_name)
}

/// Counts that the code was entered, logs the user in to chat and returns the response to the login.
pub async fn logged_in(
    app: &App,
    phone: Phone,
    user: PhoneOwner,
    code: &StoredCode,
    token: &Token,
    session: &Session,
    notice: Option<String>,
) -> Result<LoggedIn, Error> {
    log_user(user.user_id);
    if app.config.codes.test_phones.code(&phone).is_some() {
        tracing::info!("a user logged in with a test phone");
    }
    let mut notices: Vec<String> = notice.into_iter().collect();
    let (chat, ()) = join!(
        sessions::log_in_to_chat(app, token, &user.username, &session.device_id),
        sms_guard::count_entry(app, &phone, code)
    );
    let chat = match chat {
        Ok(credentials) => Some(credentials),
        // The session has ended already, with all others of the user. The code is spent.
        Err(Error::Unauthenticated(_)) => return Err(WrongCode.into()),
        // A chat outage must not prevent logins.
        Err(error) => {
            tracing::warn!(%error, "chat login failed; the response has no chat credentials");
            notices.push(
                "Chat is not available at the moment, but you are logged in. Try chat again later.".into(),
            );
            None
        }
    };
    let user =
        UserSummary { id: user.user_id, phone, username: user.username, created_at: user.created_at.into() };
    let data = LoginData { user, token: token.as_str().to_owned(), matrix_credentials: chat };
    Ok(LoggedIn { message: (!notices.is_empty()).then(|| notices.join(" ")), data: Data { data } })
}

/// Spends the code and starts the session. If the session cannot start, the code becomes usable again, so that a
/// retry can succeed.
async fn complete_login(
    app: &App,
    phone: &Phone,
    code: &StoredCode,
    details: Details<'_>,
    session: &Session,
    network: Option<&NetworkDigest>,
) -> Result<CompletedLogin, Error> {
    let nonce = app.random.word(16);
    let (owner, spent) = join!(app.store.phone_owner(phone), app.store.spend_code(phone, code, &nonce));
    let login = match (spent, owner) {
        // If the store failed to spend the code, the code may be spent nevertheless.
        (Err(ReserveError::Store(error)), _) | (Ok(()), Err(error)) => Err(error.into()),
        (Err(error), _) => return Err(error.into()),
        (Ok(()), Ok(Some(owner))) => start_session(app, phone, owner, session, network).await,
        // Only a request with the right code gets this response. Otherwise a stranger could find out whose phone has no user.
        (Ok(()), Ok(None)) if details.date_of_birth.is_none() && app.config.age.asks_at_login => {
            if let Err(error) = app.store.return_attempt(phone, code, network, &nonce).await {
                tracing::warn!(%error, "a login lacks the date of birth but its code stays spent");
            }
            return Err(Invalid::field("date_of_birth", "Enter your date of birth.").into());
        }
        (Ok(()), Ok(None)) => register(app, phone, details, session, network).await,
    };
    // A suspended user keeps the code from being spent again: another login would be rejected, too.
    if login.as_ref().is_err_and(|error| !matches!(error, Error::Suspended))
        && let Err(error) = app.store.unspend_code(phone, code, &nonce).await
    {
        tracing::warn!(%error, "the login failed but its code stays spent");
    }
    login
}

async fn start_session(
    app: &App,
    phone: &Phone,
    user: PhoneOwner,
    session: &Session,
    network: Option<&NetworkDigest>,
) -> Result<CompletedLogin, Error> {
    if user.suspended_at.is_some() {
        return Err(Error::Suspended);
    }
    let token = Token::new(user.user_id, app.random.bytes());
    let new = network.filter(|network| !user.networks.contains(network));
    let remember = async {
        match new {
            Some(network) => app.store.add_network(phone, &user, network).await,
            None => Ok(()),
        }
    };
    let (saved, remembered) = join!(app.store.save_session(&token, session), remember);
    saved?;
    if let Err(error) = remembered {
        tracing::warn!(%error, "cannot store the network of a login");
    }
    Ok(CompletedLogin { user, token, is_new_user: false })
}

/// Creates the user together with their first session, unless they are too young.
async fn register(
    app: &App,
    phone: &Phone,
    details: Details<'_>,
    session: &Session,
    network: Option<&NetworkDigest>,
) -> Result<CompletedLogin, Error> {
    let date_of_birth = match details.date_of_birth {
        Some(date) => Some(accepted(app, phone, date).await?),
        None => None,
    };
    let id = app.store.draw_user_id().await?;
    let token = Token::new(id, app.random.bytes());
    for username in username_candidates(app, details.username) {
        let new = NewUser { id, phone, username: &username, token: &token, session, network, date_of_birth };
        match app.store.register(&new, app.clock.now()).await {
            Ok(user) => {
                return Ok(CompletedLogin { user: PhoneOwner::from(&user), token, is_new_user: true });
            }
            // A concurrent first login of the same phone won the race.
            Err(RegisterError::PhoneOwned(owner)) => {
                return start_session(app, phone, owner, session, network).await;
            }
            Err(RegisterError::NameTaken) => {}
            Err(RegisterError::Store(error)) => return Err(error.into()),
        }
    }
    Err(Error::Broken("no username was free for a new user"))
}

/// Checks the age of a new user. No user is created for a child, so a refusal is stored for the phone.
async fn accepted(app: &App, phone: &Phone, date: BirthDate) -> Result<NaiveDate, Error> {
    let (now, digest) = (app.clock.now(), codes::phone_digest(app, phone)?);
    let remembers = app.config.age.remembers_refusals;
    let mut accepted = date.accepted_on(now.date_naive());
    if remembers && accepted.is_ok() && app.store.is_age_refused(&digest, now).await? {
        accepted = Err(BirthDateError::RefusedBefore);
    }
    if remembers && accepted == Err(BirthDateError::TooYoung) {
        app.store.refuse_age_of_phone(&digest, now).await?;
    }
    accepted.map_err(|error| Invalid::field("date_of_birth", error).into())
}

/// Returns the usernames to try: the wanted one, then similar ones, then random ones that are almost
/// certainly free.
fn username_candidates(app: &App, wanted: Option<&Username>) -> Vec<Username> {
    let mut draw = |below| app.random.below(below);
    let mut names: Vec<Username> = wanted.cloned().into_iter().collect();
    if let Some(wanted) = wanted {
        let base = UsernameBase::from(wanted);
        let similar = username::candidates(&base, true, &app.config.names, &mut draw);
        names.extend(similar.into_iter().take(3));
    }
    names.extend((0..3).map(|_| username::random(&mut draw)));
    names
}

#[cfg(test)]
mod tests;
