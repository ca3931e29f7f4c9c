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

/// Each call makes a room, with two exceptions: a call that failed half-way is gone on with by the next that
/// asks for the same, and calls with the same `Idempotency-Key` make one room among them.
pub async fn handle(app: App, call: Call<CreateRoom>) -> Result<Reply<Message<RoomView>>, Error> {
    let (input, key) = (call.input, call.idempotency_key);
    let known_event = async {
        match input.event_id {
            None => Ok(()),
            Some(event) => match app.catalog().await?.event(event.0) {
                Some(_) => Ok(()),
                None => Err(Error::EventNotFound),
            },
        }
    };
    let (user, ()) = try_join(crate::caller(&app, call.caller.user), known_event).await?;

    let content = content(&input);
    let name = key.as_ref().map(|key| digest(&["key", key.as_str()]));
    let request = RoomCreationRequest {
        user: user.id,
        digest: name.as_deref().unwrap_or(&content),
        content: &content,
        has_key: key.is_some(),
    };
    let creation =
        app.store.begin_room_creation(&request, &app.random.word(24).to_lowercase(), app.clock.now()).await?;
    if creation.content != content {
        return Err(Error::KeyReused);
    }
    if let Some(id) = creation.room_id {
        let room = app.store.room(&id).await?.ok_or(Error::Broken("a room that was made and is not"))?;
        return Ok(view(room, StatusCode::OK).replayed());
    }
    rooms::lock_username(&app, &user).await?;
    make(&app, &user, &input, &request, &creation.nonce).await
}

async fn make(
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
    };
    if app.store.finish_room_creation(&room, &creator, request).await? {
        return Ok(view(room, StatusCode::CREATED));
    }
    // Another call for the same room was quicker.
    let room =
        app.store.room(&room.room_id).await?.ok_or(Error::Broken("a room that is known and is not"))?;
    Ok(view(room, StatusCode::OK).replayed())
}

fn view(room: Room, status: StatusCode) -> Reply<Message<RoomView>> {
    Reply::new(status, Message { message: "The chat room is ready.".into(), data: room.into() })
}

