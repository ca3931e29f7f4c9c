use std::collections::BTreeSet;

use chrono::TimeDelta;
use serde_json::json;
use touchline::domain::room::Membership;
use touchline_testing::verbs::chat::ListRooms;
use touchline_testing::{Request, Response, TestApp};

use crate::testing::{app, listed, names, process_changes};

/// Returns the names of the rooms on the first page of a list.
async fn found(request: Request<TestApp, ListRooms>) -> BTreeSet<String> {
    names(&request.await.expect(200)).into_iter().map(str::to_owned).collect()
}

/// Returns the names of the rooms on all pages of a list.
async fn on_all_pages(request: Request<TestApp, ListRooms>) -> Vec<String> {
    let mut seen = Vec::new();
    let mut page = request.clone().await.expect(200);
    loop {
        seen.extend(names(&page).into_iter().map(str::to_owned));
        match page["meta"]["next_cursor"].as_str() {
            Some(next) => page = request.clone().cursor(next).await.expect(200),
            None => return seen,
        }
    }
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[tokio::test]
async fn a_listed_room_has_its_match_and_its_member_count() {
    let (_app, [alice, ..]) = app().await;
    let room = alice.lists_rooms().about_event(1).await.expect_data(200)[0].take();
    assert_eq!(
        room,
        json!({
            "room_id": "!match1:touchline.local",
            "name": room["name"],
            "topic": "",
            "event": {
                "id": 1, "home_team": "Northgate Rovers", "away_team": "São Miguel Atlético",
                "start_time": "2026-11-15T15:00:00Z",
            },
            "member_count": 0,
            "is_joined": false,
            "is_encrypted": false,
            "last_activity": room["last_activity"],
            "is_official": true,
            "league": "match",
        })
    );
    assert!(room["last_activity"].as_str().unwrap().ends_with('Z'));
}

#[tokio::test]
async fn private_rooms_are_listed_for_members_and_invited_users_only() {
    let (app, [alice, bob, carol]) = app().await;
    let den = alice.creates_room("Den of foxes").private().await.room_id();
    alice.creates_room("Foxes outside").await.expect(201);
    alice.invites_to(&den).user(bob.id).await.expect(200);
    process_changes(&app).await;
    for text in ["FOX", "fox"] {
        assert_eq!(found(alice.lists_rooms().search(text)).await, set(&["Den of foxes", "Foxes outside"]));
        assert_eq!(found(bob.lists_rooms().search(text)).await, set(&["Den of foxes", "Foxes outside"]));
        assert_eq!(found(carol.lists_rooms().search(text)).await, set(&["Foxes outside"]));
    }
    assert_eq!(found(alice.lists_rooms().joined()).await, set(&["Den of foxes", "Foxes outside"]));
    assert_eq!(found(bob.lists_rooms().joined()).await, set(&[]));
    assert_eq!(listed(&bob, &den).await.unwrap()["is_joined"], false);
    bob.leaves(&den).await.expect(200);
    assert_eq!(found(bob.lists_rooms().search("foxes")).await, set(&["Foxes outside"]));
}

#[tokio::test]
async fn search_finds_any_part_of_a_name_in_any_case() {
    let (app, [alice, ..]) = app().await;
    for name in ["Banana Split", "ÉCOLE de foot", "서울 club", "a b c", "100% Derby #1", "Щука huka"] {
        alice.creates_room(name).await.expect(201);
    }
    process_changes(&app).await;
    for (text, name) in [
        ("banana split", "Banana Split"),
        ("ANAN", "Banana Split"),
        ("a s", "Banana Split"),
        ("an", "Banana Split"),
        ("école", "ÉCOLE de foot"),
        ("cole de f", "ÉCOLE de foot"),
        ("서울", "서울 club"),
        ("b c", "a b c"),
        ("100%", "100% Derby #1"),
        ("#1", "100% Derby #1"),
        ("щука", "Щука huka"),
        ("shchuka h", "Щука huka"),
        // The folded name is "shchuka huka". The first "huka" in it begins inside the first character.
        ("huka", "Щука huka"),
    ] {
        let list = alice.lists_rooms().search(text).await.expect(200);
        assert_eq!(names(&list), [name], "{text}");
    }
    assert_eq!(found(alice.lists_rooms().search("nothing of that")).await, set(&[]));
    // "Banana" contains "an" twice. The room is listed once, even if a page ends between the two occurrences.
    assert_eq!(on_all_pages(alice.lists_rooms().search("an").per_page(1)).await, ["Banana Split"]);
}

/// The rooms of matches come first, in the order of match lists.
#[tokio::test]
async fn search_finds_the_rooms_of_matches_by_their_teams() {
    let (app, [alice, ..]) = app().await;
    alice.creates_room("Rovers away days").await.expect(201);
    process_changes(&app).await;
    let all = on_all_pages(alice.lists_rooms().search("rovers")).await;
    assert_eq!(
        all,
        [
            "Northgate Rovers – São Miguel Atlético",
            "Northgate Rovers – Westport Albion",
            "Westport Albion – Northgate Rovers",
            "Rovers away days",
        ]
    );
    for per_page in 1..=4 {
        assert_eq!(on_all_pages(alice.lists_rooms().search("rovers").per_page(per_page)).await, all);
    }
    for (text, name) in [
        ("albion – north", "Westport Albion – Northgate Rovers"),
        ("rovers - SÃO", "Northgate Rovers – São Miguel Atlético"),
    ] {
        assert_eq!(on_all_pages(alice.lists_rooms().search(text)).await, [name], "{text}");
    }
    assert_eq!(found(alice.lists_rooms().search("rovers").joined()).await, set(&["Rovers away days"]));
    let about = alice.lists_rooms().search("rovers").about_event(1);
    assert_eq!(found(about).await, set(&["Northgate Rovers – São Miguel Atlético"]));
}

/// A name can contain the searched text almost a hundred times. The number of DynamoDB calls must stay small.
#[tokio::test]
async fn a_search_in_repetitive_names_makes_few_calls() {
    let (app, [alice, ..]) = app().await;
    for n in 0..15 {
        alice.creates_room(&format!("{}{n}", "a".repeat(97))).await.expect(201);
    }
    process_changes(&app).await;
    for text in ["a", "aa"] {
        let search = alice.lists_rooms().search(text).per_page(100);
        let response = search.clone().await;
        assert!(calls(&response) < 20, "{text}: {}", calls(&response));
        let seen = on_all_pages(search).await;
        assert_eq!(seen.iter().filter(|name| name.starts_with("aaaa")).count(), 15, "{text}");
    }
}

/// The suffixes that begin with one character are in four partitions. A search for two or more characters reads one.
#[tokio::test]
async fn a_search_for_one_character_reads_at_most_three_more_partitions() {
    let (app, [alice, ..]) = app().await;
    // The second character is in each of the four ranges. The last name ends with the searched character.
    for name in ["Quiz", "Qabbala", "Qed", "Qi", "#1 fan of Q"] {
        alice.creates_room(name).await.expect(201);
    }
    process_changes(&app).await;
    // The first search loads the catalog.
    alice.lists_rooms().search("q").await.expect(200);
    app.clock.advance(TimeDelta::seconds(2));
    let one = alice.lists_rooms().search("q").await;
    app.clock.advance(TimeDelta::seconds(2));
    let two = alice.lists_rooms().search("qu").await;
    assert_eq!(calls(&one), calls(&two) + 3);
    // Sorted by the part of the name that begins with the text.
    let expected = ["#1 fan of Q", "Qabbala", "Qed", "Qi", "Quiz"];
    assert_eq!(names(&one.expect(200)), expected);
    assert_eq!(names(&two.expect(200)), ["Quiz"]);
    for per_page in 1..=5 {
        let pages = on_all_pages(alice.lists_rooms().search("q").per_page(per_page)).await;
        assert_eq!(pages, expected, "{per_page}");
    }
}

/// The newest room comes first, although the rooms are spread over partitions.
#[tokio::test]
async fn public_rooms_are_listed_newest_first() {
    let (app, [alice, bob, _]) = app().await;
    let mut expected = Vec::new();
    for n in 0..12 {
        app.clock.advance(TimeDelta::seconds(1));
        alice.creates_room(&format!("Stand {n}")).about_event(1).await.expect(201);
        expected.insert(0, format!("Stand {n}"));
    }
    process_changes(&app).await;
    for per_page in [1, 5, 100] {
        for list in [bob.lists_rooms(), bob.lists_rooms().about_event(1)] {
            let mut seen = on_all_pages(list.per_page(per_page)).await;
            seen.retain(|name| name.starts_with("Stand"));
            assert_eq!(seen, expected, "{per_page}");
        }
        let search = bob.lists_rooms().about_event(1).search("stand").per_page(per_page);
        assert_eq!(on_all_pages(search).await, expected, "{per_page}");
    }
}

#[tokio::test]
async fn the_rooms_of_live_and_coming_matches_are_listed_once_they_have_members() {
    let (app, [alice, bob, _]) = app().await;
    for name in ["Plaza", "Terrace"] {
        app.clock.advance(TimeDelta::seconds(1));
        alice.creates_room(name).await.expect(201);
    }
    process_changes(&app).await;
    assert_eq!(on_all_pages(bob.lists_rooms()).await, ["Terrace", "Plaza"], "no match has members");

    // Match 1 is scheduled, match 2 is live, and match 3 is finished.
    for event in 1..=3 {
        alice.joins(&format!("!match{event}:touchline.local")).await.expect(200);
    }
    process_changes(&app).await;
    let (live, scheduled) =
        ("São Miguel Atlético – Westport Albion", "Northgate Rovers – São Miguel Atlético");
    let expected = [live, scheduled, "Terrace", "Plaza"];
    for per_page in 1..=5 {
        assert_eq!(on_all_pages(bob.lists_rooms().per_page(per_page)).await, expected, "{per_page}");
    }
    assert_eq!(on_all_pages(bob.lists_rooms().about_event(3)).await.len(), 1, "a match lists all its rooms");
}

/// A search of the joined rooms has the same order.
#[tokio::test]
async fn joined_rooms_are_listed_last_joined_first() {
    let (app, [alice, bob, _]) = app().await;
    let (mut rooms, mut expected) = (Vec::new(), Vec::new());
    for n in 0..8 {
        let room = alice.creates_room(&format!("Stand {n}"));
        let room = if n % 3 == 0 { room.private() } else { room };
        rooms.push((n, room.await.room_id()));
    }
    rooms.rotate_left(3);
    for (n, room) in &rooms {
        app.clock.advance(TimeDelta::seconds(1));
        alice.invites_to(room).user(bob.id).await.expect(200);
        bob.joins(room).await.expect(200);
        expected.insert(0, format!("Stand {n}"));
    }
    for per_page in [1, 3, 8, 50] {
        let list = bob.lists_rooms().joined().per_page(per_page);
        assert_eq!(on_all_pages(list.clone()).await, expected, "{per_page}");
        assert_eq!(on_all_pages(list.search("stand")).await, expected, "{per_page}");
    }
}

/// They wait for an answer.
#[tokio::test]
async fn invitations_are_listed_first() {
    let (app, [alice, bob, _]) = app().await;
    let [den, lair, nest] = ["Den", "Lair", "Nest"].map(|name| alice.creates_room(name).private());
    let rooms = [den.await.room_id(), lair.await.room_id(), nest.await.room_id()];
    for room in &rooms {
        alice.invites_to(room).user(bob.id).await.expect(200);
    }
    for room in [&rooms[2], &rooms[0]] {
        app.clock.advance(TimeDelta::seconds(1));
        bob.joins(room).await.expect(200);
    }
    for per_page in 1..=3 {
        let list = bob.lists_rooms().per_page(per_page);
        assert_eq!(on_all_pages(list).await, ["Lair", "Den", "Nest"], "{per_page}");
    }
}

#[tokio::test]
async fn pages_show_each_room_once() {
    let (app, [alice, bob, _]) = app().await;
    let mut expected = BTreeSet::new();
    for n in 0..7 {
        alice.creates_room(&format!("Public lair {n}")).await.expect(201);
        alice.creates_room(&format!("Private lair {n}")).private().await.expect(201);
        expected.extend([format!("Public lair {n}"), format!("Private lair {n}")]);
    }
    process_changes(&app).await;
    for request in [
        alice.lists_rooms().search("lair").per_page(3),
        alice.lists_rooms().per_page(3),
        alice.lists_rooms().joined().per_page(4),
    ] {
        let mut seen = on_all_pages(request.clone()).await;
        seen.retain(|name| name.contains("lair"));
        assert_eq!(seen.len(), 14, "{request:?}: {seen:?}");
        assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), expected);
    }
    let seen_by_bob = on_all_pages(bob.lists_rooms().per_page(2)).await;
    assert_eq!(seen_by_bob.iter().filter(|name| name.contains("Private")).count(), 0);
    assert_eq!(seen_by_bob.iter().filter(|name| name.contains("Public")).count(), 7);
}

