use futures_util::future::try_join;
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
    let (room, user) = try_join(room, lookup::caller(&app, call.caller.user)).await?;
    let is_invited = if room.is_private {
        match app.store.member(&room, user.id, Reads::Consistent).await?.map(|member| member.membership) {
            Some(Membership::Join) => return Err(Error::AlreadyAMember),
            other => other == Some(Membership::Invite),
        }
    } else {
        true
    };
    rooms::lock_username(&app, &user).await?;
    app.chat.join(&room, &user.username, is_invited).await?;
    let request = MembershipRequest::new(began, app.random.number());
    match app.store.join(&room, user.id, &request).await? {
        Joined::Now => {
            let data = MembershipView { room_id: room.room_id, membership: Membership::Join };
            Ok(Message { message: "You joined the room.".into(), data }.into())
        }
        Joined::Already => Err(Error::AlreadyAMember),
    }
}

#[cfg(test)]
mod tests;
