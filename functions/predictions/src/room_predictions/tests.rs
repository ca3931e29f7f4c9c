use std::collections::BTreeSet;

use chrono::TimeDelta;
use serde_json::{Value, json};
use touchline::api::Cursor;
use touchline::api::predictions::{AfterMember, AfterPredictor};
use touchline::domain::UserId;
use touchline::domain::room::{Membership, Room, RoomId};
use touchline_testing::{TestApp, User, next_position};

use crate::testing::{app, app_with, fan, tally_all, user_ids};

const CORNER: &str = "!corner:touchline.local";

async fn room(app: &TestApp, id: &str, event: Option<u32>, is_private: bool) -> Room {
    let room = Room {
        room_id: RoomId::parse(id).unwrap(),
        name: "Corner".into(),
        topic: String::new(),
        event_id: event,
        creator_id: None,
        is_private,
        shards: 4,
        created_at: app.clock.now(),
        last_activity: app.clock.now(),
        league: None,
        removed_at: None,
    };
    app.store.put_room(&room).await.unwrap();
    room
}

async fn set_membership(app: &TestApp, room: &Room, user: u32, membership: Membership) {
    let now = app.clock.now();
    app.store
        .apply_homeserver_membership(room, UserId(user), (membership, now), next_position())
        .await
        .unwrap();
}

async fn predicts(app: &TestApp, user: u32, event: u32, pick: &str) {
    let response = fan(app, user).await.predicts(event).pick(pick).await;
    assert!(response.status.is_success(), "{}", response.body);
}

async fn list(user: &User, room: &str) -> Value {
    user.lists_room_predictions(room).await.expect(200)
}

fn users(list: &Value) -> BTreeSet<u64> {
    user_ids(list).into_iter().collect()
}

fn meta(total: u32, home: u32, draw: u32, away: u32) -> Value {
    json!({
        "total_predictions": total, "home_predictions": home, "draw_predictions": draw,
        "away_predictions": away, "next_cursor": null,
    })
}

#[tokio::test]
async fn members_are_listed_whether_they_join_or_predict_first() {
    let (app, alice) = app().await;
    let room = room(&app, CORNER, Some(1), false).await;
    predicts(&app, 2, 1, "home").await;
    tally_all(&app).await;
    set_membership(&app, &room, 2, Membership::Join).await;
    set_membership(&app, &room, 3, Membership::Join).await;
    tally_all(&app).await;
    predicts(&app, 3, 1, "draw").await;
    // Not listed: user 4 is in no room, user 5 predicts another match, user 6 is only invited.
    predicts(&app, 4, 1, "away").await;
    predicts(&app, 5, 4, "away").await;
    predicts(&app, 6, 1, "away").await;
    set_membership(&app, &room, 5, Membership::Join).await;
    set_membership(&app, &room, 6, Membership::Invite).await;
    tally_all(&app).await;
    let found = list(&alice, CORNER).await;
    assert_eq!(found["meta"], meta(2, 1, 1, 0));
    assert_eq!(users(&found), [2, 3].into());
    let row = &found["data"].as_array().unwrap().iter().find(|row| row["user"]["id"] == 3).unwrap();
    assert_eq!((&row["prediction"], &row["user"]["username"]), (&json!("draw"), &json!("fan.3")));

    // User 3 changes the pick, and user 2 leaves.
    predicts(&app, 3, 1, "away").await;
    set_membership(&app, &room, 2, Membership::Leave).await;
    tally_all(&app).await;
    let found = list(&alice, "!corner%3Atouchline.local").await;
    assert_eq!((&found["meta"], users(&found)), (&meta(1, 0, 0, 1), [3].into()));
    // User 2 joins again, and the earlier pick counts again.
    set_membership(&app, &room, 2, Membership::Join).await;
    tally_all(&app).await;
    assert_eq!(list(&alice, CORNER).await["meta"], meta(2, 1, 0, 1));
}

#[tokio::test]
async fn a_changed_prediction_is_counted_with_its_new_pick_before_the_match_has_a_result() {
    let (app, alice) = app().await;
    let room = room(&app, CORNER, Some(1), false).await;
    fan(&app, 2).await;
    set_membership(&app, &room, 2, Membership::Join).await;
    for (pick, counts) in [("home", meta(1, 1, 0, 0)), ("away", meta(1, 0, 0, 1))] {
        app.clock.advance(TimeDelta::seconds(1));
        predicts(&app, 2, 1, pick).await;
        tally_all(&app).await;
        assert_eq!(list(&alice, CORNER).await["meta"], counts, "{pick}");
    }
}