#[tokio::test]
async fn rooms_can_be_listed_by_match() {
    let (app, [alice, ..]) = app().await;
    alice.creates_room("Corner kicks").about_event(1).await.expect(201);
    alice.creates_room("Corner flags").about_event(1).private().await.expect(201);
    alice.creates_room("Throw-ins").about_event(1).await.expect(201);
    alice.creates_room("Corner shop").await.expect(201);
    process_changes(&app).await;
    let list = alice.lists_rooms().about_event(1).await.expect(200);
    assert_eq!(names(&list).len(), 4, "three created rooms and the match's own room: {list}");
    assert!(list["data"].as_array().unwrap().iter().all(|room| room["event"]["id"] == 1));
    let corner = alice.lists_rooms().about_event(1).search("corner");
    assert_eq!(found(corner.clone()).await, set(&["Corner kicks", "Corner flags"]));
    assert_eq!(on_all_pages(corner.per_page(1)).await.len(), 2);
    assert_eq!(found(alice.lists_rooms().about_event(77)).await, set(&[]));
    assert_eq!(found(alice.lists_rooms().about_event(1).joined()).await.len(), 3);
}

#[tokio::test]
async fn invalid_parameters_are_422_and_the_response_names_them() {
    let (_app, [alice, ..]) = app().await;
    for (name, value) in [
        ("joined", "maybe"),
        ("event_id", "x"),
        ("search", ""),
        ("per_page", "0"),
        ("per_page", "101"),
        ("cursor", "x"),
    ] {
        alice.lists_rooms().query(name, value).await.expect_invalid(&[name]);
    }
    // A cursor with an odd number of hexadecimal digits is malformed.
    alice.lists_rooms().search("ab").cursor("d7879").await.expect_invalid(&["cursor"]);
}

