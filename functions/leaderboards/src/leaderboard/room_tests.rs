use std::collections::BTreeMap;

use chrono::TimeDelta;
use serde_json::{Value, json};
use touchline::domain::UserId;
use touchline::domain::room::{Membership, Room, RoomId, StreamPosition};
use touchline::domain::standings::{Board, Period, Scope};
use touchline::storage::Reads;
use touchline_testing::{Fault, TestApp, User};

use super::tests::{app, count, import, ranks, sample, settle};

/// Lets `tally` count the members, and enough time pass for the next build.
async fn count_members(app: &TestApp) {
    for _ in 0..2 {
        let report = app.invoke(tally::handle, app.changes(&app.config.tables.rooms).await).await;
        assert_eq!(report["batchItemFailures"], json!([]));
    }
    app.clock.advance(TimeDelta::minutes(1));
}

/// Registers users who are members of a room and predict match 1 with the score `n`:0, where `n` counts them from 1.
async fn friends(app: &TestApp, room: &str, count: u32) -> Vec<User> {
    let mut friends = Vec::new();
    for n in 1..=count {
        let friend = app.user(&format!("friend{n}")).await;
        friend.joins(room).await.expect(200);
        friend.predicts(1).home().score(n, 0).await.expect(201);
        friends.push(friend);
    }
    friends
}

#[tokio::test(start_paused = true)]
async fn a_room_has_a_table_of_its_members_and_follows_them_and_the_results() {
    let app = app().await;
    let alice = app.user("alice").await;
    let room = alice.creates_room("Kop").await.room_id();
    let friends = friends(&app, &room, 3).await;
    let stranger = app.user("stranger").await;
    stranger.predicts(1).home().score(2, 0).await.expect(201);
    count_members(&app).await;
    let body = alice.views_table(&room).await.expect(200);
    assert_eq!(ranks(&body), [(1, "alice"), (1, "friend1"), (1, "friend2"), (1, "friend3")]);
    assert_eq!(body["meta"]["me"], body["data"][0]);
    assert_eq!((&body["meta"]["total"], &body["data"][0]["settled"]), (&json!(4), &json!(0)));

    settle(&app, (2, 0)).await;
    app.clock.advance(TimeDelta::seconds(3));
    let body = friends[2].views_table(&room).await.expect(200);
    assert_eq!(ranks(&body), [(1, "friend2"), (2, "friend1"), (2, "friend3"), (4, "alice")]);
    assert_eq!(
        body["meta"]["me"],
        json!({
            "rank": 2, "user": { "id": friends[2].id, "username": "friend3", "name": null },
            "points": 2, "correct": 1, "exact": 0, "settled": 1, "accuracy": 1.0, "moved": -1,
        })
    );
    // Somebody who is not a member reads the same rows of a public room.
    let other = stranger.views_table(&room).await.expect(200);
    assert_eq!((&other["data"], &other["meta"]["me"]), (&body["data"], &Value::Null));
    let around = stranger.views_table(&room).query("around", "me").await.expect(200);
    assert_eq!((&around["data"], &around["meta"]["empty_reason"]), (&json!([]), &json!("not_a_member")));

    friends[1].leaves(&room).await.expect(200);
    stranger.joins(&room).await.expect(200);
    count_members(&app).await;
    let body = stranger.views_table(&room).await.expect(200);
    assert_eq!(ranks(&body), [(1, "stranger"), (2, "friend1"), (2, "friend3"), (4, "alice")]);
    // The new member has no earlier rank. The others keep theirs.
    assert_eq!((&body["data"][0]["moved"], &body["data"][1]["moved"]), (&Value::Null, &json!(-1)));
    let around = alice.views_table(&room).query("around", "me").await.expect(200);
    assert_eq!(around["data"], body["data"]);
}

