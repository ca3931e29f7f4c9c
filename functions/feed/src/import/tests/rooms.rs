use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use chrono::TimeDelta;
use serde_json::{Value, json};
use touchline::domain::RoomId;
use touchline::storage::catalog::load_latest;
use touchline_testing::{Fault, HomeserverStandIn, TestApp, User};

use super::{bytes, catalog, counts, run, run_without_lease, sample};

/// Starts an app with a homeserver. Returns both, and a user who can search for rooms.
async fn app() -> (TestApp, HomeserverStandIn, User) {
    let homeserver = HomeserverStandIn::start().await;
    let app = TestApp::serving(&[chat::router])
        .variable("CHAT_HOMESERVER_URL", homeserver.url())
        .variable("CHAT_AS_TOKEN", "as-token-of-the-tests")
        .start()
        .await;
    let alice = app.user("alice").await;
    (app, homeserver, alice)
}

/// Returns the id of a match's room on the homeserver.
fn room_of(event: u32) -> String {
    format!("!touchline-match-{event}:touchline.local")
}

/// Reads the name of a match's room in our table.
async fn stored_name(app: &TestApp, event: u32) -> String {
    app.store.room(&RoomId::parse(&room_of(event)).unwrap()).await.unwrap().unwrap().name
}

/// Lets `tally` process the changes of the rooms table, then searches for rooms. Returns the names of the rooms
/// that the search finds.
async fn search(app: &TestApp, user: &User, text: &str) -> Vec<String> {
    let changes = app.changes(&app.config.tables.rooms).await;
    let processed = app.invoke(tally::handle, changes).await;
    assert_eq!(processed["batchItemFailures"], json!([]));
    // The catalog in a warm Lambda function is up to a second old.
    app.clock.advance(TimeDelta::seconds(2));
    let found = user.lists_rooms().search(text).await.expect_data(200);
    found.as_array().unwrap().iter().map(|room| room["name"].as_str().unwrap().to_owned()).collect()
}

/// Gives the rooms of matches old names: a room's name contains the id of its match, and the hash of the name is unknown.
async fn give_old_names(app: &TestApp, homeserver: &HomeserverStandIn) {
    let tables = &app.config.tables;
    for event in 1..=4 {
        let name = format!("event {event}");
        homeserver.set_name(&room_of(event), &name);
        app.store.rename_room(&RoomId::parse(&room_of(event)).unwrap(), &name).await.unwrap();
        app.client()
            .update_item()
            .table_name(&tables.catalog)
            .key("pk", aws_sdk_dynamodb::types::AttributeValue::S(format!("event#{event}")))
            .key("sk", aws_sdk_dynamodb::types::AttributeValue::S("row".into()))
            .update_expression("SET room_name_hash = :unknown")
            .expression_attribute_values(":unknown", aws_sdk_dynamodb::types::AttributeValue::N("0".into()))
            .send()
            .await
            .unwrap();
    }
    // Publish a snapshot with these rows. The rebuild itself renames no room.
    run(app, &json!({ "rebuild": true })).await;
    assert_eq!(stored_name(app, 1).await, "event 1");
    let _ = homeserver.take_requests();
}

/// Returns the sample with another name for team 1.
fn renamed_team() -> Value {
    let mut document = sample();
    document["as_of"] = json!("2026-11-15T12:00:00Z");
    document["teams"][0]["name"] = json!("Northgate United");
    document
}

const NAMES: [&str; 4] = [
    "Northgate Rovers – São Miguel Atlético",
    "São Miguel Atlético – Westport Albion",
    "Westport Albion – Northgate Rovers",
    "Northgate Rovers – Westport Albion",
];

/// Imports a document. Returns the DynamoDB operations that the import called.
async fn calls(app: &TestApp, document: &Value) -> Vec<String> {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&calls);
    app.faults.set(move |attempt| {
        seen.lock().unwrap().push(attempt.operation.to_owned());
        Fault::None
    });
    run(app, document).await;
    app.faults.clear();
    calls.lock().unwrap().clone()
}

