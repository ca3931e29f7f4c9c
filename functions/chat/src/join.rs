use chrono::{DateTime, Utc};
use futures_util::future::try_join3;
use touchline::api::Message;
use touchline::api::chat::{JoinRoom, MembershipView};
use touchline::domain::room::{Member, Membership};
use touchline::domain::{Room, User, Username};
use touchline::flows::rooms;
use touchline::ports::chat::ChatError;
use touchline::storage::Reads;
use touchline::storage::members::{Joined, MembershipRequest};
use touchline::{App, Call, Error, Reply};

use crate::lookup;

/// Joins the caller to a room. The homeserver decides first: only users that the homeserver admits become
/// members in our table. The homeserver accepts a second join of the same user, so our table detects second
/// joins.
pub async fn handle(app: App, call: Call<JoinRoom>) -> Result<Reply<Message<MembershipView>>, Error> {
    let began = app.clock.now();
    let room = lookup::room(&app, &call.path.matrix_room_id);
    let caller = lookup::caller(&app, call.caller.user);
    let (room, user, joined) = try_join3(room, caller, lookup::joined_rooms(&app, call.caller.user)).await?;
    // In a public room, most users join for the first time, so reading their membership would be wasted.
    let has_all_rooms = joined >= app.config.chat.limits.joined_rooms;
    let before = if room.is_private || has_all_rooms {
        app.store.member(&room, user.id, Reads::Consistent).await?
    } else {
        None
    };
    let is_invited = match before.as_ref().map(|member| member.membership) {
        Some(Membership::Join) => return Err(Error::AlreadyAMember),
        membership => !room.is_private || membership == Some(Membership::Invite),
    };
    lookup::require_free_room(&app, user.id, joined).await?;
    let inviter =
        if room.is_private && is_invited { renewing_inviter(&app, &room, &user).await? } else { None };
    let invited_by = inviter.as_ref();
    let entry = Entry { room: &room, user: &user, before: before.as_ref(), is_invited, invited_by, began };
    match enter(&app, &entry).await? {
        Joined::Now => {
            let data = MembershipView { room_id: room.room_id, membership: Membership::Join };
            Ok(Message { message: "You joined the room.".into(), data }.into())
        }
        Joined::Already => Err(Error::AlreadyAMember),
    }
}

/// Returns the member who must invite the user again before the join. The homeserver knows an invitation by the username, and the
/// user may have changed it since.
async fn renewing_inviter(app: &App, room: &Room, user: &User) -> Result<Option<Username>, Error> {
    if user.former_usernames.is_empty() {
        return Ok(None);
    }
    let Some(inviter) = app.store.inviters([room], user.id).await?.remove(&room.room_id) else {
        return Ok(None);
    };
    Ok(app.store.people(&[inviter]).await?.remove(&inviter).map(|person| person.username))
}

/// A user who is about to enter a room.
pub struct Entry<'a> {
    pub room: &'a Room,
    pub user: &'a User,
    /// The membership before, if it was read.
    pub before: Option<&'a Member>,
    /// Whether the user has an invitation, or needs none.
    pub is_invited: bool,
    /// The member who invites the user first, if the homeserver does not know of the invitation.
    pub invited_by: Option<&'a Username>,
    /// When the request began.
    pub began: DateTime<Utc>,
}

/// Joins a user on the homeserver, and then in our table.
pub async fn enter(app: &App, entry: &Entry<'_>) -> Result<Joined, Error> {
    let Entry { room, user, before, is_invited, invited_by, began } = *entry;
    // The homeserver may not know an invitation under a new username.
    let is_certain = is_invited && user.former_usernames.is_empty();
    if is_certain {
        rooms::lock_username(app, user).await?;
    }
    if let Some(inviter) = invited_by {
        match app.chat.invite(&room.room_id, inviter, &user.username).await {
            // The homeserver also forbids the invitation of a member. The join tells whether the user can be one.
            Ok(()) | Err(ChatError::Forbidden) => {}
            Err(error) => return Err(error.into()),
        }
    }
    app.chat.join(room, &user.username, is_invited).await?;
    if !is_certain {
        // Until the response of the homeserver, the username stays free: if it rejects the join, no member has seen the username.
        rooms::lock_username(app, user).await?;
    }
    let request = MembershipRequest::new(room, user.id, before, began, app.random.number());
    Ok(app.store.join(&request).await?)
}

#[cfg(test)]
mod tests;
