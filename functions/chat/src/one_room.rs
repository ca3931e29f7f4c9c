use futures_util::future::try_join;
use touchline::api::Data;
use touchline::api::chat::{GetRoom, ListedRoom};
use touchline::domain::room::{Member, Membership};
use touchline::domain::{Room, UserId};
use touchline::storage::Reads;
use touchline::{App, Call, Error, Reply};

use crate::lookup;

/// Returns the room as lists show it, to the users to whom they show it.
pub async fn handle(app: App, call: Call<GetRoom>) -> Result<Reply<Data<ListedRoom>>, Error> {
    let (id, user) = (&call.path.chat_room, call.caller.user);
    let counts = async { app.store.room_counts(id).await.map_err(Error::from) };
    let (room, counts) = try_join(lookup::room(&app, id), counts).await?;
    // Strongly consistent: apps read a room right after joining it.
    let member = async { app.store.member(&room, user, Reads::Consistent).await.map_err(Error::from) };
    let catalog = async {
        match room.event_id {
            // Without the catalog, the room is shown without its match, as in lists.
            Some(event) => Ok(app.catalog_with(&[event]).await.ok()),
            None => Ok(None),
        }
    };
    let (member, catalog) = try_join(member, catalog).await?;
    if room.is_private && !is_listed(&app, &room, user, member.as_ref()).await? {
        return Err(Error::NotAMember);
    }
    let is_joined = member.as_ref().is_some_and(Member::has_joined);
    let data = ListedRoom::of(room, counts.totals.members, is_joined, catalog.as_deref());
    Ok(Data { data }.into())
}

/// Returns whether lists show a private room to a user: to a member, and to an invited user who has not blocked the sender of the
/// invitation.
async fn is_listed(app: &App, room: &Room, user: UserId, member: Option<&Member>) -> Result<bool, Error> {
    match member.map(|member| member.membership) {
        Some(Membership::Join) => Ok(true),
        Some(Membership::Invite) => {
            let (blocks, senders) =
                try_join(app.store.blocks(user, Reads::Eventual), app.store.inviters([room], user)).await?;
            let sender = senders.get(&room.room_id).copied().or(room.creator_id);
            Ok(!sender.is_some_and(|sender| blocks.blocks.contains(sender)))
        }
        Some(Membership::Leave) | None => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use crate::testing::{app, process_changes};

    #[tokio::test]
    async fn a_room_is_shown_as_in_a_list() {
        let (app, [alice, bob, _]) = app().await;
        let match_room = "!match1:touchline.local";
        alice.joins(match_room).await.expect(200);
        assert_eq!(alice.views_room(match_room).await.expect_data(200)["is_joined"], true);
        let plaza = alice.creates_room("Plaza").topic("Corners").await.room_id();
        process_changes(&app).await;
        for user in [&alice, &bob] {
            for room in [match_room, &plaza] {
                let list = user.lists_rooms().await.expect_data(200);
                let listed = list.as_array().unwrap().iter().find(|row| row["room_id"] == room);
                assert_eq!(Some(&user.views_room(room).await.expect_data(200)), listed, "{room}");
            }
        }
        let shown = bob.views_room(match_room).await.expect_data(200);
        assert_eq!((&shown["event"]["id"], &shown["member_count"]), (&Value::from(1), &Value::from(1)));
        bob.views_room("unknown").await.expect_error(404, "room_not_found");
        bob.views_room("!unknown:touchline.local").await.expect_error(404, "room_not_found");
    }

    #[tokio::test]
    async fn a_private_room_is_shown_to_members_and_invited_users_only() {
        let (_app, [alice, bob, carol]) = app().await;
        let den = alice.creates_room("Den").private().await.room_id();
        bob.views_room(&den).await.expect_error(403, "not_a_member");
        alice.invites_to(&den).user(bob.id).await.expect(200);
        assert_eq!(bob.views_room(&den).await.expect_data(200)["is_joined"], false);
        carol.views_room(&den).await.expect_error(403, "not_a_member");
        alice.invites_to(&den).user(carol.id).await.expect(200);
        carol.blocks(alice.id).await.expect(200);
        carol.views_room(&den).await.expect_error(403, "not_a_member");
        bob.joins(&den).await.expect(200);
        assert_eq!(bob.views_room(&den).await.expect_data(200)["is_joined"], true);
        bob.leaves(&den).await.expect(200);
        bob.views_room(&den).await.expect_error(403, "not_a_member");
    }
}