#[tokio::test]
async fn paging_lists_every_member_of_a_match_room_once() {
    let (app, alice) = app().await;
    let id = RoomId::parse("!match1:touchline.local").unwrap();
    let room = app.store.room(&id).await.unwrap().unwrap();
    assert_eq!((room.event_id, room.shards), (Some(1), 64));
    for user in 2..=40 {
        predicts(&app, user, 1, "home").await;
        set_membership(&app, &room, user, Membership::Join).await;
    }
    tally_all(&app).await;
    let mut seen = BTreeSet::new();
    let first = alice.lists_room_predictions(id.as_str()).per_page(7);
    let mut next = first.clone();
    loop {
        let page = next.await.expect(200);
        assert_eq!(page["meta"]["total_predictions"], 39);
        for user in user_ids(&page) {
            assert!(seen.insert(user), "{user} is listed twice");
        }
        match page["meta"]["next_cursor"].as_str() {
            Some(cursor) => next = first.clone().cursor(cursor),
            None => break,
        }
    }
    assert_eq!(seen, (2..=40).collect());
}

#[tokio::test]
async fn only_members_see_the_predictions_of_a_private_room() {
    let (app, alice) = app().await;
    let den = "!den:touchline.local";
    let room = room(&app, den, Some(1), true).await;
    alice.lists_room_predictions(den).await.expect_error(403, "not_a_member");
    for (membership, status) in [(Membership::Invite, 403), (Membership::Join, 200), (Membership::Leave, 403)]
    {
        set_membership(&app, &room, alice.id, membership).await;
        assert_eq!(alice.lists_room_predictions(den).await.status, status, "{membership:?}");
    }
}

#[tokio::test]
async fn a_setting_hides_the_picks_of_other_users_until_kick_off() {
    let (app, alice) = app_with(&[("PICKS_VISIBLE", "after_start")]).await;
    let room = room(&app, CORNER, Some(1), false).await;
    alice.predicts(1).home().await.expect(201);
    predicts(&app, 2, 1, "draw").await;
    set_membership(&app, &room, 2, Membership::Join).await;
    tally_all(&app).await;
    let found = list(&alice, CORNER).await;
    assert_eq!((users(&found), &found["meta"]), ([].into(), &meta(1, 0, 0, 0)));
    set_membership(&app, &room, alice.id, Membership::Join).await;
    tally_all(&app).await;
    let found = list(&alice, CORNER).await;
    assert_eq!((users(&found), &found["meta"]), ([1].into(), &meta(2, 0, 0, 0)));
    app.clock.advance(TimeDelta::hours(3));
    let found = list(&alice, CORNER).await;
    assert_eq!((users(&found), &found["meta"]), ([1, 2].into(), &meta(2, 1, 1, 0)));
}

#[tokio::test]
async fn a_room_without_a_match_has_no_predictions() {
    let (app, alice) = app().await;
    let chatter = "!chatter:touchline.local";
    room(&app, chatter, None, false).await;
    let found = list(&alice, chatter).await;
    assert_eq!((users(&found), &found["meta"]), ([].into(), &meta(0, 0, 0, 0)));
}

#[tokio::test]
async fn a_room_without_a_match_rejects_malformed_cursors_and_cursors_of_other_lists() {
    let (app, alice) = app().await;
    let chatter = "!chatter:touchline.local";
    room(&app, chatter, None, false).await;
    let of_another_room = Cursor::new("!other:touchline.local", AfterMember(UserId(1))).to_string();
    let of_a_match = Cursor::new(1, AfterPredictor(UserId(1))).to_string();
    for cursor in ["x", &of_another_room, &of_a_match] {
        alice.lists_room_predictions(chatter).cursor(cursor).await.expect_invalid(&["cursor"]);
    }
}

#[tokio::test]
async fn unknown_room_ids_are_404() {
    let (_, alice) = app().await;
    for id in ["!nowhere:touchline.local", "nonsense", "%00", "!a", "%21"] {
        alice.lists_room_predictions(id).await.expect_error(404, "room_not_found");
    }
}