#[tokio::test]
async fn a_cursor_of_another_search_is_invalid() {
    let (app, [alice, bob, _]) = app().await;
    for name in ["Corner kicks", "Corner flags", "Throw-ins"] {
        alice.creates_room(name).await.expect(201);
    }
    process_changes(&app).await;
    let page = bob.lists_rooms().search("corner").per_page(1).await.expect(200);
    let cursor = page["meta"]["next_cursor"].as_str().unwrap();
    bob.lists_rooms().search("corner").cursor(cursor).await.expect(200);
    bob.lists_rooms().search("throw").cursor(cursor).await.expect_invalid(&["cursor"]);

    let page = bob.lists_rooms().search("rovers").per_page(1).await.expect(200);
    let cursor = page["meta"]["next_cursor"].as_str().unwrap();
    bob.lists_rooms().search("rovers").cursor(cursor).await.expect(200);
    bob.lists_rooms().search("rovers").about_event(1).cursor(cursor).await.expect_invalid(&["cursor"]);
}

#[tokio::test]
async fn joined_false_is_not_a_filter() {
    let (app, [alice, bob, _]) = app().await;
    alice.creates_room("Plaza").await.expect(201);
    process_changes(&app).await;
    assert_eq!(on_all_pages(bob.lists_rooms().query("joined", false)).await, ["Plaza"]);
}

