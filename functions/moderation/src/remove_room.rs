use std::collections::HashMap;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use serde::Deserialize;
use serde_json::{Value, json};
use touchline::App;
use touchline::domain::profile::Person;
use touchline::domain::room::{Member, Membership, Room, RoomId};
use touchline::domain::{User, UserId};
use touchline::ports::chat::{ChatError, Closed};
use touchline::storage::Reads;

use crate::action::{Action, Beginning};
use crate::error::ModerationError;
use crate::longest_request::LONGEST_REQUEST;

/// The removal begins no new step if the deadline is closer than this.
const RESERVE: TimeDelta = TimeDelta::seconds(60);

/// How many memberships a step reads.
const MEMBERS_PER_STEP: usize = 100;

/// The maximum number of members who are removed concurrently.
const CONCURRENCY: usize = 8;

#[derive(Debug, Deserialize)]
pub struct RoomSubject {
    room_id: String,
}

/// Removes a room that a user created. Each step can be repeated, so an invocation that fails, or runs out of time, is
/// resumed by the next one.
///
/// First the room is hidden in our table, so nobody joins it through the API. Then the homeserver closes it, and each member
/// is removed, first by the homeserver and then in our table. A join that began before can store its membership afterwards,
/// so there is a second pass over the members.
pub async fn remove_room(
    app: &App,
    order: Action<RoomSubject>,
    deadline: DateTime<Utc>,
) -> Result<Value, ModerationError> {
    let unknown = || ModerationError::UnknownRoom(order.subject.room_id.clone());
    let id = RoomId::parse(&order.subject.room_id).ok_or_else(unknown)?;
    let found = app.store.any_room(&id).await?.ok_or_else(unknown)?;
    let (room, is_closed) = (found.room, found.chat_closed_at.is_some());
    let creator = room.creator_id.ok_or(ModerationError::MatchRoom)?;
    let begun = match order.begin(app, "remove_room", format!("room {}", id.as_str())).await? {
        Beginning::New(begun) => begun,
        Beginning::Replay(result) => return Ok(result),
    };
    app.store.remove_room(&id, app.clock.now()).await?;
    let mut removal = Removal {
        app,
        room: &room,
        creator: app.store.user(creator, Reads::Consistent).await?,
        kicks: false,
        until: deadline - RESERVE,
        members_removed: 0,
    };
    let is_complete = match removal.run(is_closed).await {
        Err(ModerationError::Failed(touchline::Error::Chat(error @ ChatError::Unavailable(_)))) => {
            let chat = format!("{error}. The room is hidden. Invoke this again to close it in chat.");
            let members_removed = removal.members_removed;
            let result =
                json!({ "room_id": id, "members_removed": members_removed, "complete": false, "chat": chat });
            return Ok(begun.pause(result));
        }
        result => result?,
    };
    let result = json!({
        "room_id": id, "members_removed": removal.members_removed, "complete": is_complete,
    });
    if is_complete { begun.finish(app, result).await } else { Ok(begun.pause(result)) }
}

struct Removal<'a> {
    app: &'a App,
    room: &'a Room,
    /// The creator, on whose behalf the homeserver closes the room. `None` if the account was deleted.
    creator: Option<User>,
    /// Whether the members must be removed on the homeserver one by one.
    kicks: bool,
    until: DateTime<Utc>,
    members_removed: usize,
}

impl Removal<'_> {
    /// Carries the removal out. Returns false if the time is over before the end.
    async fn run(&mut self, is_closed: bool) -> Result<bool, ModerationError> {
        let (app, id) = (self.app, &self.room.room_id);
        if !is_closed {
            self.kicks = self.close_in_chat().await?;
        }
        if !self.remove_members().await? {
            return Ok(false);
        }
        tokio::time::sleep(LONGEST_REQUEST).await;
        if !self.remove_members().await? {
            return Ok(false);
        }
        if let Some(creator) = self.creator.as_ref().filter(|_| self.kicks) {
            app.chat.kick_others(id, &creator.username).await?;
        }
        // The creator leaves last: without them, nobody could resume the removal on the homeserver.
        app.store.save_closed_in_chat(id, app.clock.now()).await?;
        if let Some(creator) = &self.creator
            && let Err(error) = app.chat.leave(id, &creator.username).await
        {
            tracing::info!(%error, "the creator of a removed room did not leave it");
        }
        Ok(true)
    }

    /// Closes the room on the homeserver. Returns whether its members must be removed one by one.
    async fn close_in_chat(&self) -> Result<bool, ModerationError> {
        let creator = self.creator.as_ref().map(|creator| &creator.username);
        match self.app.chat.close_room(&self.room.room_id, creator).await {
            Ok(closed) => Ok(closed == Closed::Locked),
            // The homeserver does not have the room: it was deleted there, or created without a homeserver.
            Err(ChatError::NotFound) => Ok(false),
            Err(ChatError::Forbidden) => Err(ModerationError::NoPower),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes all members and invited users. Returns false if the time is over before the end.
    async fn remove_members(&mut self) -> Result<bool, ModerationError> {
        for shard in 0..self.room.shards {
            let (mut after, mut has_ended) = (None, false);
            while !has_ended {
                if self.app.clock.now() >= self.until {
                    return Ok(false);
                }
                let page = self
                    .app
                    .store
                    .members_page(self.room, shard, after, MEMBERS_PER_STEP, Reads::Eventual)
                    .await?;
                (after, has_ended) = (page.0.last().map(|member| member.user_id), page.1);
                self.members_removed += self.remove_page(page.0).await?;
            }
        }
        Ok(true)
    }

    /// Removes the members of a page. Returns how many there were.
    async fn remove_page(&self, members: Vec<Member>) -> Result<usize, ModerationError> {
        let current = members.into_iter().filter(|member| member.membership != Membership::Leave);
        let users: Vec<UserId> = current.map(|member| member.user_id).collect();
        let people = if self.kicks { self.app.store.people(&users).await? } else { HashMap::new() };
        let removals = users.iter().map(|user| self.remove_member(*user, people.get(user)));
        let removals: Vec<_> = removals.collect();
        stream::iter(removals).buffer_unordered(CONCURRENCY).try_collect::<Vec<()>>().await?;
        Ok(users.len())
    }

    async fn remove_member(&self, user: UserId, person: Option<&Person>) -> Result<(), ModerationError> {
        if let (Some(creator), Some(person)) = (&self.creator, person)
            && creator.id != user
        {
            self.app.chat.kick(&self.room.room_id, &creator.username, &person.username).await?;
        }
        self.app.store.end_membership(self.room, user, self.app.clock.now()).await?;
        Ok(())
    }
}
