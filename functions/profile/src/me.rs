use touchline::api::Data;
use touchline::api::profile::{Me, WholeUser};
use touchline::{App, Call, Error, Reply};

use crate::NO_RECORD;

pub async fn handle(app: App, call: Call<Me>) -> Result<Reply<Data<WholeUser>>, Error> {
    let user = app.store.user(call.caller.user).await?.ok_or(NO_RECORD)?;
    Ok(Data { data: user.into() }.into())
}
