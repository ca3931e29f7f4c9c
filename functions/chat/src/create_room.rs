use futures_util::future::try_join;
use lambda_http::http::StatusCode;
use touchline::api::Message;
use touchline::api::chat::{CreateRoom, RoomInput, RoomView};
use touchline::domain::room::{self, Day, Member, Membership, Room};
use touchline::domain::{User, digest};
use touchline::flows::rooms;
use touchline::ports::chat::NewRoom;
use touchline::storage::rooms::RoomCreationRequest;
use touchline::{App, Call, Error, Reply};

use crate::lookup;

/// Creates a room for every request, with two exceptions. A request resumes an identical earlier request that
/// failed half-way. Requests with the same `Idempotency-Key` create one room.
pub async fn handle(app: App, call: Call<CreateRoom>) -> Result<Reply<Message<RoomView>>, Error> {
    let (input, key) = (call.input, call.idempotency_key);
    let known_event = async {
        match input.event_id {
            None => Ok(()),
            Some(event) => match app.catalog_with(&[event.0]).await?.event(event.0) {
                Some(_) => Ok(()),
                None => Err(Error::EventNotFound),
            },
        }
    };
    let (user, ()) = try_join(lookup::caller(&app, call.caller.user), known_event).await?;

    let content = content_digest(&input);
    let key_digest = key.as_ref().map(|key| digest(&["key", key.as_str()]));
    let request = RoomCreationRequest {
        user: user.id,
        digest: key_digest.as_deref().unwrap_or(&content),
        content: &content,
        has_key: key.is_some(),
    };
    let creation =
        app.store.begin_room_creation(&request, &app.random.word(24).to_lowercase(), app.clock.now()).await?;
    if creation.content != content {
        return Err(Error::KeyReused);
    }
    if let Some(id) = creation.room_id {
        let room = app.store.room(&id).await?.ok_or(Error::Broken("a created room is missing"))?;
        return Ok(view(room, StatusCode::OK).replayed());
    }
    rooms::lock_username(&app, &user).await?;
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
    let room_id = app.chat.create_room(new).await?;
    let now = app.clock.now();
    let room = Room {
        room_id,
        name: input.name.as_str().to_owned(),
        topic: topic.as_str().to_owned(),
        event_id: input.event_id.map(|event| event.0),
        creator_id: Some(user.id),
        is_private,
        shards: room::member_shards(is_private),
        created_at: now,
        last_activity: now,
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
        seen: Some(Day::of(now)),
        asked: None,
        told: None,
    };
    if app.store.finish_room_creation(&room, &creator, request).await? {
        return Ok(view(room, StatusCode::CREATED));
    }
    // A concurrent identical request has already stored this room.
    let room = app.store.room(&room.room_id).await?.ok_or(Error::Broken("a created room is missing"))?;
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
    digest(&["content", input.name.as_str(), topic, &event, privacy])
}

#[cfg(test)]
mod tests;
