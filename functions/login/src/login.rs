use touchline::api::login::{LoggedIn, Login};
use touchline::{App, Call, Error, Reply};

use crate::verify_code;

/// Does the same as [`verify_code`], at the path `/api/auth/login`.
pub async fn handle(app: App, call: Call<Login>) -> Result<Reply<LoggedIn>, Error> {
    Ok(verify_code::log_in(&app, call.input, call.address.as_ref()).await?.into())
}