#[tokio::test]
async fn new_rooms_are_named_after_their_teams() {
    let (app, homeserver, alice) = app().await;
    run(&app, &sample()).await;
    for (event, name) in (1..).zip(NAMES) {
        assert_eq!(stored_name(&app, event).await, name);
        assert_eq!(homeserver.name(&room_of(event)).as_deref(), Some(name));
    }
    assert_eq!(search(&app, &alice, "sao miguel").await.len(), 2);
    assert_eq!(search(&app, &alice, "Rovers – Westport").await, [NAMES[3]]);
}

#[tokio::test]
async fn the_next_import_creates_matches_that_were_rejected_while_the_homeserver_was_down() {
    let (app, homeserver, alice) = app().await;
    homeserver.set_down(true);
    let report = run(&app, &sample()).await;
    assert_eq!(counts(&report), [5, 0, 0, 4], "{report}");
    for rejected in report["reasons"].as_array().unwrap() {
        assert!(rejected["reason"].as_str().unwrap().contains("import again"), "{rejected}");
    }
    assert_eq!(catalog(&app).await.events().count(), 0);
    assert_eq!(search(&app, &alice, "northgate").await, [""; 0]);
    let attempts = homeserver.take_requests();
    assert_eq!(created(&attempts), 4, "one for each match: {attempts:?}");

    homeserver.set_down(false);
    assert_eq!(counts(&run(&app, &sample()).await), [4, 0, 5, 0]);
    for (event, name) in (1..).zip(NAMES) {
        assert_eq!(*catalog(&app).await.event(event).unwrap().room, room_of(event));
        assert_eq!(stored_name(&app, event).await, name);
        assert_eq!(homeserver.name(&room_of(event)).as_deref(), Some(name));
    }
    assert_eq!(search(&app, &alice, "northgate").await.len(), 3);
}

/// Counts the requests that create a room.
fn created(requests: &[String]) -> usize {
    requests.iter().filter(|request| *request == "POST createRoom").count()
}

/// Returns a document with the result of match 1, and with new matches, the last of which begins first.
fn result_and_new_matches(count: u32) -> Value {
    let event = |id: u32, start: String| {
        json!({
            "id": id, "tournament_id": 1, "home_team_id": 1, "away_team_id": 2,
            "start_time": start, "status": "scheduled",
        })
    };
    let mut events: Vec<Value> =
        (0..count).map(|n| event(100 + n, format!("2027-03-01T{:02}:00:00Z", 23 - n))).collect();
    let mut known = sample()["events"][0].clone();
    known["status"] = json!("finished");
    (known["home_score"], known["away_score"]) = (json!(2), json!(1));
    events.push(known);
    json!({ "format": "touchline", "events": events })
}

/// Asserts that the result of match 1 is published, and that `points` may settle it.
async fn assert_result_is_published(app: &TestApp) {
    let event = catalog(app).await.event(1).unwrap().clone();
    assert_eq!((event.result().map(|score| (score.home, score.away)), event.revision), (Some((2, 1)), 1));
    let due = app.store.due().await.unwrap();
    assert!(due.iter().any(|due| (due.event_id, due.revision, due.is_published) == (1, 1, true)), "{due:?}");
}

/// The run ends when the homeserver gets the first request, as if it crashed then or the homeserver never responded.
#[tokio::test]
async fn results_are_published_before_the_import_asks_the_homeserver_for_a_room() {
    let (app, homeserver, _) = app().await;
    run(&app, &sample()).await;
    let (signal, mut asked) = tokio::sync::mpsc::unbounded_channel();
    homeserver.on_request(move |request| {
        let _ = signal.send(request.to_owned());
    });
    let document = result_and_new_matches(20);
    tokio::select! {
        biased;
        _ = asked.recv() => {}
        finished = run_without_lease(&app, &document) => panic!("it did not create a room: {finished:?}"),
    }
    assert_result_is_published(&app).await;
    run(&app, &document).await;
    assert_eq!(catalog(&app).await.events().count(), 4 + 20);
}

#[tokio::test]
async fn a_homeserver_that_is_down_gets_one_batch_of_requests_and_delays_no_result() {
    let (app, homeserver, _) = app().await;
    run(&app, &sample()).await;
    homeserver.set_down(true);
    let _ = homeserver.take_requests();
    let report = run(&app, &result_and_new_matches(20)).await;
    assert_eq!(counts(&report), [0, 1, 0, 20]);
    assert_eq!(created(&homeserver.take_requests()), 8);
    assert_result_is_published(&app).await;
}

