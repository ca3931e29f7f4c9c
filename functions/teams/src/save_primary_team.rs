use touchline::api::Message;
use touchline::api::matches::Named;
use touchline::api::teams::{SavePrimaryTeam, SavedTeam};
use touchline::{App, Call, Error, Reply};

pub async fn handle(app: App, call: Call<SavePrimaryTeam>) -> Result<Reply<Message<SavedTeam>>, Error> {
    let catalogue = app.catalogue().await?;
    let team = Named::team(&catalogue, call.input.team_id.0).ok_or(Error::TeamNotFound)?;
    app.store.save_primary_team(call.caller.user, team.id).await?;
    Ok(Message { message: format!("{} is your team.", team.name), data: SavedTeam { team } }.into())
}
