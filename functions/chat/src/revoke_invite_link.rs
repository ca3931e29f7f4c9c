use touchline::api::MessageOnly;
use touchline::api::invite_links::RevokeInviteLink;
use touchline::{App, Call, Error, Reply};

use crate::lookup;

/// Revokes the caller's link for a room, or the links of all members if the caller created the room.
///
/// The creator need not be a member any more. A user who has left the room can revoke the own link, too.
pub async fn handle(app: App, call: Call<RevokeInviteLink>) -> Result<Reply<MessageOnly>, Error> {
    let caller = call.caller.user;
    let room = lookup::room(&app, &call.path.chat_room).await?;
    if room.creator_id == Some(caller) {
        app.store.revoke_invite_links(&room.room_id).await?;
        return Ok(MessageOnly { message: "All invite links of this room are revoked.".into() }.into());
    }
    if !app.store.revoke_invite_link(&room.room_id, caller).await?
        && !lookup::has_joined(&app, &room, caller).await?
    {
        return Err(Error::NotAMember);
    }
    Ok(MessageOnly { message: "Your invite link is revoked.".into() }.into())
}

#[cfg(test)]
mod tests {
    use touchline_testing::concurrently;

    use crate::testing::app;

    #[tokio::test]
    async fn the_creator_revokes_all_links_and_a_member_only_the_own_link() {
        let (_app, [alice, bob, carol]) = app().await;
        let room = alice.creates_room("Den").private().await.room_id();
        let of_alice = alice.creates_invite_link(&room).await.link_code();
        bob.accepts_invite_link(&of_alice).await.expect(200);
        let of_bob = bob.creates_invite_link(&room).await.link_code();
        for _ in 0..2 {
            let body = bob.revokes_invite_link(&room).await.expect(200);
            assert_eq!(body["message"], "Your invite link is revoked.");
        }
        carol.accepts_invite_link(&of_bob).await.expect_error(404, "invite_link_not_found");
        assert_eq!(alice.creates_invite_link(&room).await.expect_data(200)["code"], of_alice);

        let of_bob = bob.creates_invite_link(&room).await.link_code();
        for _ in 0..2 {
            let body = alice.revokes_invite_link(&room).await.expect(200);
            assert_eq!(body["message"], "All invite links of this room are revoked.");
        }
        for code in [&of_alice, &of_bob] {
            carol.accepts_invite_link(code).await.expect_error(404, "invite_link_not_found");
        }
        let next = bob.creates_invite_link(&room).await.link_code();
        carol.accepts_invite_link(&next).await.expect(200);
    }

    #[tokio::test]
    async fn strangers_cannot_revoke_links() {
        let (_app, [alice, bob, carol]) = app().await;
        let room = alice.creates_room("Den").private().await.room_id();
        let code = alice.creates_invite_link(&room).await.link_code();
        bob.revokes_invite_link(&room).await.expect_error(403, "not_a_member");
        bob.accepts_invite_link(&code).await.expect(200);
        bob.revokes_invite_link(&room).await.expect(200);
        carol.accepts_invite_link(&code).await.expect(200);
        alice.revokes_invite_link("!nobody:touchline.local").await.expect_error(404, "room_not_found");
    }

    /// A request that began before the revocation may still join. No request that begins after it does.
    #[tokio::test(flavor = "multi_thread")]
    async fn no_code_works_after_a_concurrent_revocation() {
        let (app, [alice, ..]) = app().await;
        let room = alice.creates_room("Den").private().await.room_id();
        let code = alice.creates_invite_link(&room).await.link_code();
        let mut fans = Vec::new();
        for n in 0..8 {
            fans.push(app.user(&format!("fan.{n}")).await);
        }
        let responses = concurrently(9, |n| match fans.get(n) {
            Some(fan) => fan.accepts_invite_link(&code),
            None => alice.revokes_invite_link(&room),
        })
        .await;
        for response in responses {
            if response.status != 200 {
                response.expect_error(404, "invite_link_not_found");
            }
        }
        let late = app.user("late").await;
        late.accepts_invite_link(&code).await.expect_error(404, "invite_link_not_found");
    }
}