#[tokio::test(start_paused = true)]
async fn the_creator_chooses_which_matches_count() {
    let app = app().await;
    let alice = app.user("alice").await;
    let mut rooms = BTreeMap::new();
    for league in ["match", "tournament", "all"] {
        // Match 2 belongs to the same tournament as match 1.
        let created = alice.creates_room(league).about_event(2).league(league).await.expect(201);
        assert_eq!(created["data"]["league"], league);
        rooms.insert(league, created["data"]["room_id"].as_str().unwrap().to_owned());
    }
    alice.predicts(1).home().score(1, 0).await.expect(201);
    count_members(&app).await;
    settle(&app, (1, 0)).await;
    let points = async |league: &str| {
        app.clock.advance(TimeDelta::seconds(3));
        alice.views_table(&rooms[league]).await.expect(200)["data"][0]["points"].clone()
    };
    let tournament = |event: usize| sample()["events"][event]["tournament_id"].clone();
    assert_eq!(tournament(0), tournament(1), "the sample league has changed");
    assert_eq!(points("match").await, 0);
    assert_eq!((points("tournament").await, points("all").await), (json!(4), json!(4)));
    // One match has no periods. The other tables have them.
    alice.views_table(&rooms["match"]).query("period", "month").await.expect_invalid(&["period"]);
    let month = alice.views_table(&rooms["tournament"]).query("period", "month").await.expect(200);
    assert_eq!(month["data"][0]["points"], 4);
    let earlier = [("period", "month"), ("date", "2026-10-01")];
    let request = alice.views_table(&rooms["tournament"]);
    let body = earlier.iter().fold(request, |request, (name, value)| request.query(name, value)).await;
    assert_eq!(body.expect(200)["meta"]["total"], 0, "the month had closed before the room existed");

    alice.creates_room("Nothing").league("match").await.expect_invalid(&["league"]);
    alice.creates_room("Nothing").league("cup").await.expect_invalid(&["league"]);
}

#[tokio::test(start_paused = true)]
async fn the_room_of_a_match_ranks_its_members_by_the_points_of_the_match() {
    let app = app().await;
    let alice = app.user("alice").await;
    let room = alice.creates_room("Kop").about_event(1).await.room_id();
    let friends = friends(&app, &room, 2).await;
    count_members(&app).await;
    settle(&app, (2, 0)).await;
    let body = alice.views_table(&room).await.expect(200);
    assert_eq!(ranks(&body), [(1, "friend2"), (2, "friend1"), (3, "alice")]);
    assert_eq!((&body["data"][0]["points"], &body["data"][0]["exact"]), (&json!(4), &json!(1)));
    // The result is corrected.
    settle(&app, (1, 0)).await;
    app.clock.advance(TimeDelta::seconds(3));
    let body = friends[0].views_table(&room).await.expect(200);
    assert_eq!(ranks(&body), [(1, "friend1"), (2, "friend2"), (3, "alice")]);
    assert_eq!((&body["meta"]["me"]["rank"], &body["meta"]["me"]["moved"]), (&json!(1), &json!(1)));
}

#[tokio::test(start_paused = true)]
async fn only_members_read_the_table_of_a_private_room() {
    let app = app().await;
    let (alice, bob) = (app.user("alice").await, app.user("bob").await);
    let room = alice.creates_room("Den").private().await.room_id();
    count_members(&app).await;
    bob.views_table(&room).await.expect_error(403, "not_a_member");
    assert_eq!(ranks(&alice.views_table(&room).await.expect(200)), [(1, "alice")]);
    alice.views_table("!nothing:touchline.local").await.expect_error(404, "room_not_found");
    alice.views_leaderboard().query("scope", "room").await.expect_invalid(&["id"]);
    alice.views_leaderboard().query("scope", "room").query("id", 1).await.expect_invalid(&["id"]);
    alice.views_leaderboard().query("scope", "tournament").query("id", &room).await.expect_invalid(&["id"]);
}