/// What is asked for, as a digest.
fn content(input: &RoomInput) -> String {
    let topic = input.topic.as_ref().map_or("", |topic| topic.as_str());
    let event = input.event_id.map(|event| event.0.to_string()).unwrap_or_default();
    let privacy = if input.is_private.unwrap_or(false) { "private" } else { "public" };
    digest(&["content", input.name.as_str(), topic, &event, privacy])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use serde_json::{Value, json};
    use touchline_testing::{Answer, Fault, TestApp, at_once};

    use crate::testing::{app, builder, listed, tallied};

    const PATH: &str = "/api/auth/chat-room";

    #[tokio::test]
    async fn a_public_room_and_a_private_one() {
        let (app, [token, ..]) = app().await;
        let body = json!({ "name": " Corner ", "topic": "Set pieces", "event_id": 1 });
        let body = app.post_as(&token, PATH, body).await.expect(201);
        let id = body["data"]["room_id"].as_str().unwrap().to_owned();
        assert!(id.starts_with('!') && id.ends_with(":touchline.local"), "{id}");
        assert_eq!(
            body,
            json!({
                "message": "The chat room is ready.",
                "data": {
                    "room_id": id, "name": "Corner", "topic": "Set pieces", "event_id": 1, "creator_id": 1,
                    "is_encrypted": false, "join_rule": "public",
                },
            })
        );
        let body = app.post_as(&token, PATH, json!({ "name": "Den", "is_private": true })).await.expect(201);
        let data = &body["data"];
        assert_eq!(
            (&data["join_rule"], &data["is_encrypted"], &data["topic"], &data["event_id"]),
            (&json!("invite"), &json!(true), &json!(""), &json!(null))
        );
        tallied(&app).await;
        let room = listed(&app, &token, &id).await.unwrap();
        assert_eq!((&room["is_joined"], &room["member_count"]), (&json!(true), &json!(1)));
    }

    #[tokio::test]
    async fn nonsense_makes_no_room() {
        let (app, [token, ..]) = app().await;
        for (field, value) in [
            ("name", json!("")),
            ("name", json!("x".repeat(101))),
            ("name", json!("a\u{7}b")),
            ("name", json!(7)),
            ("topic", json!("x".repeat(501))),
            ("is_private", json!("yes")),
            ("event_id", json!("one")),
        ] {
            let mut body = json!({ "name": "Corner" });
            body[field] = value;
            let answer = app.post_as(&token, PATH, body).await;
            answer.expect_error(422, "validation_error");
            assert!(answer.body["errors"][field][0].is_string(), "{}", answer.body);
        }
        let answer =
            app.post_as(&token, PATH, json!({ "name": "Corner", "event_id": 4_000_000_000_u32 })).await;
        answer.expect_error(404, "event_not_found");
        assert!(!app.dump().await.contains("Corner"));
    }

    async fn keyed(app: &TestApp, token: &str, key: &str, body: &Value) -> Answer {
        let headers = [("authorization", &*format!("Bearer {token}")), ("idempotency-key", key)];
        app.send("POST", PATH, &headers, body.to_string().as_bytes()).await
    }

    #[tokio::test]
    async fn each_call_makes_a_room_but_those_with_one_key_make_one() {
        let (app, [token, other, _]) = app().await;
        let body = json!({ "name": "Corner" });
        let first = app.post_as(&token, PATH, body.clone()).await.expect(201);
        let second = app.post_as(&token, PATH, body.clone()).await.expect(201);
        assert_ne!(first["data"]["room_id"], second["data"]["room_id"]);

        let made = keyed(&app, &token, "k1", &body).await.expect(201);
        let again = keyed(&app, &token, "k1", &body).await;
        assert_eq!(again.headers["idempotency-replayed"], "true");
        assert_eq!(again.expect(200), made);
        keyed(&app, &token, "k1", &json!({ "name": "Other" })).await.expect_error(422, "reference_reused");
        // Somebody else's key is another key.
        assert_ne!(keyed(&app, &other, "k1", &body).await.expect(201)["data"], made["data"]);
        keyed(&app, &token, &"x".repeat(65), &body).await.expect_error(422, "validation_error");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn many_at_once_with_one_key_make_one_room() {
        let (app, [token, ..]) = app().await;
        let app = Arc::new(app);
        let answers = at_once(20, |_| {
            let (app, token) = (Arc::clone(&app), token.clone());
            async move {
                loop {
                    let answer = keyed(&app, &token, "k", &json!({ "name": "Corner" })).await;
                    if answer.status != 503 {
                        return answer;
                    }
                }
            }
        })
        .await;
        let ids: Vec<_> = answers.iter().map(|answer| answer.body["data"]["room_id"].clone()).collect();
        assert!(ids.iter().all(|id| id.is_string() && *id == ids[0]), "{ids:?}");
        assert_eq!(answers.iter().filter(|answer| answer.status == 201).count(), 1);
        assert_eq!(app.dump().await.matches("S(\"Corner\")").count(), 1);
    }

    /// Whichever write is refused, done or not, the next call goes on with the same room.
    #[tokio::test]
    async fn a_call_that_died_half_way_is_gone_on_with() {
        for fault in [Fault::Refuse, Fault::DoAndRefuse] {
            let mut died = 0;
            for step in 0.. {
                let (app, [token, ..]) = app().await;
                let writes = Arc::new(AtomicU32::new(0));
                let count = Arc::clone(&writes);
                app.faults.set(move |attempt| {
                    let is_write =
                        attempt.operation.starts_with("Update") || attempt.operation.contains("Write");
                    if is_write && count.fetch_add(1, Ordering::SeqCst) == step { fault } else { Fault::None }
                });
                let body = json!({ "name": "Corner", "is_private": true });
                let first = app.post_as(&token, PATH, body.clone()).await;
                app.faults.clear();
                if writes.load(Ordering::SeqCst) <= step {
                    assert_eq!(first.status, 201, "{}", first.body);
                    break;
                }
                died += 1;
                assert_eq!(first.status, 500, "{}", first.body);
                let whole = |dump: &str| dump.matches("S(\"Corner\")").count();
                // Done and not heard of: that room stands, and the next call is a call of its own.
                let was_made = whole(&app.dump().await);
                assert!(was_made == 0 || fault == Fault::DoAndRefuse);
                let _ = app.post_as(&token, PATH, body).await.expect(201);
                assert_eq!(whole(&app.dump().await), was_made + 1, "step {step}");
            }
            assert_eq!(died, 3, "the note, the name and the room");
        }
    }

    #[tokio::test]
    async fn without_the_chat_network_there_is_no_room() {
        let app = builder().without_chat().start().await;
        let token = app.register(1).await;
        let answer = app.post_as(&token, PATH, json!({ "name": "Corner" })).await;
        answer.expect_error(503, "chat_unavailable");
        assert!(answer.headers.contains_key("retry-after"));
        assert!(!app.dump().await.contains("S(\"Corner\")"));
    }
}
