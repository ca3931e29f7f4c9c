use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use chrono::{DateTime, Utc};
use futures_util::future::try_join;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use touchline::api::Message;
use touchline::api::chat::{LeaveRoom, MembershipView};
use touchline::domain::room::{Member, Membership};
use touchline::domain::{Room, RoomId, User, UserId};
use touchline::ports::chat::ChatError;
use touchline::storage::Reads;
use touchline::storage::members::MembershipRequest;
use touchline::{App, Call, Error, Reply};

use crate::lookup;

/// Leaves a room, or declines an invitation. The response is the same if the caller has already left the room.
/// It is also the same if the room is public and the caller never joined it.
pub async fn handle(app: App, call: Call<LeaveRoom>) -> Result<Reply<Message<MembershipView>>, Error> {
    let began = app.clock.now();
    let room = lookup::room(&app, &call.path.matrix_room_id);
    let (room, user) = try_join(room, lookup::caller(&app, call.caller.user)).await?;
    let before = app.store.member(&room, user.id, Reads::Consistent).await?;
    if before.is_none() && room.is_private {
        return Err(Error::NotAMember);
    }
    // The homeserver decides, even if no membership is stored: the event of a join may still be on the way.
    match app.chat.leave(&room.room_id, &user.username).await {
        // Both errors mean that there is nothing to leave: the user is not in the room, or the homeserver has no such
        // room.
        Ok(()) | Err(ChatError::Forbidden | ChatError::NotFound) => {}
        Err(error) => return Err(error.into()),
    }
    store(&app, &room, &user, before.as_ref(), began).await?;
    let data = MembershipView { room_id: room.room_id, membership: Membership::Leave };
    Ok(Message { message: "You left the room.".into(), data }.into())
}

async fn store(
    app: &App,
    room: &Room,
    user: &User,
    before: Option<&Member>,
    began: DateTime<Utc>,
) -> Result<(), Error> {
    let request = MembershipRequest::new(room, user.id, before, began, app.random.number());
    Ok(app.store.leave(&request).await?)
}

/// The number of invitations that are declined concurrently.
const CONCURRENT: usize = 8;

/// Declines the open invitations that another user has sent. One from a Matrix client has no sender, and counts as sent by the
/// creator of the room.
pub async fn decline_all(app: &App, user: &User, inviter: UserId) -> Result<(), Error> {
    let began = app.clock.now();
    let invitations = app.store.open_invitations(user.id, app.config.chat.limits.open_invitations).await?;
    let senders: HashMap<RoomId, Option<UserId>> =
        invitations.into_iter().map(|invitation| (invitation.room_id, invitation.invited_by)).collect();
    let ids: Vec<RoomId> = senders.keys().cloned().collect();
    let mut rooms = app.store.rooms(&ids, Reads::Eventual).await?;
    rooms.retain(|id, room| senders[id].or(room.creator_id) == Some(inviter));
    let is_chat_available = AtomicBool::new(true);
    let declined: Vec<_> =
        rooms.values().map(|room| decline(app, room, user, began, &is_chat_available)).collect();
    stream::iter(declined).buffer_unordered(CONCURRENT).try_collect().await
}

async fn decline(
    app: &App,
    room: &Room,
    user: &User,
    began: DateTime<Utc>,
    is_chat_available: &AtomicBool,
) -> Result<(), Error> {
    let before = app.store.member(room, user.id, Reads::Consistent).await?;
    if before.as_ref().is_none_or(|member| member.membership != Membership::Invite) {
        return Ok(());
    }
    // The chat account ignores the inviter and hides the invitation, so it need not be declined there.
    if is_chat_available.load(Ordering::Relaxed)
        && let Err(error) = app.chat.leave(&room.room_id, &user.username).await
    {
        is_chat_available.store(!matches!(error, ChatError::Unavailable(_)), Ordering::Relaxed);
        tracing::warn!(%error, "an invitation of a blocked user is not declined in chat");
    }
    store(app, room, user, before.as_ref(), began).await
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::AttributeValue;
    use chrono::TimeDelta;
    use serde_json::json;
    use touchline::domain::UserId;
    use touchline::domain::room::{Membership, RoomId};
    use touchline::storage::keys::{self, Key};
    use touchline_testing::next_position;

    use crate::testing::{app, listed, process_changes};

    #[tokio::test]
    async fn leaving_is_idempotent() {
        let (app, [alice, bob, _]) = app().await;
        let room = alice.creates_room("Corner").await.room_id();
        let left = json!({
            "message": "You left the room.",
            "data": { "room_id": room, "membership": "leave" },
        });
        assert_eq!(bob.leaves(&room).await.expect(200), left, "bob never joined");
        bob.joins(&room).await.expect(200);
        for _ in 0..2 {
            assert_eq!(bob.leaves(&room).await.expect(200), left);
        }
        process_changes(&app).await;
        let seen = listed(&bob, &room).await.unwrap();
        assert_eq!((&seen["is_joined"], &seen["member_count"]), (&json!(false), &json!(1)));
        bob.joins(&room).await.expect(200);
    }

    /// Otherwise, a user who joins and leaves rooms would add rows forever.
    #[tokio::test]
    async fn an_ended_membership_expires_unless_it_begins_again() {
        let (app, [alice, bob, _]) = app().await;
        let room = alice.creates_room("Corner").await.room_id();
        let room = app.store.room(&RoomId::parse(&room).unwrap()).await.unwrap().unwrap();
        let expires_at = async |user: u32| {
            let Key { pk, sk } = keys::member(&room.room_id, room.shards, UserId(user));
            let read = app.client().get_item().table_name(&app.config.tables.rooms);
            let read = read.key("pk", AttributeValue::S(pk)).key("sk", AttributeValue::S(sk)).send().await;
            read.unwrap().item?.get("expires_at")?.as_n().ok()?.parse::<i64>().ok()
        };
        let id = room.room_id.as_str();
        bob.joins(id).await.expect(200);
        assert_eq!(expires_at(2).await, None);
        bob.leaves(id).await.expect(200);
        let in_30_days = app.clock.now() + TimeDelta::days(30);
        assert_eq!(expires_at(2).await, Some(in_30_days.timestamp()));
        bob.joins(id).await.expect(200);
        assert_eq!(expires_at(2).await, None);
        // The same for what the homeserver reports.
        for (membership, expires) in [
            (Membership::Leave, Some(in_30_days.timestamp())),
            (Membership::Invite, None),
            (Membership::Leave, Some(in_30_days.timestamp())),
            (Membership::Join, None),
        ] {
            let at = app.clock.now();
            app.store
                .apply_homeserver_membership(&room, UserId(3), (membership, at), next_position())
                .await
                .unwrap();
            assert_eq!(expires_at(3).await, expires, "{membership:?}");
        }
    }

    #[tokio::test]
    async fn only_members_and_invited_users_can_leave_a_private_room() {
        let (_app, [alice, bob, carol]) = app().await;
        let room = alice.creates_room("Den").private().await.room_id();
        bob.leaves(&room).await.expect_error(403, "not_a_member");
        // Leaving declines an invitation.
        alice.invites_to(&room).username("carol").await.expect(200);
        carol.leaves(&room).await.expect(200);
        carol.joins(&room).await.expect_error(403, "not_allowed");
    }

    #[tokio::test]
    async fn unknown_room_ids_are_404() {
        let (_app, [alice, ..]) = app().await;
        alice.leaves("!nobody:touchline.local").await.expect_error(404, "room_not_found");
    }
}
