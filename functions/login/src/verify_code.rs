use futures_util::{TryFutureExt as _, try_join};
use touchline::api::Data;
use touchline::api::login::{LoggedIn, LoginData, PhoneAndCode, UserSummary, VerifyCode};
use touchline::domain::username::{self, Base};
use touchline::domain::{Phone, Purpose, Token, User, UserId, Username};
use touchline::storage::users::{NewUser, RegisterError, Session};
use touchline::{App, Call, Error, Reply, codes};

pub async fn handle(app: App, call: Call<VerifyCode>) -> Result<Reply<LoggedIn>, Error> {
    Ok(log_in(&app, call.input).await?.into())
}

/// A phone and its code become a session; a phone nobody owns becomes a user first.
pub async fn log_in(app: &App, input: PhoneAndCode) -> Result<LoggedIn, Error> {
    let PhoneAndCode { phone, code, username } = input;
    let kept = codes::check(app, &phone, Purpose::Login, None, &code).await?;
    let nonce = app.random.word(16);
    let (owner, ()) = try_join!(
        app.store.phone_owner(&phone).map_err(Error::from),
        app.store.spend_code(&phone, &kept, &nonce).map_err(Error::from),
    )?;

    let session = Session::starting(app.random.word(10), app.config.session_length, app.clock.now());
    let wanted = username.map(|chosen| chosen.0);
    let (user, token) = match owner {
        Some(id) => returning(app, id, &session).await?,
        None => newcomer(app, &phone, wanted.as_ref(), &session).await?,
    };

    let mut remarks = Vec::new();
    if let Some(wanted) = wanted.filter(|wanted| owner.is_none() && *wanted != user.username) {
        remarks.push(format!(
            "The username {} is taken. You are {} for now; update-user-info can change it.",
            wanted.as_str(),
            user.username.as_str()
        ));
    }
    // The chat network being away is no reason to keep somebody out.
    let chat = app.chat.log_in(&user.username, &session.device_id).await;
    if let Err(error) = &chat {
        tracing::warn!(%error, "login without chat credentials");
        remarks.push("Chat is not available at the moment; ask for chat credentials again later.".into());
    }
    Ok(LoggedIn {
        message: (!remarks.is_empty()).then(|| remarks.join(" ")),
        data: Data {
            data: LoginData {
                user: UserSummary::from(&user),
                token: token.as_str().to_owned(),
                matrix_credentials: chat.ok(),
            },
        },
    })
}

async fn returning(app: &App, id: UserId, session: &Session) -> Result<(User, Token), Error> {
    let token = Token::new(id, app.random.bytes());
    let (user, ()) = try_join!(app.store.user_cheaply(id), app.store.save_session(&token, session))?;
    let user = match user {
        Some(user) => user,
        // The cheap read may be older than a registration that has just ended elsewhere.
        None => app.store.user(id).await?.ok_or(Error::Broken("a phone's owner has no record"))?,
    };
    Ok((user, token))
}

async fn newcomer(
    app: &App,
    phone: &Phone,
    wanted: Option<&Username>,
    session: &Session,
) -> Result<(User, Token), Error> {
    let id = app.store.draw_user_id().await?;
    let token = Token::new(id, app.random.bytes());
    for username in names_to_try(app, wanted) {
        let new = NewUser { id, phone, username: &username, token: &token, session };
        match app.store.register(&new, app.clock.now()).await {
            Ok(user) => return Ok((user, token)),
            // Another first login of the same phone was quicker.
            Err(RegisterError::PhoneOwned(owner)) => return returning(app, owner, session).await,
            Err(RegisterError::NameTaken) => {}
            Err(RegisterError::Store(error)) => return Err(error.into()),
        }
    }
    Err(Error::Broken("no username was free for a newcomer"))
}

/// The wanted name, names like it, and at last names that are as good as certainly free.
fn names_to_try(app: &App, wanted: Option<&Username>) -> Vec<Username> {
    let mut draw = |below| app.random.below(below);
    let mut names: Vec<Username> = wanted.cloned().into_iter().collect();
    if let Some(wanted) = wanted {
        names.extend(username::candidates(&Base::from(wanted), true, &mut draw).into_iter().take(3));
    }
    names.extend((0..3).map(|_| username::for_a_newcomer(&mut draw)));
    names
}
