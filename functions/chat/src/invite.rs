use futures_util::future::try_join;
use touchline::api::chat::{InvitationView, Invite, InviteInput};
use touchline::api::{Invalid, Message};
use touchline::domain::room::{Member, Membership};
use touchline::domain::{User, UserId};
use touchline::storage::Reads;
use touchline::{App, Call, Error, Reply};

/// Members invite. Somebody who is invited already is invited again, which changes nothing.
pub async fn handle(app: App, call: Call<Invite>) -> Result<Reply<Message<InvitationView>>, Error> {
    let began = app.clock.now();
    let room = crate::room(&app, &call.path.matrix_room_id);
    let (room, by) = try_join(room, crate::caller(&app, call.caller.user)).await?;
    let member = async { app.store.member(&room, by.id, Reads::Consistent).await.map_err(Error::from) };
    let (member, whom) = try_join(member, invited(&app, &call.input)).await?;
    if !member.as_ref().is_some_and(Member::has_joined) {
        return Err(Error::NotAMember);
    }
    let member = app.store.member(&room, whom.id, Reads::Eventual).await?;
    if member.as_ref().is_some_and(Member::has_joined) {
        return Err(Error::AlreadyAMember);
    }
    app.chat.invite(&room.room_id, &by.username, &whom.username).await?;
    if !app.store.invite(&room, whom.id, began).await? {
        return Err(Error::AlreadyAMember);
    }
    let data = InvitationView { room_id: room.room_id, user_id: whom.id, membership: Membership::Invite };
    Ok(Message { message: format!("{} is invited.", whom.username.as_str()), data }.into())
}

async fn invited(app: &App, input: &InviteInput) -> Result<User, Error> {
    let id: UserId = match (input.user_id, &input.username) {
        (Some(id), None) => id,
        (None, Some(name)) => app.store.user_named(name).await?.ok_or(Error::UserNotFound)?,
        _ => return Err(Invalid::field("user_id", "Send either user_id or username.").into()),
    };
    app.store.user(id, Reads::Eventual).await?.ok_or(Error::UserNotFound)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::{act, app, invite, made};

    #[tokio::test]
    async fn by_number_or_by_name_and_more_than_once() {
        let (app, [ada, bob, _]) = app().await;
        let room = made(&app, &ada, "Den", true).await;
        for whom in [json!({ "user_id": 2 }), json!({ "username": "Fan.2" })] {
            assert_eq!(
                invite(&app, &ada, &room, whom).await.expect(200),
                json!({
                    "message": "fan.2 is invited.",
                    "data": { "room_id": room, "user_id": 2, "membership": "invite" },
                })
            );
        }
        let _ = act(&app, &bob, &room, "join").await.expect(200);
        invite(&app, &ada, &room, json!({ "user_id": 2 })).await.expect_error(409, "already_a_member");
        invite(&app, &ada, &room, json!({ "user_id": 1 })).await.expect_error(409, "already_a_member");
    }

    #[tokio::test]
    async fn only_members_invite_and_only_people() {
        let (app, [ada, bob, _]) = app().await;
        let room = made(&app, &ada, "Den", true).await;
        invite(&app, &bob, &room, json!({ "user_id": 3 })).await.expect_error(403, "not_a_member");
        let _ = invite(&app, &ada, &room, json!({ "user_id": 2 })).await.expect(200);
        invite(&app, &bob, &room, json!({ "user_id": 3 })).await.expect_error(403, "not_a_member");
        for whom in [json!({ "user_id": 999 }), json!({ "username": "nobody" })] {
            invite(&app, &ada, &room, whom).await.expect_error(404, "user_not_found");
        }
        for whom in [json!({}), json!({ "user_id": 2, "username": "fan.2" }), json!({ "user_id": "x" })] {
            invite(&app, &ada, &room, whom).await.expect_error(422, "validation_error");
        }
    }
}