#[tokio::test(start_paused = true)]
async fn a_suspended_member_leaves_the_table_and_returns_when_restored() {
    let app = app().await;
    let alice = app.user("alice").await;
    let room_of_match = alice.creates_room("Kop").about_event(1).await.room_id();
    let room_of_all = alice.creates_room("Den").await.room_id();
    let friends = friends(&app, &room_of_match, 2).await;
    // No leaderboard shows a user who has not predicted.
    let spectator = app.user("spectator").await;
    for member in friends.iter().chain([&spectator]) {
        member.joins(&room_of_all).await.expect(200);
    }
    spectator.joins(&room_of_match).await.expect(200);
    count_members(&app).await;
    settle(&app, (1, 0)).await;
    let all = vec![(1, "friend1"), (2, "friend2"), (3, "alice"), (3, "spectator")];
    let orders = [
        ("suspend", &spectator, vec![(1, "friend1"), (2, "friend2"), (3, "alice")]),
        ("suspend", &friends[0], vec![(1, "friend2"), (2, "alice")]),
        ("restore", &friends[0], vec![(1, "friend1"), (2, "friend2"), (3, "alice")]),
        ("restore", &spectator, all.clone()),
    ];
    let expect = async |expected: &[(u64, &str)]| {
        app.clock.advance(TimeDelta::minutes(1));
        for room in [&room_of_match, &room_of_all] {
            let body = alice.views_table(room).await.expect(200);
            assert_eq!(ranks(&body), expected);
            assert_eq!(body["meta"]["total"], expected.len());
        }
    };
    expect(&all).await;
    for (order, user, expected) in orders {
        let order = json!({ (order): { "user_id": user.id, "operator": "olivia", "reason": "spam" } });
        app.invoke(moderation::handle, order).await;
        count(&app).await;
        count_members(&app).await;
        expect(&expected).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_build_that_stops_at_any_store_call_leaves_a_whole_table_and_the_next_reader_builds_it() {
    let app = app().await;
    let alice = app.user("alice").await;
    let room = alice.creates_room("Kop").await.room_id();
    let friends = friends(&app, &room, 3).await;
    count_members(&app).await;
    let mut expected = vec![(1, "alice".to_owned())];
    expected.extend((1..=3).map(|n| (1, format!("friend{n}"))));
    let read = async |user: &User| -> Option<Vec<(u64, String)>> {
        let response = user.views_table(&room).await;
        (response.status == 200).then(|| {
            let body = response.expect(200);
            ranks(&body).into_iter().map(|(rank, name)| (rank, name.to_owned())).collect()
        })
    };
    assert_eq!(read(&alice).await, Some(expected.clone()));
    settle(&app, (2, 0)).await;
    let settled: Vec<(u64, String)> = [(1, "friend2"), (2, "friend1"), (2, "friend3"), (4, "alice")]
        .map(|(rank, name)| (rank, name.to_owned()))
        .to_vec();
    // Each reader is stopped one call later than the reader before. The first ones read the earlier table.
    let mut stopped = 0;
    loop {
        let mut calls = 0;
        app.faults.set(move |_| {
            calls += 1;
            if calls > stopped { Fault::FailBefore } else { Fault::None }
        });
        let found = read(&friends[0]).await;
        app.faults.clear();
        if found.as_ref() == Some(&settled) {
            break;
        }
        assert!(found.is_none_or(|found| found == expected), "after {stopped} calls");
        stopped += 1;
        assert!(stopped < 100, "the build does not end");
        // The slots of the builds that have stopped are free again after ten minutes.
        app.clock.advance(TimeDelta::minutes(11));
    }
    assert!(stopped > 15, "the request made only {stopped} calls");
    app.clock.advance(TimeDelta::seconds(3));
    assert_eq!(read(&alice).await, Some(settled));
}

/// Stores a room with so many members, most of whom do not exist as users.
async fn store_large_room(app: &TestApp, members: u32) -> Room {
    let rooms = app.store_rooms(1, 1, false, Membership::Join).await;
    for user in 2..=members {
        let member = (Membership::Join, app.clock.now());
        let position = StreamPosition(1_000_000 + u64::from(user));
        app.store.apply_homeserver_membership(&rooms[0], UserId(user), member, position).await.unwrap();
    }
    count_members(app).await;
    rooms[0].clone()
}

#[tokio::test(start_paused = true)]
async fn standings_builds_the_table_of_a_large_room_and_a_page_of_it_costs_the_same() {
    let app = app().await;
    let alice = app.user("alice").await;
    let large = store_large_room(&app, 1_100).await;
    let id = large.room_id.as_str();
    let body = alice.views_table(id).await.expect(200);
    assert_eq!((&body["meta"]["total"], &body["meta"]["as_of"]), (&json!(0), &Value::Null));
    // A second reader does not queue it again.
    alice.views_table(id).await.expect(200);
    assert_eq!(app.store.queued_rooms().await.unwrap().len(), 1);
    let built = app.invoke(standings::handle, json!({})).await;
    assert_eq!(built["rooms"], 1);
    assert_eq!(app.store.queued_rooms().await.unwrap().len(), 0);
    // The first member, because the others do not exist as users.
    let page = |room: &str| alice.views_table(room).query("per_page", 1);
    let large_page = page(id).await;
    let cost =
        |response: &touchline_testing::Response| response.header("x-touchline-cost").unwrap().to_owned();
    let large_cost = cost(&large_page);
    assert_eq!(large_page.expect(200)["meta"]["total"], 1_100);

    let small = alice.creates_room("Kop").await.room_id();
    count_members(&app).await;
    alice.views_table(&small).await.expect(200);
    assert_eq!(cost(&page(&small).await), large_cost);
}

#[tokio::test(start_paused = true)]
async fn concurrent_readers_build_a_table_once() {
    let app = app().await;
    let alice = app.user("alice").await;
    let room = alice.creates_room("Kop").await.room_id();
    count_members(&app).await;
    let readers = (0..20).map(|_| async { alice.views_table(&room).await.expect(200) });
    futures_util::future::join_all(readers).await;
    let scope = Scope::Room(RoomId::parse(&room).unwrap().table_digest());
    let board = Board { scope, period: Period::All };
    let built = app.store.built_board(board, Reads::Consistent).await.unwrap().unwrap();
    assert_eq!(built.build, 1);
}

/// Gives a copy of match 1 on another day a result, and builds the boards.
async fn settle_later_match(app: &TestApp, fans: &[User]) {
    let mut event = sample()["events"][0].clone();
    event["id"] = json!(77);
    event["start_time"] = json!((app.clock.now() + TimeDelta::hours(2)).to_rfc3339());
    import(app, json!({ "format": "touchline", "events": [event] })).await;
    for fan in fans {
        fan.predicts(77).home().score(1, 0).await.expect(201);
    }
    event["status"] = json!("finished");
    (event["home_score"], event["away_score"]) = (json!(1), json!(0));
    import(app, json!({ "format": "touchline", "events": [event] })).await;
    app.clock.advance(TimeDelta::minutes(1));
    app.invoke(points::handle, json!({ "event_id": 77 })).await;
    count(app).await;
}

#[tokio::test(start_paused = true)]
async fn a_closed_period_keeps_the_callers_row_and_the_tables_of_rooms() {
    let app = app().await;
    let alice = app.user("alice").await;
    let [read, unread] = [alice.creates_room("Kop").await, alice.creates_room("Shed").await];
    let (read, unread) = (read.room_id(), unread.room_id());
    let friends = friends(&app, &read, 3).await;
    for friend in &friends {
        friend.joins(&unread).await.expect(200);
    }
    count_members(&app).await;
    settle(&app, (2, 0)).await;
    let on_matchday = |request: touchline_testing::Request<TestApp>| {
        request.query("period", "matchday").query("date", "2026-11-15")
    };
    let open = on_matchday(friends[2].views_leaderboard()).await.expect(200);
    assert_eq!(open["meta"]["me"]["rank"], 2);
    let table = on_matchday(friends[2].views_table(&read)).await.expect(200);

    // The period closes after three days and is built for another twelve hours. The next settlement removes its counters.
    app.clock.advance(TimeDelta::days(5));
    app.invoke(standings::handle, json!({})).await;
    settle_later_match(&app, &friends).await;
    let stats = app.store.ranked_tally(UserId(friends[2].id)).await.unwrap();
    let board = Board { scope: Scope::Global, period: Period::Matchday("2026-11-15".parse().unwrap()) };
    assert_eq!(stats.row(UserId(friends[2].id), board), None, "the counters are still there");

    let closed = on_matchday(friends[2].views_leaderboard()).await.expect(200);
    assert_eq!(closed, open);
    let around = on_matchday(friends[2].views_leaderboard()).query("around", "me").await.expect(200);
    assert_eq!(around["data"], open["data"]);
    // A user who was not on the board.
    assert_eq!(on_matchday(alice.views_leaderboard()).await.expect(200)["meta"]["me"], Value::Null);

    // Who leaves later stays in the table of a closed period.
    friends[0].leaves(&read).await.expect(200);
    count_members(&app).await;
    assert_eq!(on_matchday(friends[2].views_table(&read)).await.expect(200), table);
    // This table was never read while the period was open.
    let first = on_matchday(friends[2].views_table(&unread)).await.expect(200);
    assert_eq!(ranks(&first), ranks(&table));
    assert_eq!(first["meta"]["me"]["points"], table["meta"]["me"]["points"]);
    // The rank before is that among all users, so it says nothing about the room.
    assert_eq!(first["meta"]["me"]["moved"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_request_for_a_period_without_results_builds_nothing() {
    let app = app().await;
    let alice = app.user("alice").await;
    let room = alice.creates_room("Kop").await.room_id();
    count_members(&app).await;
    for (date, is_built) in
        [("2026-11-15", true), ("2026-11-14", false), ("2031-01-01", false), ("9999-12-31", false)]
    {
        let request = alice.views_table(&room).query("period", "matchday").query("date", date);
        let total = request.await.expect(200)["meta"]["total"].clone();
        assert_eq!(total, u32::from(is_built), "{date}");
    }
    // The day is over, but the leaderboards of the day can still change. The table follows the members.
    app.clock.advance(TimeDelta::days(1));
    app.user("bob").await.joins(&room).await.expect(200);
    count_members(&app).await;
    let body =
        alice.views_table(&room).query("period", "matchday").query("date", "2026-11-15").await.expect(200);
    assert_eq!(ranks(&body), [(1, "alice"), (1, "bob")]);
}

#[tokio::test(start_paused = true)]
async fn activity_in_a_room_builds_its_table_less_often_than_a_new_member() {
    let app = app().await;
    let (alice, bob) = (app.user("alice").await, app.user("bob").await);
    let room = alice.creates_room("Kop").about_event(1).await.room_id();
    count_members(&app).await;
    let as_of = async || alice.views_table(&room).await.expect(200)["meta"]["as_of"].clone();
    let first = as_of().await;
    // A prediction changes the counters of the room.
    alice.predicts(1).home().await.expect(201);
    for table in [&app.config.tables.predictions, &app.config.tables.rooms, &app.config.tables.rooms] {
        app.invoke(tally::handle, app.changes(table).await).await;
    }
    app.clock.advance(TimeDelta::seconds(10));
    assert_eq!(as_of().await, first);
    bob.joins(&room).await.expect(200);
    for _ in 0..2 {
        app.invoke(tally::handle, app.changes(&app.config.tables.rooms).await).await;
    }
    assert_ne!(as_of().await, first);
}
