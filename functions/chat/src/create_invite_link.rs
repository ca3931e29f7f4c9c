use chrono::{DateTime, SubsecRound as _, Utc};
use futures_util::future::try_join;
use lambda_http::http::StatusCode;
use touchline::api::Message;
use touchline::api::invite_links::{CreateInviteLink, InviteLinkView};
use touchline::domain::invite_link::{CODE_LENGTH, InviteLink, LinkCode, LinkHours};
use touchline::domain::limit::{DailyAction, action_id};
use touchline::storage::Retry;
use touchline::{App, Call, Error, Reply};

use crate::{day_limit, lookup};

/// Returns the caller's link for a room, and creates it if there is no valid one. Any member can invite, so any member can
/// create a link.
pub async fn handle(app: App, call: Call<CreateInviteLink>) -> Result<Reply<Message<InviteLinkView>>, Error> {
    let (caller, hours) = (call.caller.user, call.input.expires_in_hours);
    let room = lookup::room(&app, &call.path.chat_room).await?;
    if !lookup::has_joined(&app, &room, caller).await? {
        return Err(Error::NotAMember);
    }
    let code = LinkCode::parse(&app.random.word(CODE_LENGTH));
    let code = code.ok_or(Error::Broken("a new code is malformed"))?;
    let mut retry = Retry::immediate("an invite link", 5).of_own_item();
    loop {
        let stored =
            try_join(app.store.invite_link(&room.room_id, caller), app.store.link_revocations(&room.room_id));
        let (stored, revocations) = stored.await?;
        let now = app.clock.now();
        let valid = stored.as_ref().filter(|link| link.is_valid(revocations, now));
        let (status, link) = match (valid, hours) {
            (Some(link), None) => return Ok(reply(StatusCode::OK, link.clone())),
            (Some(link), Some(hours)) => {
                (StatusCode::OK, InviteLink { expires_at: expiry(hours, now), ..link.clone() })
            }
            (None, _) => {
                let id = action_id(&[code.as_str()]);
                day_limit::count(&app, caller, DailyAction::CreateInviteLink, id).await?;
                let link = InviteLink {
                    room_id: room.room_id.clone(),
                    made_by: caller,
                    code: code.clone(),
                    created_at: now,
                    expires_at: expiry(hours.unwrap_or_default(), now),
                    revocations,
                };
                (StatusCode::CREATED, link)
            }
        };
        if app.store.save_invite_link(&link, stored.as_ref()).await? {
            return Ok(reply(status, link));
        }
        // A concurrent request has created, changed or revoked the link.
        retry.again().await?;
    }
}

fn expiry(hours: LinkHours, now: DateTime<Utc>) -> DateTime<Utc> {
    (now + hours.lifetime()).trunc_subsecs(0)
}

