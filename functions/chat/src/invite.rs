use chrono::{DateTime, Utc};
use futures_util::future::{try_join, try_join4};
use touchline::api::chat::{InvitationView, Invite, InviteInput};
use touchline::api::{Invalid, Message};
use touchline::domain::block::Blocks;
use touchline::domain::limit::{DailyAction, action_id};
use touchline::domain::room::{Member, Membership};
use touchline::domain::{Room, User, UserId};
use touchline::flows::rooms;
use touchline::storage::Reads;
use touchline::storage::members::MembershipRequest;
use touchline::{App, Call, Error, Reply};

use crate::{day_limit, lookup};

/// Invites a user to a room. Any member can invite, and a second invitation of the same user changes nothing.
pub async fn handle(app: App, call: Call<Invite>) -> Result<Reply<Message<InvitationView>>, Error> {
    let began = app.clock.now();
    let room = lookup::room(&app, &call.path.matrix_room_id);
    let (room, caller) = try_join(room, lookup::caller(&app, call.caller.user)).await?;
    let (has_joined, Invitee { user: invitee, before, has_all_invitations, blocks }) =
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
        Some(Membership::Leave) | None if has_all_invitations => {
            return Err(Error::TooManyInvitations { limit: app.config.chat.limits.open_invitations });
        }
        Some(Membership::Leave) | None => {
            let pending =
                day_limit::count(&app, caller.id, DailyAction::SendInvitation, invitation.id()).await?;
            pending.end(&app, invitation.send(&app, began).await).await?;
        }
    }
    let data = InvitationView { room_id: room.room_id, user_id: invitee.id, membership: Membership::Invite };
    Ok(Message { message: format!("You invited {}.", invitee.username.as_str()), data }.into())
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
    fn id(&self) -> u32 {
        let asked = self.before.and_then(|member| member.asked.as_deref()).unwrap_or_default();
        let heard = self.before.and_then(|member| member.heard).map_or(0, |heard| heard.0).to_string();
        action_id(&[self.room.room_id.as_str(), &self.invitee.id.to_string(), asked, &heard])
    }

    async fn send(&self, app: &App, began: DateTime<Utc>) -> Result<(), Error> {
        let Self { room, caller, invitee, before } = self;
        // The homeserver knows an invitation by the username. Under another name, the user could not accept it.
        rooms::lock_username(app, invitee).await?;
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
    /// Whether the user has as many open invitations as one user can have.
    has_all_invitations: bool,
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
    let (user, before, has_all_invitations, stored) = try_join4(
        app.store.find_user(id),
        app.store.member(room, id, Reads::Consistent),
        app.store.has_memberships(id, Membership::Invite, limit),
        app.store.blocks(id, Reads::Eventual),
    )
    .await?;
    let user = user.ok_or(Error::UserNotFound)?;
    Ok(Invitee { user, before, has_all_invitations, blocks: stored.blocks })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
    async fn an_invited_user_keeps_the_username_of_the_invitation() {
        let (_app, [alice, bob, _]) = app().await;
        let room = alice.creates_room("Den").private().await.room_id();
        alice.invites_to(&room).user(bob.id).await.expect(200);
        bob.updates_profile().username("robert").await.expect_error(409, "username_locked");
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
