use chrono::{DateTime, Utc};
use futures_util::future::{try_join, try_join4};
use touchline::api::chat::{InvitationView, Invite, InviteInput};
use touchline::api::{Invalid, Message};
use touchline::domain::block::Blocks;
use touchline::domain::limit::{
    DailyAction, DayLimitReached, INVITATIONS_TO_ONE_USER_PER_DAY, action_id, action_on, user_of_action,
};
use touchline::domain::room::{Member, Membership};
use touchline::domain::{Room, User, UserId};
use touchline::storage::Reads;
use touchline::storage::members::{MembershipRequest, OpenInvitation};
use touchline::{App, Call, Error, Reply};

use crate::{day_limit, lookup};

/// Invites a user to a room. Any member can invite, and a second invitation of the same user changes nothing.
pub async fn handle(app: App, call: Call<Invite>) -> Result<Reply<Message<InvitationView>>, Error> {
    let began = app.clock.now();
    let room = lookup::room(&app, &call.path.matrix_room_id);
    let (room, caller) = try_join(room, lookup::caller(&app, call.caller.user)).await?;
    let (has_joined, Invitee { user: invitee, before, invitations, blocks }) =
        try_join(lookup::has_joined(&app, &room, caller.id), invitee(&app, &room, &call.input)).await?;
    if !has_joined {
        return Err(Error::NotAMember);
    }
    let is_blocked = blocks.contains(caller.id);
    let invitation = Invitation { room: &room, caller: &caller, invitee: &invitee, before: before.as_ref() };
    match invitation.before.map(|member| member.membership) {
        Some(Membership::Join) => return Err(Error::AlreadyAMember),
        _ if is_blocked => return Err(Error::InvitationRejected),
        // A repeated request. The homeserver still gets it: the user may have declined the invitation there.
        Some(Membership::Invite) => invitation.send(&app, began).await?,
        Some(Membership::Leave) | None => {
            if let Some(limit) = reached(&app, &invitations, caller.id) {
                return Err(Error::TooManyInvitations { limit });
            }
            let id = action_on(invitee.id, invitation.id());
            let pending = day_limit::count(&app, caller.id, DailyAction::SendInvitation, id).await?;
            let to_invitee = pending.before().filter(|id| user_of_action(*id) == Some(invitee.id)).count();
            let sent = if to_invitee < INVITATIONS_TO_ONE_USER_PER_DAY {
                invitation.send(&app, began).await
            } else {
                let limit = INVITATIONS_TO_ONE_USER_PER_DAY;
                Err(DayLimitReached::new(DailyAction::InviteOneUser, limit, began).into())
            };
            pending.end(&app, sent).await?;
        }
    }
    let data = InvitationView { room_id: room.room_id, user_id: invitee.id, membership: Membership::Invite };
    Ok(Message { message: format!("You invited {}.", invitee.username.as_str()), data }.into())
}

/// How many open invitations of one user another user can have. So a few users cannot use up all that a user can have.
const FROM_ONE_USER: usize = 5;

/// Returns the limit of open invitations that the invited user has reached, if any.
fn reached(app: &App, invitations: &[OpenInvitation], caller: UserId) -> Option<usize> {
    let limit = app.config.chat.limits.open_invitations;
    let from_caller = invitations.iter().filter(|invitation| invitation.invited_by == Some(caller)).count();
    if invitations.len() >= limit {
        return Some(limit);
    }
    (from_caller >= FROM_ONE_USER).then_some(FROM_ONE_USER)
}

/// An invitation that is not sent yet.
struct Invitation<'a> {
    room: &'a Room,
    caller: &'a User,
    invitee: &'a User,
    before: Option<&'a Member>,
}