/// Each room takes a minute, and a run has four and a half minutes. A batch has eight rooms.
#[tokio::test]
async fn rooms_that_do_not_fit_into_a_run_are_created_by_the_next_runs() {
    let (app, homeserver, _) = app().await;
    run(&app, &sample()).await;
    let clock = Arc::clone(&app.clock);
    homeserver.on_request(move |request| {
        if request == "POST createRoom" {
            clock.advance(TimeDelta::minutes(1));
        }
    });
    let document = result_and_new_matches(20);
    let report = run(&app, &document).await;
    assert_eq!(counts(&report), [8, 1, 0, 12]);
    let reason = "there was no time left to create its chat room; import again";
    assert!(report["reasons"].as_array().unwrap().iter().all(|row| row["reason"] == reason), "{report}");
    assert_result_is_published(&app).await;
    let catalog_ids = async || {
        let catalog = catalog(&app).await;
        catalog.events().map(|event| event.id).filter(|id| *id >= 100).collect::<Vec<_>>()
    };
    assert_eq!(catalog_ids().await, (112..120).collect::<Vec<_>>(), "the next matches come first");
    assert_eq!(counts(&run(&app, &document).await), [8, 0, 9, 4]);
    assert_eq!(counts(&run(&app, &document).await), [4, 0, 17, 0]);
    assert_eq!(catalog_ids().await.len(), 20);
}

#[tokio::test]
async fn the_next_import_renames_rooms_that_have_old_names() {
    let (app, homeserver, alice) = app().await;
    run(&app, &sample()).await;
    assert_eq!(search(&app, &alice, "northgate").await.len(), 3);
    let unchanged = calls(&app, &sample()).await;
    let room = RoomId::parse(&room_of(1)).unwrap();
    let before = app.store.room(&room).await.unwrap().unwrap();
    give_old_names(&app, &homeserver).await;
    // A search finds the rooms of matches by the names of their teams, also before they are renamed.
    let old_names = search(&app, &alice, "northgate").await;
    assert_eq!(old_names.iter().filter(|name| name.starts_with("event ")).count(), 3, "{old_names:?}");

    assert_eq!(counts(&run(&app, &sample()).await), [0, 0, 9, 0], "the report does not count renames");
    for (event, name) in (1..).zip(NAMES) {
        assert_eq!(stored_name(&app, event).await, name);
        assert_eq!(homeserver.name(&room_of(event)).as_deref(), Some(name));
    }
    assert_eq!(app.store.room(&room).await.unwrap().unwrap(), before, "the room is the same as before");
    let new_names = search(&app, &alice, "northgate").await;
    assert_eq!(new_names.iter().filter(|name| NAMES.contains(&name.as_str())).count(), 3, "{new_names:?}");
    assert_eq!(search(&app, &alice, "event").await, [""; 0], "the old name is gone");
    let about = alice.lists_rooms().about_event(1).search("northgate").await.expect_data(200);
    assert_eq!(about[0]["name"], NAMES[0], "the directory of the match has the new name too");
    let old = alice.lists_rooms().about_event(1).search("event").await.expect_data(200);
    assert_eq!(old, json!([]));

    let version = async || load_latest(&app.store, None).await.unwrap().unwrap().head.version;
    let (before, _) = (version().await, homeserver.take_requests());
    assert_eq!(calls(&app, &sample()).await, unchanged, "no extra calls if nothing is renamed");
    assert_eq!(homeserver.take_requests(), [""; 0]);
    assert_eq!(version().await, before);
}

#[tokio::test]
async fn a_renamed_team_renames_the_rooms_of_all_its_matches() {
    let (app, homeserver, alice) = app().await;
    run(&app, &sample()).await;
    let _ = homeserver.take_requests();
    // The document has the renamed team but no matches. The import renames the rooms all the same.
    let mut document = renamed_team();
    document["events"] = json!([]);
    run(&app, &document).await;
    assert_eq!(stored_name(&app, 3).await, "Westport Albion – Northgate United");
    assert_eq!(homeserver.take_requests().len(), 3, "only the rooms of this team");
    assert_eq!(search(&app, &alice, "rovers").await, [""; 0]);
    assert_eq!(search(&app, &alice, "northgate united").await.len(), 3);
}