fn reply(status: StatusCode, link: InviteLink) -> Reply<Message<InviteLinkView>> {
    let message = "Everybody with this link can join the room.".to_owned();
    Reply::new(status, Message { message, data: link.into() })
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use serde_json::json;
    use touchline::domain::UserId;
    use touchline_testing::{Fault, concurrently};

    use crate::testing::{app, builder};

    #[tokio::test]
    async fn a_member_gets_the_same_code_until_the_link_expires() {
        let (app, [alice, bob, _]) = app().await;
        let room = alice.creates_room("Den").private().await.room_id();
        let link = alice.creates_invite_link(&room).await.expect_data(201);
        let code = link["code"].as_str().unwrap();
        assert!(code.len() == 12 && code.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit()));
        assert_eq!(link, json!({ "code": code, "room_id": room, "expires_at": "2026-11-22T12:00:00Z" }));
        app.clock.advance(TimeDelta::days(7) - TimeDelta::seconds(1));
        assert_eq!(alice.creates_invite_link(&room).await.expect_data(200), link);
        bob.accepts_invite_link(code).await.expect(200);
        app.clock.advance(TimeDelta::seconds(1));
        let next = alice.creates_invite_link(&room).await.expect_data(201);
        assert_ne!(next["code"], link["code"]);
        // The links of two members are independent.
        let of_bob = bob.creates_invite_link(&room).await.expect_data(201);
        assert_ne!(next["code"], of_bob["code"]);
    }

    #[tokio::test]
    async fn a_request_with_a_time_changes_when_the_link_expires() {
        let (app, [alice, bob, carol]) = app().await;
        let room = alice.creates_room("Den").private().await.room_id();
        let link = alice.creates_invite_link(&room).field("expires_in_hours", 1).await.expect_data(201);
        assert_eq!(link["expires_at"], "2026-11-15T13:00:00Z");
        let code = link["code"].as_str().unwrap();
        let longer = alice.creates_invite_link(&room).field("expires_in_hours", 480).await.expect_data(200);
        assert_eq!(longer, json!({ "code": code, "room_id": room, "expires_at": "2026-12-05T12:00:00Z" }));
        app.clock.advance(TimeDelta::days(19));
        bob.accepts_invite_link(code).await.expect(200);
        app.clock.advance(TimeDelta::days(1));
        carol.accepts_invite_link(code).await.expect_error(404, "invite_link_not_found");
        for hours in [json!(0), json!(721), json!("x"), json!(1.5)] {
            let invalid = alice.creates_invite_link(&room).field("expires_in_hours", hours);
            invalid.await.expect_invalid(&["expires_in_hours"]);
        }
    }

    #[tokio::test]
    async fn a_link_is_not_in_the_index_of_memberships() {
        let (app, [alice, ..]) = app().await;
        let room = alice.creates_room("Den").private().await.room_id();
        alice.creates_invite_link(&room).await.expect(201);
        assert_eq!(app.store.memberships(UserId(alice.id), usize::MAX).await.unwrap().len(), 1);
        assert_eq!(alice.lists_rooms().joined().await.expect_data(200).as_array().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn only_members_can_create_a_link() {
        let (_app, [alice, bob, carol]) = app().await;
        let den = alice.creates_room("Den").private().await.room_id();
        bob.creates_invite_link(&den).await.expect_error(403, "not_a_member");
        alice.invites_to(&den).user(bob.id).await.expect(200);
        bob.creates_invite_link(&den).await.expect_error(403, "not_a_member");
        carol.creates_invite_link("!match1:touchline.local").await.expect_error(403, "not_a_member");
        carol.joins("!match1:touchline.local").await.expect(200);
        carol.creates_invite_link("!match1:touchline.local").await.expect(201);
        alice.creates_invite_link("!nobody:touchline.local").await.expect_error(404, "room_not_found");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn concurrent_requests_create_one_link() {
        let (_app, [alice, bob, _]) = app().await;
        let room = alice.creates_room("Den").private().await.room_id();
        let responses = concurrently(10, |_| alice.creates_invite_link(&room)).await;
        let created = responses.iter().filter(|response| response.status == 201).count();
        let codes: Vec<_> = responses.iter().map(|response| response.body["data"]["code"].clone()).collect();
        assert_eq!(created, 1, "{responses:?}");
        assert!(codes.iter().all(|code| *code == codes[0]), "{codes:?}");
        bob.accepts_invite_link(codes[0].as_str().unwrap()).await.expect(200);
    }

    /// Whatever call fails, the next request returns a code that works.
    #[tokio::test]
    async fn a_lost_response_or_a_crash_leaves_a_link_that_works() {
        for fault in [Fault::LoseResponse, Fault::FailAfter] {
            for failing in 0..8 {
                let (app, [alice, bob, _]) = app().await;
                let room = alice.creates_room("Den").private().await.room_id();
                let mut calls = 0;
                app.faults.set(move |attempt| {
                    calls += u32::from(attempt.number == 1);
                    if calls == failing + 1 && attempt.number == 1 { fault } else { Fault::None }
                });
                let _ = alice.creates_invite_link(&room).await;
                app.faults.clear();
                let again = alice.creates_invite_link(&room).await;
                assert!([200, 201].contains(&again.status.as_u16()), "{fault:?} {failing}: {again:?}");
                bob.accepts_invite_link(again.body["data"]["code"].as_str().unwrap()).await.expect(200);
            }
        }
    }

    #[tokio::test]
    async fn new_links_are_limited_per_day_and_the_code_is_in_no_key() {
        let app = builder().start().await;
        let alice = app.user("alice").await;
        let room = alice.creates_room("Den").private().await.room_id();
        let mut codes = Vec::new();
        for _ in 0..50 {
            let link = alice.creates_invite_link(&room).await.expect_data(201);
            codes.push(link["code"].as_str().unwrap().to_owned());
            alice.creates_invite_link(&room).await.expect(200);
            alice.revokes_invite_link(&room).await.expect(200);
        }
        let limited = alice.creates_invite_link(&room).await;
        limited.expect_error(429, "rate_limited");
        assert_eq!(
            limited.message(),
            "You can create 50 invite links a day. Create the next one after midnight UTC."
        );
        app.clock.advance(TimeDelta::days(1));
        let link = alice.creates_invite_link(&room).await.expect_data(201);
        let dump = app.dump().await;
        assert!(codes.iter().all(|code| !dump.contains(code.as_str())), "revoked codes are not stored");
        assert_eq!(
            dump.matches(link["code"].as_str().unwrap()).count(),
            1,
            "only as an attribute of the link"
        );
    }
}
