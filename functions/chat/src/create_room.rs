use futures_util::future::{try_join, try_join3};
use lambda_http::http::StatusCode;
use touchline::api::chat::{CreateRoom, RoomInput, RoomView};
use touchline::api::{Invalid, Message};
use touchline::domain::limit::{DailyAction, action_id};
use touchline::domain::room::{self, Day, League, Member, Membership, Room};
use touchline::domain::{User, digest};
use touchline::flows::rooms;
use touchline::ports::chat::NewRoom;
use touchline::storage::rooms::RoomCreationRequest;
use touchline::{App, Call, Error, Reply};

use crate::{day_limit, lookup};

/// Creates a room for every request, with two exceptions. A request resumes an identical earlier request that
/// failed half-way. Requests with the same `Idempotency-Key` create one room.
pub async fn handle(app: App, call: Call<CreateRoom>) -> Result<Reply<Message<RoomView>>, Error> {
    let (input, key) = (call.input, call.idempotency_key);
    let rules = &app.config.names;
    input.name.accepted_by(rules).map_err(|reason| Invalid::field("name", reason))?;
    if let Some(topic) = &input.topic {
        topic.accepted_by(rules).map_err(|reason| Invalid::field("topic", reason))?;
    }
    if let Some(event) = input.event_id
        && app.catalog_with(&[event.0]).await?.event(event.0).is_none()
    {
        return Err(Error::EventNotFound);
    }
    if let (None, Some(League::Match | League::Tournament)) = (input.event_id, input.league) {
        let reason = "This table needs a match. Enter event_id, or choose all.";
        return Err(Invalid::field("league", reason).into());
    }
    let content = content_digest(&input);
    let key_digest = key.as_ref().map(|key| digest(&["key", key.as_str()]));
    let request = RoomCreationRequest {
        user: call.caller.user,
        digest: key_digest.as_deref().unwrap_or(&content),
        content: &content,
        has_key: key.is_some(),
    };
    let nonce = app.random.word(24).to_lowercase();
    let creation =
        async { app.store.begin_room_creation(&request, &nonce, app.clock.now()).await.map_err(Error::from) };
    let (user, creation) = try_join(lookup::caller(&app, call.caller.user), creation).await?;
    if creation.content != content {
        return Err(Error::KeyReused);
    }
    if let Some(id) = creation.room_id {
        let room = app.store.any_room(&id).await?.ok_or(Error::Broken("a created room is missing"))?.room;
        return Ok(view(room, StatusCode::OK).replayed());
    }
    create(&app, &user, &input, &request, &creation.nonce).await
}

async fn create(
    app: &App,
    user: &User,
    input: &RoomInput,
    request: &RoomCreationRequest<'_>,
    nonce: &str,
) -> Result<Reply<Message<RoomView>>, Error> {
    let is_private = input.is_private.unwrap_or(false);
    let topic = input.topic.clone().unwrap_or_default();
    let new = NewRoom {
        creator: &user.username,
        nonce,
        name: input.name.as_str(),
        topic: topic.as_str(),
        is_private,
    };
    // The nonce is the same for every attempt to create this room, so the room is counted once.
    let count = day_limit::count(app, user.id, DailyAction::CreateRoom, action_id(&[nonce]));
    // The lock can run concurrently with the checks. A user who fails them has created or joined rooms before, so their
    // name is already locked.
    let lock = async { rooms::lock_username(app, user).await.map_err(Error::from) };
    let (pending, (), joined) = try_join3(count, lock, lookup::joined_rooms(app, user.id)).await?;
    let room_id = match lookup::require_free_room(app, user.id, joined).await {
        Ok(()) => app.chat.create_room(new).await.map_err(Error::from),
        Err(error) => Err(error),
    };
    let room_id = pending.end(app, room_id).await?;
    let now = app.clock.now();
    let room = Room {
        room_id,
        name: input.name.as_str().to_owned(),
        topic: topic.as_str().to_owned(),
        event_id: input.event_id.map(|event| event.0),
        league: input.league,
        creator_id: Some(user.id),
        is_private,
        shards: room::member_shards(is_private),
        created_at: now,
        last_activity: now,
        removed_at: None,
    };
    let creator = Member {
        room_id: room.room_id.clone(),
        user_id: user.id,
        membership: Membership::Join,
        event_id: room.event_id,
        is_private,
        pick: None,
        edits: None,
        team: None,
        unranked: false,
        seen: Some(Day::of(now)),
        asked: None,
        heard: None,
    };
    if app.store.finish_room_creation(&room, &creator, request).await? {
        return Ok(view(room, StatusCode::CREATED));
    }
    // A concurrent identical request has already stored this room.
    let room =
        app.store.any_room(&room.room_id).await?.ok_or(Error::Broken("a created room is missing"))?.room;
    Ok(view(room, StatusCode::OK).replayed())
}

fn view(room: Room, status: StatusCode) -> Reply<Message<RoomView>> {
    Reply::new(status, Message { message: "Room created.".into(), data: room.into() })
}

/// Returns a digest of the room that a request describes.
fn content_digest(input: &RoomInput) -> String {
    let topic = input.topic.as_ref().map_or("", |topic| topic.as_str());
    let event = input.event_id.map(|event| event.0.to_string()).unwrap_or_default();
    let privacy = if input.is_private.unwrap_or(false) { "private" } else { "public" };
    let mut parts = vec!["content", input.name.as_str(), topic, &event, privacy];
    // Left out if absent: then the digest is the one that earlier versions stored.
    parts.extend(input.league.map(|league| match league {
        League::Match => "match",
        League::Tournament => "tournament",
        League::All => "all",
    }));
    digest(&parts)
}

#[cfg(test)]
mod tests;