#[tokio::test]
async fn an_import_without_the_homeserver_leaves_renames_to_the_next_import() {
    let (app, homeserver, _) = app().await;
    run(&app, &sample()).await;
    homeserver.set_down(true);
    let mut document = renamed_team();
    document["events"][1]["home_score"] = json!(2);
    assert_eq!(counts(&run(&app, &document).await), [0, 2, 7, 0]);
    let published = catalog(&app).await;
    assert_eq!(published.event(2).unwrap().score.unwrap().home, 2, "the goal is published");
    assert_eq!(published.team(1).unwrap().name, "Northgate United");
    assert_eq!(stored_name(&app, 1).await, NAMES[0]);

    homeserver.set_down(false);
    run(&app, &document).await;
    assert_eq!(stored_name(&app, 1).await, "Northgate United – São Miguel Atlético");
    assert_eq!(homeserver.name(&room_of(1)).unwrap(), "Northgate United – São Miguel Atlético");
}

#[tokio::test]
async fn a_room_that_the_homeserver_does_not_have_is_renamed_in_our_table() {
    let (app, homeserver, _) = app().await;
    run(&app, &sample()).await;
    homeserver.delete(&room_of(1));
    run(&app, &renamed_team()).await;
    assert_eq!(stored_name(&app, 1).await, "Northgate United – São Miguel Atlético");
    let _ = homeserver.take_requests();
    run(&app, &renamed_team()).await;
    assert_eq!(homeserver.take_requests(), [""; 0], "the rename is not tried again");
}

/// An earlier import created the room on the homeserver, under an older name, and crashed before it stored the room.
#[tokio::test]
async fn a_room_from_a_crashed_import_gets_the_current_name() {
    let (app, homeserver, _) = app().await;
    app.chat.match_room(1, "event 1").await.unwrap();
    assert_eq!(homeserver.name(&room_of(1)).unwrap(), "event 1");
    run(&app, &sample()).await;
    assert_eq!(homeserver.name(&room_of(1)).unwrap(), NAMES[0]);
    assert_eq!(stored_name(&app, 1).await, NAMES[0]);
}

#[tokio::test]
async fn the_next_import_completes_a_rename_that_crashed_after_any_write() {
    let (undisturbed, _, _) = app().await;
    run(&undisturbed, &sample()).await;
    run(&undisturbed, &renamed_team()).await;
    let after = bytes(&undisturbed).await;
    let mut steps = 0;
    loop {
        let (app, homeserver, alice) = app().await;
        run(&app, &sample()).await;
        let writes = AtomicU32::new(0);
        app.faults.set(move |attempt| {
            let is_write = matches!(attempt.operation, "PutItem" | "UpdateItem" | "TransactWriteItems");
            let is_lost = is_write && writes.fetch_add(1, Ordering::Relaxed) >= steps;
            if is_lost { Fault::LoseRequest } else { Fault::None }
        });
        let finished = run_without_lease(&app, &renamed_team()).await.is_ok();
        app.faults.clear();
        run(&app, &renamed_team()).await;
        assert_eq!(bytes(&app).await, after, "after {steps} writes and another import");
        for event in [1, 3, 4] {
            let name = stored_name(&app, event).await;
            assert!(name.contains("Northgate United"), "after {steps} writes: {name}");
            assert_eq!(homeserver.name(&room_of(event)).unwrap(), name);
        }
        if finished {
            assert_eq!(search(&app, &alice, "rovers").await, [""; 0]);
            break;
        }
        steps += 1;
    }
    assert!(steps > 8, "{steps} writes");
}

#[tokio::test]
async fn a_rename_costs_two_writes_for_each_room() {
    let (app, homeserver, _) = app().await;
    run(&app, &sample()).await;
    give_old_names(&app, &homeserver).await;
    let updates = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&updates);
    app.faults.set(move |attempt| {
        seen.fetch_add(usize::from(attempt.operation == "UpdateItem"), Ordering::Relaxed);
        Fault::None
    });
    run(&app, &json!({ "format": "touchline", "events": [] })).await;
    app.faults.clear();
    // Publishing sets an expiry on the old index, and on the old chunks of the two months that have matches.
    let publishing = 1 + 2;
    assert_eq!(updates.load(Ordering::Relaxed), 2 * 4 + publishing, "two for each of four rooms");
    assert_eq!(homeserver.take_requests().len(), 4);
}
