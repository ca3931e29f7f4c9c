//! The endpoints for chat rooms, blocked users and reports, and the endpoints that the homeserver calls.

mod accept_invite_link;
mod block_user;
mod create_invite_link;
mod create_report;
mod create_room;
mod credentials;
mod day_limit;
mod invite;
mod join;
mod leave;
mod list_blocks;
mod list_rooms;
mod lookup;
mod member_stats;
mod one_room;
mod ping;
mod query_room;
mod query_user;
mod revoke_invite_link;
mod room_event;
#[cfg(test)]
mod testing;
mod transaction;
mod unblock_user;

use touchline::{App, Router};

#[must_use]
pub fn router(app: App) -> Router {
    Router::new(app)
        .on(create_room::handle)
        .on(list_rooms::handle)
        .on(one_room::handle)
        .on(join::handle)
        .on(leave::handle)
        .on(invite::handle)
        .on(create_invite_link::handle)
        .on(revoke_invite_link::handle)
        .on(accept_invite_link::handle)
        .on(member_stats::handle)
        .on(credentials::handle)
        .on(block_user::handle)
        .on(unblock_user::handle)
        .on(list_blocks::handle)
        .on(create_report::handle)
        .on(transaction::handle)
        .on(query_user::handle)
        .on(query_room::handle)
        .on(ping::handle)
}