impl Invitation<'_> {
    /// Returns the id under which the invitation counts against the limit per day. A retry has the same id until the
    /// membership has changed.
    fn id(&self) -> u64 {
        let asked = self.before.and_then(|member| member.asked.as_deref()).unwrap_or_default();
        let heard = self.before.and_then(|member| member.heard).map_or(0, |heard| heard.0).to_string();
        action_id(&[self.room.room_id.as_str(), &self.invitee.id.to_string(), asked, &heard])
    }

    async fn send(&self, app: &App, began: DateTime<Utc>) -> Result<(), Error> {
        let Self { room, caller, invitee, before } = self;
        app.chat.invite(&room.room_id, &caller.username, &invitee.username).await?;
        let nonce = app.random.number();
        let request = MembershipRequest::new(room, invitee.id, *before, began, nonce).invited_by(caller.id);
        if app.store.invite(&request).await? { Ok(()) } else { Err(Error::AlreadyAMember) }
    }
}

/// What an invitation needs to know of the invited user.
struct Invitee {
    user: User,
    /// The membership of the room before the invitation.
    before: Option<Member>,
    invitations: Vec<OpenInvitation>,
    /// The users whom the user has blocked.
    blocks: Blocks,
}

async fn invitee(app: &App, room: &Room, input: &InviteInput) -> Result<Invitee, Error> {
    let id: UserId = match (input.user_id, &input.username) {
        (Some(id), None) => id,
        (None, Some(name)) => app.store.user_named(name).await?.ok_or(Error::UserNotFound)?,
        _ => return Err(Invalid::field("user_id", "Send either user_id or username.").into()),
    };
    let limit = app.config.chat.limits.open_invitations;
    let (user, before, invitations, stored) = try_join4(
        app.store.find_user(id),
        app.store.member(room, id, Reads::Consistent),
        app.store.open_invitations(id, limit),
        app.store.blocks(id, Reads::Eventual),
    )
    .await?;
    let user = user.ok_or(Error::UserNotFound)?;
    Ok(Invitee { user, before, invitations, blocks: stored.blocks })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use touchline::domain::UserId;
    use touchline::domain::limit::INVITATIONS_TO_ONE_USER_PER_DAY;
    use touchline_testing::{HomeserverStandIn, concurrently};

    use crate::testing::{app, builder};

    #[tokio::test]
    async fn a_user_can_be_invited_by_id_and_again_by_username() {
        let (_app, [alice, bob, _]) = app().await;
        let room = alice.creates_room("Den").private().await.room_id();
        let invites = alice.invites_to(&room);
        for invitation in [invites.clone().user(bob.id), invites.clone().username("Bob")] {
            assert_eq!(
                invitation.await.expect(200),
                json!({
                    "message": "You invited bob.",
                    "data": { "room_id": room, "user_id": bob.id, "membership": "invite" },
                })
            );
        }
        bob.joins(&room).await.expect(200);
        invites.clone().user(bob.id).await.expect_error(409, "already_a_member");
        invites.user(alice.id).await.expect_error(409, "already_a_member");
    }

    #[tokio::test]
    async fn an_invited_user_can_change_the_username_and_then_join() {
        let homeserver = HomeserverStandIn::start().await;
        let app = builder()
            .variable("CHAT_HOMESERVER_URL", homeserver.url())
            .variable("CHAT_AS_TOKEN", "the-token-of-the-tests")
            .start()
            .await;
        let [alice, bob] = [app.user("alice").await, app.user("bob").await];
        let room = alice.creates_room("Den").private().await.room_id();
        alice.invites_to(&room).user(bob.id).await.expect(200);
        bob.updates_profile().username("robert").await.expect(200);
        let _ = homeserver.take_requests();
        bob.joins(&room).await.expect(200);
        // The homeserver knows the invitation by the former username, so alice invites the new username.
        let requests = homeserver.take_requests();
        assert_eq!(requests.iter().filter(|request| request.ends_with("/invite")).count(), 1, "{requests:?}");
        bob.updates_profile().username("bob").await.expect_error(409, "username_locked");
    }

    #[tokio::test]
    async fn one_user_can_have_only_five_open_invitations_of_another() {
        let (_app, [alice, bob, carol]) = app().await;
        let mut rooms = Vec::new();
        for n in 0..6 {
            rooms.push(alice.creates_room(&format!("Den {n}")).private().await.room_id());
        }
        for room in &rooms[..5] {
            alice.invites_to(room).user(carol.id).await.expect(200);
        }
        alice.invites_to(&rooms[5]).user(carol.id).await.expect_error(422, "too_many_invitations");
        let lair = bob.creates_room("Lair").private().await.room_id();
        bob.invites_to(&lair).user(carol.id).await.expect(200);
        carol.leaves(&rooms[0]).await.expect(200);
        alice.invites_to(&rooms[5]).user(carol.id).await.expect(200);
    }

    #[tokio::test]
    async fn concurrent_invitations_of_one_user_are_limited() {
        let (app, [alice, _, carol]) = app().await;
        let mut rooms = Vec::new();
        for n in 0..12 {
            rooms.push(alice.creates_room(&format!("Den {n}")).private().await.room_id());
        }
        concurrently(12, |n| alice.invites_to(&rooms[n]).user(carol.id)).await;
        let open = app.store.open_invitations(UserId(carol.id), usize::MAX).await.unwrap();
        assert!(open.len() <= INVITATIONS_TO_ONE_USER_PER_DAY, "{} invitations are open", open.len());
    }

    #[tokio::test]
    async fn only_members_can_invite() {
        let (_app, [alice, bob, carol]) = app().await;
        let room = alice.creates_room("Den").private().await.room_id();
        bob.invites_to(&room).user(carol.id).await.expect_error(403, "not_a_member");
        // An invited user is not a member yet.
        alice.invites_to(&room).user(bob.id).await.expect(200);
        bob.invites_to(&room).user(carol.id).await.expect_error(403, "not_a_member");
    }

    #[tokio::test]
    async fn an_invitation_must_name_one_existing_user_by_either_id_or_username() {
        let (_app, [alice, bob, _]) = app().await;
        let room = alice.creates_room("Den").private().await.room_id();
        let invites = alice.invites_to(&room);
        invites.clone().user(999).await.expect_error(404, "user_not_found");
        invites.clone().username("nobody").await.expect_error(404, "user_not_found");
        for invalid in [
            invites.clone().body(json!({})),
            invites.clone().user(bob.id).username("bob"),
            invites.field("user_id", "x"),
        ] {
            invalid.await.expect_invalid(&["user_id"]);
        }
    }

    #[tokio::test]
    async fn a_user_has_only_so_many_open_invitations() {
        let app = builder()
            .variable("MAX_OPEN_INVITATIONS", "1")
            .variable("INVITATIONS_PER_DAY", "2")
            .start()
            .await;
        let [alice, bob, carol] = [app.user("alice").await, app.user("bob").await, app.user("carol").await];
        let den = alice.creates_room("Den").private().await.room_id();
        let lair = bob.creates_room("Lair").private().await.room_id();
        // An invitation to a public room does not count: no list shows it, so the user could not decline it.
        let plaza = bob.creates_room("Plaza").await.room_id();
        bob.invites_to(&plaza).user(carol.id).await.expect(200);
        alice.invites_to(&den).user(carol.id).await.expect(200);
        // The rejected invitations do not count against the two that bob can send in a day.
        for _ in 0..3 {
            let rejected = bob.invites_to(&lair).user(carol.id).await;
            rejected.expect_error(422, "too_many_invitations");
            assert_eq!(
                rejected.message(),
                "This user has reached the limit of 1 open invitations. They must accept or decline one first."
            );
        }
        alice.invites_to(&den).user(carol.id).await.expect(200);
        carol.leaves(&den).await.expect(200);
        bob.invites_to(&lair).user(carol.id).await.expect(200);
        carol.joins(&lair).await.expect(200);
        alice.invites_to(&den).user(carol.id).await.expect(200);
    }
}
