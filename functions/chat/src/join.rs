use futures_util::future::try_join3;
use touchline::api::Message;
use touchline::api::chat::{JoinRoom, MembershipView};
use touchline::domain::room::Membership;
use touchline::flows::rooms;
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
    let (room, user, has_all_rooms) =
        try_join3(room, caller, lookup::has_all_rooms(&app, call.caller.user)).await?;
    // In a public room, most users join for the first time, so reading their membership would be wasted.
    let before = if room.is_private || has_all_rooms {
        app.store.member(&room, user.id, Reads::Consistent).await?
    } else {
        None
    };
    let is_invited = match before.as_ref().map(|member| member.membership) {
        Some(Membership::Join) => return Err(Error::AlreadyAMember),
        membership => !room.is_private || membership == Some(Membership::Invite),
    };
    if has_all_rooms {
        return Err(lookup::too_many_rooms(&app));
    }
    rooms::lock_username(&app, &user).await?;
    app.chat.join(&room, &user.username, is_invited).await?;
    let nonce = app.random.number();
    let request = MembershipRequest::new(&room, user.id, before.as_ref(), began, nonce);
    match app.store.join(&request).await? {
        Joined::Now => {
            let data = MembershipView { room_id: room.room_id, membership: Membership::Join };
            Ok(Message { message: "You joined the room.".into(), data }.into())
        }
        Joined::Already => Err(Error::AlreadyAMember),
    }
}

#[cfg(test)]
mod tests;
