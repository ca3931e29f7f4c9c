use touchline::api::matches::Named;
use touchline::api::teams::{SaveOtherTeams, SavedTeams};
use touchline::api::{Invalid, Message};
use touchline::{App, Call, Error, Reply};

pub async fn handle(app: App, call: Call<SaveOtherTeams>) -> Result<Reply<Message<SavedTeams>>, Error> {
    let catalogue = app.catalogue().await?;
    let ids = call.input.team_ids.0;
    let mut teams = Vec::with_capacity(ids.len());
    for id in &ids {
        let unknown = || Invalid::field("team_ids", format!("holds {id}, which is not a team"));
        teams.push(Named::team(&catalogue, *id).ok_or_else(unknown)?);
    }
    app.store.save_other_teams(call.caller.user, &ids).await?;
    Ok(Message { message: "Your other teams are saved.".into(), data: SavedTeams { teams } }.into())
}
