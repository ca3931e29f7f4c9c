use futures_util::future::{try_join, try_join3};
use touchline::api::Cursor;
use touchline::api::predictions::{
    AfterMember, ListedPrediction, RoomPredictionList, RoomPredictionMeta, RoomPredictions,
};
use touchline::config::PicksVisible;
use touchline::domain::room::Member;
use touchline::flows::rooms;
use touchline::storage::Reads;
use touchline::{App, Call, Error, Reply};

pub async fn handle(app: App, call: Call<RoomPredictions>) -> Result<Reply<RoomPredictionList>, Error> {
    let id = call.path.chat_room;
    let (input, caller) = (call.input, call.caller.user);
    let room = async { app.store.room(&id).await.map_err(Error::from) };
    let counts = async { app.store.room_counts(&id).await.map_err(Error::from) };
    let (catalog, room, counts) = try_join3(app.catalog(), room, counts).await?;
    let room = room.ok_or(Error::RoomNotFound)?;
    rooms::require_read_access(&app, &room, caller).await?;
    let after = input.cursor.map(|cursor| cursor.position_in(id.as_str())).transpose()?.map(|after| after.0);
    let Some(event) = room.event_id.and_then(|event| catalog.event(event)) else {
        return Ok(
            RoomPredictionList { data: Vec::new(), meta: RoomPredictionMeta::of(&counts, None) }.into()
        );
    };

    let secret =
        app.config.picks_visible == PicksVisible::AfterStart && !event.has_kicked_off(app.clock.now());
    let (users, next) = if secret {
        let member = app.store.member(&room, caller, Reads::Eventual).await?.filter(Member::has_joined);
        (member.filter(|_| after.is_none()).map(|member| member.user_id).into_iter().collect(), None)
    } else {
        let about = usize::try_from(counts.totals.members).unwrap_or(0);
        let page = app.store.predictors_page(&room, after, input.per_page.0, about).await?;
        (page.rows.iter().map(|member| member.user_id).collect::<Vec<_>>(), page.next)
    };
    let rows = app.store.predictions_of(event.id, event.shards, &users);
    let (mut rows, people) = try_join(rows, app.store.people(&users)).await?;
    let rows: Vec<_> = users.iter().filter_map(|user| rows.remove(user)).collect();
    let data = ListedPrediction::all(&rows, &people);
    let next = next.map(|user| Cursor::new(id.as_str(), AfterMember(user)));
    Ok(RoomPredictionList { data, meta: RoomPredictionMeta::of(&counts, next.as_ref()) }.into())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};
    use touchline::domain::UserId;
    use touchline::domain::room::{Membership, Room, RoomId};
    use touchline_testing::TestApp;

    use crate::testing::{PATH, app, app_with, predicted, tallied};

    async fn room(app: &TestApp, id: &str, event: Option<u32>, is_private: bool) -> Room {
        let room = Room {
            room_id: RoomId::parse(id).unwrap(),
            name: "Corner".into(),
            topic: String::new(),
            event_id: event,
            creator_id: None,
            is_private,
            shards: 4,
            created_at: app.app.clock.now(),
            last_activity: app.app.clock.now(),
        };
        app.app.store.put_room(&room).await.unwrap();
        room
    }

    async fn set(app: &TestApp, room: &Room, user: u32, membership: Membership) {
        app.app
            .store
            .apply_homeserver_membership(room, UserId(user), membership, app.app.clock.now())
            .await
            .unwrap();
    }

    async fn list(app: &TestApp, token: &str, room: &str, query: &str) -> Value {
        app.get_as(token, &format!("/api/auth/chat-rooms/{room}/predictions?{query}")).await.expect(200)
    }

    fn users(list: &Value) -> BTreeSet<u64> {
        list["data"].as_array().unwrap().iter().map(|row| row["user"]["id"].as_u64().unwrap()).collect()
    }

    fn meta(total: u32, home: u32, draw: u32, away: u32) -> Value {
        json!({
            "total_predictions": total, "home_predictions": home, "draw_predictions": draw,
            "away_predictions": away, "next_cursor": null,
        })
    }

    /// Whoever predicts before joining is counted like whoever joins before predicting; others are not.
    #[tokio::test]
    async fn members_predictions_in_whatever_order_they_came() {
        let (app, token) = app().await;
        let room = room(&app, "!corner:touchline.local", Some(1), false).await;
        predicted(&app, 2, 1, "home").await;
        tallied(&app).await;
        set(&app, &room, 2, Membership::Join).await;
        set(&app, &room, 3, Membership::Join).await;
        tallied(&app).await;
        predicted(&app, 3, 1, "draw").await;
        // In no room, in this room for another match, invited, and a member who does not predict.
        predicted(&app, 4, 1, "away").await;
        predicted(&app, 5, 4, "away").await;
        predicted(&app, 6, 1, "away").await;
        set(&app, &room, 5, Membership::Join).await;
        set(&app, &room, 6, Membership::Invite).await;
        tallied(&app).await;
        let found = list(&app, &token, "!corner:touchline.local", "").await;
        assert_eq!(found["meta"], meta(2, 1, 1, 0));
        assert_eq!(users(&found), [2, 3].into());
        let row = &found["data"].as_array().unwrap().iter().find(|row| row["user"]["id"] == 3).unwrap();
        assert_eq!((&row["prediction"], &row["user"]["username"]), (&json!("draw"), &json!("fan.3")));

        // A change of mind, and somebody leaves.
        predicted(&app, 3, 1, "away").await;
        set(&app, &room, 2, Membership::Leave).await;
        tallied(&app).await;
        let found = list(&app, &token, "!corner%3Atouchline.local", "").await;
        assert_eq!((&found["meta"], users(&found)), (&meta(1, 0, 0, 1), [3].into()));
        // And comes back, with the pick of before.
        set(&app, &room, 2, Membership::Join).await;
        tallied(&app).await;
        assert_eq!(list(&app, &token, "!corner:touchline.local", "").await["meta"], meta(2, 1, 0, 1));
    }

    #[tokio::test]
    async fn a_match_has_its_room() {
        let (app, token) = app().await;
        let room = app.app.store.room(&RoomId::parse("!match1:touchline.local").unwrap()).await;
        let room = room.unwrap().unwrap();
        assert_eq!((room.event_id, room.shards), (Some(1), 64));
        for user in 2..=40 {
            predicted(&app, user, 1, "home").await;
            set(&app, &room, user, Membership::Join).await;
        }
        tallied(&app).await;
        let mut seen = BTreeSet::new();
        let mut query = "per_page=7".to_owned();
        loop {
            let page = list(&app, &token, "!match1:touchline.local", &query).await;
            assert_eq!(page["meta"]["total_predictions"], 39);
            for user in users(&page) {
                assert!(seen.insert(user), "{user} twice");
            }
            match page["meta"]["next_cursor"].as_str() {
                Some(cursor) => query = format!("per_page=7&cursor={cursor}"),
                None => break,
            }
        }
        assert_eq!(seen, (2..=40).collect());
    }

    #[tokio::test]
    async fn a_private_room_is_for_its_members() {
        let (app, token) = app().await;
        let room = room(&app, "!den:touchline.local", Some(1), true).await;
        let path = "/api/auth/chat-rooms/!den:touchline.local/predictions";
        app.get_as(&token, path).await.expect_error(403, "not_a_member");
        for (membership, status) in
            [(Membership::Invite, 403), (Membership::Join, 200), (Membership::Leave, 403)]
        {
            set(&app, &room, 1, membership).await;
            assert_eq!(app.get_as(&token, path).await.status, status, "{membership:?}");
        }
    }

    #[tokio::test]
    async fn before_kick_off_a_deployment_may_hide_what_others_predict() {
        let (app, token) = app_with(&[("PICKS_VISIBLE", "after_start")]).await;
        let room = room(&app, "!corner:touchline.local", Some(1), false).await;
        let _ = app.post_as(&token, PATH, json!({ "event_id": 1, "prediction": "home" })).await.expect(201);
        predicted(&app, 2, 1, "draw").await;
        set(&app, &room, 2, Membership::Join).await;
        tallied(&app).await;
        let found = list(&app, &token, "!corner:touchline.local", "").await;
        assert_eq!((users(&found), &found["meta"]), ([].into(), &meta(1, 0, 1, 0)));
        set(&app, &room, 1, Membership::Join).await;
        tallied(&app).await;
        let found = list(&app, &token, "!corner:touchline.local", "").await;
        assert_eq!((users(&found), &found["meta"]), ([1].into(), &meta(2, 1, 1, 0)));
        app.clock.advance(chrono::TimeDelta::hours(3));
        assert_eq!(users(&list(&app, &token, "!corner:touchline.local", "").await), [1, 2].into());
    }

    #[tokio::test]
    async fn no_match_no_predictions_and_no_room_no_answer() {
        let (app, token) = app().await;
        room(&app, "!chatter:touchline.local", None, false).await;
        let found = list(&app, &token, "!chatter:touchline.local", "").await;
        assert_eq!((users(&found), &found["meta"]), ([].into(), &meta(0, 0, 0, 0)));
        for id in ["!nowhere:touchline.local", "nonsense", "%00", "!a", "%21"] {
            let path = format!("/api/auth/chat-rooms/{id}/predictions");
            app.get_as(&token, &path).await.expect_error(404, "room_not_found");
        }
        for cursor in ["x", "e1.1", "r00000000.1"] {
            let path = format!("/api/auth/chat-rooms/!chatter:touchline.local/predictions?cursor={cursor}");
            app.get_as(&token, &path).await.expect_error(422, "validation_error");
        }
    }
}