fn reads(response: &Response) -> f64 {
    let cost = response.header("x-touchline-cost").unwrap();
    cost.split(' ').find_map(|part| part.strip_prefix("rcu=")).unwrap().parse().unwrap()
}

fn calls(response: &Response) -> u32 {
    let cost = response.header("x-touchline-cost").unwrap();
    cost.split(' ').find_map(|part| part.strip_prefix("calls=")).unwrap().parse().unwrap()
}

#[tokio::test]
async fn long_lists_show_each_room_once() {
    let (app, [alice, ..]) = app().await;
    app.store_rooms(alice.id, 130, true, Membership::Invite).await;
    app.store_rooms(alice.id, 120, false, Membership::Join).await;
    process_changes(&app).await;

    let all = on_all_pages(alice.lists_rooms().per_page(50)).await;
    assert!(all[..130].iter().all(|name| name.starts_with("den")), "private rooms come first");
    assert_eq!(all.iter().filter(|name| name.starts_with("stand")).count(), 120);
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    let joined = on_all_pages(alice.lists_rooms().joined().per_page(60)).await;
    assert_eq!(joined.len(), 120);
    assert_eq!(joined.iter().collect::<BTreeSet<_>>().len(), 120);
    let found = on_all_pages(alice.lists_rooms().search("den12").per_page(4)).await;
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>().len(), 11, "den12 and den120 to den129");

    // The pages of public rooms know which rooms the caller has joined.
    let mut page = alice.lists_rooms().per_page(100).await.expect(200);
    while let Some(next) = page["meta"]["next_cursor"].as_str() {
        page = alice.lists_rooms().per_page(100).cursor(next).await.expect(200);
        for room in page["data"].as_array().unwrap() {
            let is_joined = room["name"].as_str().unwrap().starts_with("stand");
            assert_eq!(room["is_joined"], is_joined, "{room}");
        }
    }
}

#[tokio::test]
async fn a_page_costs_little_however_many_rooms_the_caller_has() {
    let (app, [alice, ..]) = app().await;
    app.store_rooms(alice.id, 250, true, Membership::Invite).await;
    let page = alice.lists_rooms().per_page(20).await;
    // 20 rooms, their counts, and 250 memberships.
    assert!(reads(&page) <= 30.0, "{}", reads(&page));
    assert_eq!(names(&page.expect(200)).len(), 20);
    // A search compares up to 200 names. The next page continues it.
    let page = alice.lists_rooms().search("den249").per_page(20).await;
    assert!(reads(&page) < 110.0, "{}", reads(&page));
    assert!(names(&page.clone().expect(200)).is_empty());
    assert_eq!(on_all_pages(alice.lists_rooms().search("den249")).await, ["den249"]);
}
