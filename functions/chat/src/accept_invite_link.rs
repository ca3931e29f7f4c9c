use chrono::{DateTime, Utc};
use futures_util::future::try_join3;
use touchline::api::Message;
use touchline::api::chat::MembershipView;
use touchline::api::invite_links::AcceptInviteLink;
use touchline::domain::invite_link::LinkCode;
use touchline::domain::limit::{
    DailyAction, HourlyAction, WRONG_LINK_CODES_PER_48_PER_HOUR, WRONG_LINK_CODES_PER_HOUR, action_id,
};
use touchline::domain::profile::PublicProfile;
use touchline::domain::room::{Member, Membership};
use touchline::domain::{Address, Room, UserId};
use touchline::storage::Reads;
use touchline::{App, Call, Error, Reply};

use crate::join::{self, Entry};
use crate::{day_limit, lookup};

/// Joins the caller to the room of an invite link. In a private room, the maker of the link invites the caller first, so the
/// homeserver applies the same rules as to any other invitation.
pub async fn handle(app: App, call: Call<AcceptInviteLink>) -> Result<Reply<Message<MembershipView>>, Error> {
    let began = app.clock.now();
    let (caller, code) = (call.caller.user, &call.path.code);
    // The same code again is no new guess, so retries do not count.
    day_limit::count(&app, caller, DailyAction::EnterLinkCode, action_id(&[code.as_str()])).await?;
    let guess = Guess::count(&app, call.address.as_ref()).await?;
    let Invitation { room, inviter } = invitation(&app, code, caller).await?;
    guess.was_right().await;

    let (user, joined, before) =
        try_join3(lookup::caller(&app, caller), lookup::joined_rooms(&app, caller), async {
            app.store.member(&room, caller, Reads::Consistent).await.map_err(Error::from)
        })
        .await?;
    let has_joined = before.as_ref().is_some_and(Member::has_joined);
    if !has_joined {
        lookup::require_free_room(&app, caller, joined).await?;
        let invited_by = room.is_private.then_some(&inviter.username);
        let entry =
            Entry { room: &room, user: &user, before: before.as_ref(), is_invited: true, invited_by, began };
        join::enter(&app, &entry).await?;
    }
    let data = MembershipView { room_id: room.room_id, membership: Membership::Join };
    Ok(Message { message: "You joined the room.".into(), data }.into())
}

/// A valid link.
struct Invitation {
    room: Room,
    /// The maker of the link, who is a member of the room.
    inviter: PublicProfile,
}

/// Finds the link with a code. All codes that do not work have the same error: the response must not tell a guess from a link
/// that has ended.
async fn invitation(app: &App, code: &LinkCode, caller: UserId) -> Result<Invitation, Error> {
    const INVALID: Error = Error::InviteLinkNotFound;
    let link = app.store.invite_link_by_code(code).await?.ok_or(INVALID)?;
    let (revocations, room, mut people) = try_join3(
        app.store.link_revocations(&link.room_id),
        app.store.any_room(&link.room_id),
        app.store.public_profiles(&[link.made_by]),
    )
    .await?;
    if !link.is_valid(revocations, app.clock.now()) {
        return Err(INVALID);
    }
    let room = room.map(|found| found.room).filter(|room| room.removed_at.is_none()).ok_or(INVALID)?;
    let inviter = people.remove(&link.made_by).filter(|inviter| !inviter.is_suspended()).ok_or(INVALID)?;
    let (membership, blocks, own_blocks) = try_join3(
        app.store.member(&room, inviter.id, Reads::Consistent),
        app.store.blocks(inviter.id, Reads::Eventual),
        app.store.blocks(caller, Reads::Eventual),
    )
    .await?;
    if !membership.as_ref().is_some_and(Member::has_joined) || blocks.blocks.contains(caller) {
        return Err(INVALID);
    }
    if own_blocks.blocks.contains(inviter.id) {
        return Err(Error::InviterBlocked);
    }
    Ok(Invitation { room, inviter })
}

/// A code that counts as a wrong one of its network until it is known to be right. It counts before it is looked up, so that
/// concurrent guesses cannot exceed the limit.
struct Guess<'a> {
    app: &'a App,
    networks: Vec<(Address, u32)>,
    counted_at: DateTime<Utc>,
}

impl<'a> Guess<'a> {
    async fn count(app: &'a App, address: Option<&Address>) -> Result<Self, Error> {
        let counted_at = app.clock.now();
        let wider = address.and_then(Address::wider).map(|wider| (wider, WRONG_LINK_CODES_PER_48_PER_HOUR));
        let networks = address.cloned().map(|address| (address, WRONG_LINK_CODES_PER_HOUR));
        let networks: Vec<_> = networks.into_iter().chain(wider).collect();
        for (network, limit) in &networks {
            let action = HourlyAction::EnterWrongLinkCode;
            app.store.count_in_hour(action, network, *limit, counted_at).await?;
        }
        Ok(Self { app, networks, counted_at })
    }

    async fn was_right(self) {
        for (network, _) in &self.networks {
            let action = HourlyAction::EnterWrongLinkCode;
            if let Err(error) = self.app.store.release_in_hour(action, network, self.counted_at).await {
                tracing::warn!(%error, "a right code stays counted as wrong for the rest of the hour");
            }
        }
    }
}

#[cfg(test)]
mod tests;
