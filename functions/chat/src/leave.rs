use futures_util::future::try_join;
use touchline::api::Message;
use touchline::api::chat::{LeaveRoom, MembershipView};
use touchline::domain::room::Membership;
use touchline::ports::chat::ChatError;
use touchline::storage::Reads;
use touchline::{App, Call, Error, Reply};

/// Whoever is out already stays out, and hears the same.
pub async fn handle(app: App, call: Call<LeaveRoom>) -> Result<Reply<Message<MembershipView>>, Error> {
    let began = app.clock.now();
    let room = crate::room(&app, &call.path.matrix_room_id);
    let (room, user) = try_join(room, crate::caller(&app, call.caller.user)).await?;
    match app.store.member(&room, user.id, Reads::Consistent).await?.map(|member| member.membership) {
        Some(Membership::Join | Membership::Invite) => {
            match app.chat.leave(&room.room_id, &user.username).await {
                // Out already there, or the room is gone.
                Ok(()) | Err(ChatError::Forbidden | ChatError::NotFound) => {}
                Err(error) => return Err(error.into()),
            }
            app.store.leave(&room, user.id, began).await?;
        }
        None if room.is_private => return Err(Error::NotAMember),
        Some(Membership::Leave) | None => {}
    }
    let data = MembershipView { room_id: room.room_id, membership: Membership::Leave };
    Ok(Message { message: "You are not in the chat room any more.".into(), data }.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::{act, app, invite, listed, made, tallied};

    #[tokio::test]
    async fn leaving_and_leaving_again() {
        let (app, [ada, bob, _]) = app().await;
        let room = made(&app, &ada, "Corner", false).await;
        let left = json!({
            "message": "You are not in the chat room any more.",
            "data": { "room_id": room, "membership": "leave" },
        });
        assert_eq!(
            act(&app, &bob, &room, "leave").await.expect(200),
            left,
            "who was never there is not there"
        );
        let _ = act(&app, &bob, &room, "join").await.expect(200);
        for _ in 0..2 {
            assert_eq!(act(&app, &bob, &room, "leave").await.expect(200), left);
        }
        tallied(&app).await;
        let seen = listed(&app, &bob, &room).await.unwrap();
        assert_eq!((&seen["is_joined"], &seen["member_count"]), (&json!(false), &json!(1)));
        let _ = act(&app, &bob, &room, "join").await.expect(200);
    }

    #[tokio::test]
    async fn a_private_room_tells_strangers_nothing() {
        let (app, [ada, bob, cleo]) = app().await;
        let room = made(&app, &ada, "Den", true).await;
        act(&app, &bob, &room, "leave").await.expect_error(403, "not_a_member");
        // An invitation can be turned down.
        let _ = invite(&app, &ada, &room, json!({ "username": "fan.3" })).await.expect(200);
        let _ = act(&app, &cleo, &room, "leave").await.expect(200);
        act(&app, &cleo, &room, "join").await.expect_error(403, "not_allowed");
        act(&app, &ada, "!nobody:touchline.local", "leave").await.expect_error(404, "room_not_found");
    }
}
