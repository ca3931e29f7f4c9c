use futures_util::future::try_join;
use touchline::api::Message;
use touchline::api::chat::{JoinRoom, MembershipView};
use touchline::domain::limit;
use touchline::domain::room::Membership;
use touchline::flows::rooms;
use touchline::storage::Reads;
use touchline::storage::members::Joined;
use touchline::{App, Call, Error, Reply};

/// The chat network first: only whom it lets in is a member here. It takes a second joining for a first, so
/// that whoever is in already is told so by our own table.
pub async fn handle(app: App, call: Call<JoinRoom>) -> Result<Reply<Message<MembershipView>>, Error> {
    let began = app.clock.now();
    let room = crate::room(&app, &call.path.matrix_room_id);
    let (room, user) = try_join(room, crate::caller(&app, call.caller.user)).await?;
    let is_invited = if room.is_private {
        match app.store.member(&room, user.id, Reads::Eventual).await?.map(|member| member.membership) {
            Some(Membership::Join) => return Err(Error::AlreadyAMember),
            standing => standing == Some(Membership::Invite),
        }
    } else {
        true
    };
    rooms::lock_username(&app, &user).await?;
    app.chat.join(&room, &user.username, is_invited).await?;
    let mark = limit::request_id(began, app.random.number());
    match app.store.join(&room, user.id, &mark, began).await? {
        Joined::Now => {
            let data = MembershipView { room_id: room.room_id, membership: Membership::Join };
            Ok(Message { message: "You have joined the chat room.".into(), data }.into())
        }
        Joined::Already => Err(Error::AlreadyAMember),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use chrono::TimeDelta;
    use serde_json::json;
    use touchline::domain::room::Membership;
    use touchline::domain::{RoomId, UserId};
    use touchline::storage::Reads;
    use touchline::storage::members::Joined;
    use touchline_testing::{Fault, at_once};

    use crate::testing::{act, app, builder, invite, listed, made, member, push, tallied};

    #[tokio::test]
    async fn joining_once_and_again() {
        let (app, [ada, bob, _]) = app().await;
        let room = made(&app, &ada, "Corner", false).await;
        assert_eq!(
            act(&app, &bob, &room, "join").await.expect(200),
            json!({
                "message": "You have joined the chat room.",
                "data": { "room_id": room, "membership": "join" },
            })
        );
        act(&app, &bob, &room, "join").await.expect_error(409, "already_a_member");
        act(&app, &ada, &room, "join").await.expect_error(409, "already_a_member");
        tallied(&app).await;
        let seen = listed(&app, &bob, &room).await.unwrap();
        assert_eq!((&seen["is_joined"], &seen["member_count"]), (&json!(true), &json!(2)));
    }

    #[tokio::test]
    async fn a_private_room_is_joined_by_invitation() {
        let (app, [ada, bob, cleo]) = app().await;
        let room = made(&app, &ada, "Den", true).await;
        act(&app, &bob, &room, "join").await.expect_error(403, "not_allowed");
        let _ = invite(&app, &ada, &room, json!({ "user_id": 2 })).await.expect(200);
        let _ = act(&app, &bob, &room, "join").await.expect(200);
        act(&app, &bob, &room, "join").await.expect_error(409, "already_a_member");
        act(&app, &cleo, &room, "join").await.expect_error(403, "not_allowed");
        // An invitation is for once.
        let _ = act(&app, &bob, &room, "leave").await.expect(200);
        act(&app, &bob, &room, "join").await.expect_error(403, "not_allowed");
    }

    #[tokio::test]
    async fn rooms_that_are_none() {
        let (app, [ada, ..]) = app().await;
        let room = made(&app, &ada, "Corner", false).await;
        let encoded = room.replace('!', "%21").replace(':', "%3A");
        act(&app, &ada, &encoded, "join").await.expect_error(409, "already_a_member");
        for id in
            ["!nobody:touchline.local", "x", "%21", "!a", "!:", "%00", "!a:b%20c", "%F0%9F%92%A5", "!%FF:b"]
        {
            act(&app, &ada, id, "join").await.expect_error(404, "room_not_found");
        }
        act(&app, &ada, &format!("!{}:b", "x".repeat(300)), "join").await.expect_error(404, "room_not_found");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn of_many_at_once_one_comes_in() {
        let (app, [ada, bob, _]) = app().await;
        let room = made(&app, &ada, "Corner", false).await;
        let app = Arc::new(app);
        let answers = at_once(30, |_| {
            let (app, bob, room) = (Arc::clone(&app), bob.clone(), room.clone());
            async move { act(&app, &bob, &room, "join").await.status.as_u16() }
        })
        .await;
        assert_eq!(answers.iter().filter(|status| **status == 200).count(), 1, "{answers:?}");
        assert!(answers.iter().all(|status| [200, 409].contains(status)), "{answers:?}");
        tallied(&app).await;
        assert_eq!(listed(&app, &bob, &room).await.unwrap()["member_count"], 2);
    }

    /// The SDK sends a write again whose answer was lost; it is not taken for somebody else's.
    #[tokio::test]
    async fn a_lost_answer_of_the_store_is_no_conflict() {
        let (app, [ada, bob, _]) = app().await;
        let room = made(&app, &ada, "Corner", false).await;
        app.faults.set(|attempt| {
            if attempt.operation == "UpdateItem" && attempt.number == 1 {
                Fault::LoseReply
            } else {
                Fault::None
            }
        });
        let _ = act(&app, &bob, &room, "join").await.expect(200);
    }

    /// The homeserver is quick: it tells of a joining before the request that caused it has written it down.
    #[tokio::test]
    async fn what_the_homeserver_tells_first_is_not_held_against_the_request() {
        let (app, [ada, bob, cleo]) = app().await;
        let room = made(&app, &ada, "Corner", false).await;
        let events = [member(&app, &room, 2, "join", 1)];
        let _ = push(&app, "1", &json!({ "events": events })).await.expect(200);
        let _ = act(&app, &bob, &room, "join").await.expect(200);
        act(&app, &bob, &room, "join").await.expect_error(409, "already_a_member");
        // The maker of a room came in through us, whatever the homeserver tells afterwards.
        let events = [member(&app, &room, 1, "join", 1)];
        let _ = push(&app, "m", &json!({ "events": events })).await.expect(200);
        act(&app, &ada, &room, "join").await.expect_error(409, "already_a_member");
        // Whoever has been there for longer is a member already.
        let events = [member(&app, &room, 3, "join", -60)];
        let _ = push(&app, "2", &json!({ "events": events })).await.expect(200);
        act(&app, &cleo, &room, "join").await.expect_error(409, "already_a_member");
        tallied(&app).await;
        assert_eq!(listed(&app, &cleo, &room).await.unwrap()["member_count"], 3);
    }

    /// A write that comes late gives way to what the homeserver told meanwhile.
    #[tokio::test]
    async fn whoever_was_shut_out_meanwhile_is_out() {
        let (app, [ada, bob, _]) = app().await;
        let id = RoomId::parse(&made(&app, &ada, "Corner", false).await).unwrap();
        let (store, began) = (&app.app.store, app.app.clock.now());
        let room = store.room(&id).await.unwrap().unwrap();
        let later = began + TimeDelta::seconds(1);
        store.apply_homeserver_membership(&room, UserId(2), Membership::Leave, later).await.unwrap();
        assert_eq!(store.join(&room, UserId(2), "mark", began).await.unwrap(), Joined::Now);
        let place = store.member(&room, UserId(2), Reads::Eventual).await.unwrap().unwrap();
        assert_eq!(place.membership, Membership::Leave);
        // And so with leaving, where somebody is let in again; and old news does not undo a joining.
        app.clock.advance(TimeDelta::minutes(1));
        let _ = act(&app, &bob, id.as_str(), "join").await.expect(200);
        let (began, news) = (app.app.clock.now(), app.app.clock.now() - TimeDelta::seconds(30));
        store.apply_homeserver_membership(&room, UserId(2), Membership::Invite, news).await.unwrap();
        store
            .apply_homeserver_membership(&room, UserId(2), Membership::Join, began + TimeDelta::seconds(1))
            .await
            .unwrap();
        store.leave(&room, UserId(2), began).await.unwrap();
        assert!(store.member(&room, UserId(2), Reads::Eventual).await.unwrap().unwrap().has_joined());
    }

    #[tokio::test]
    async fn the_first_room_fixes_the_name() {
        let (app, [ada, bob, _]) = app().await;
        let room = made(&app, &ada, "Corner", false).await;
        let rename = |token: &str, name: &str| {
            let body = json!({ "username": name });
            let token = token.to_owned();
            let app = &app;
            async move { app.post_as(&token, "/api/auth/update-user-info", body).await }
        };
        rename(&ada, "ada").await.expect_error(409, "username_locked");
        let _ = rename(&bob, "bob").await.expect(200);
        let _ = act(&app, &bob, &room, "join").await.expect(200);
        rename(&bob, "robert").await.expect_error(409, "username_locked");
    }

    #[tokio::test]
    async fn without_the_chat_network_nobody_comes_in() {
        let (app, [ada, ..]) = app().await;
        let room = made(&app, &ada, "Corner", false).await;
        let down = builder().without_chat().start().await;
        let token = down.register(9).await;
        let known = app.app.store.room(&RoomId::parse(&room).unwrap()).await.unwrap().unwrap();
        down.app.store.put_room(&known).await.unwrap();
        let answer = act(&down, &token, &room, "join").await;
        answer.expect_error(503, "chat_unavailable");
        assert!(answer.headers.contains_key("retry-after"));
        assert!(!down.dump().await.contains("member#9"));
    }
}
