use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use serde_json::{Value, json};
use touchline::App;
use touchline::storage::Store;
use touchline::storage::catalog::load_latest;
use touchline_testing::Fault;

use super::{app, bytes, catalog, counts, openfootball, run, run_without_lease, sample};

/// `feed` crashes after each of its writes in turn. Readers see the old catalog or the new one, and the next
/// import completes the work.
#[tokio::test(start_paused = true)]
async fn a_crash_after_any_write_leaves_a_consistent_catalog() {
    let foreign = openfootball();
    let undisturbed = app().await;
    run(&undisturbed, &sample()).await;
    let before = bytes(&undisturbed).await;
    run(&undisturbed, &foreign).await;
    let after = bytes(&undisturbed).await;
    let mut steps = 0;
    loop {
        let app = app().await;
        run(&app, &sample()).await;
        let writes = AtomicU32::new(0);
        app.faults.set(move |attempt| {
            let is_write = matches!(attempt.operation, "PutItem" | "UpdateItem" | "TransactWriteItems");
            if is_write && writes.fetch_add(1, Ordering::Relaxed) >= steps {
                Fault::LoseRequest
            } else {
                Fault::None
            }
        });
        let finished = run_without_lease(&app, &foreign).await.is_ok();
        app.faults.clear();
        let seen = bytes(&app).await;
        assert!(
            seen == before || seen == after,
            "after {steps} writes the catalog is neither the old nor the new one"
        );
        run(&app, &foreign).await;
        assert_eq!(bytes(&app).await, after, "after {steps} writes and another import");
        if finished {
            break;
        }
        steps += 1;
    }
    assert!(steps > 15, "{steps} writes");
}

/// `feed` crashes after each of its writes in turn. `points` may settle a result only after its publication, and the next
/// import makes up for both.
#[tokio::test(start_paused = true)]
async fn a_result_can_be_settled_only_after_its_publication() {
    let one_match = |result: Value| {
        let mut event = json!({
            "id": 50, "tournament_id": 1, "home_team_id": 1, "away_team_id": 2,
            "start_time": "2027-03-01T15:00:00Z", "status": "scheduled",
        });
        event.as_object_mut().unwrap().extend(result.as_object().unwrap().clone());
        json!({ "format": "touchline", "events": [event] })
    };
    let result = one_match(json!({ "status": "finished", "home_score": 2, "away_score": 1 }));
    let mut steps = 0;
    loop {
        let app = app().await;
        run(&app, &sample()).await;
        run(&app, &one_match(json!({}))).await;
        let writes = AtomicU32::new(0);
        app.faults.set(move |attempt| {
            let is_write = matches!(attempt.operation, "PutItem" | "UpdateItem");
            let fails = is_write && writes.fetch_add(1, Ordering::Relaxed) >= steps;
            if fails { Fault::LoseRequest } else { Fault::None }
        });
        let finished = run_without_lease(&app, &result).await.is_ok();
        app.faults.clear();
        let can_be_settled = async || app.store.due().await.unwrap().iter().any(|due| due.is_published);
        let is_published = catalog(&app).await.event(50).unwrap().revision == 1;
        assert!(is_published || !can_be_settled().await, "after {steps} writes");
        run(&app, &result).await;
        assert!(can_be_settled().await, "after {steps} writes and another import");
        if finished {
            break;
        }
        steps += 1;
    }
    assert!(steps > 4, "{steps} writes");
}

/// The response to the first attempt of every call is lost, so the SDK sends every write twice.
#[tokio::test(start_paused = true)]
async fn retried_writes_do_not_change_the_published_catalog() {
    let calm = app().await;
    run(&calm, &sample()).await;
    let app = app().await;
    app.faults.first_attempts(Fault::LoseResponse);
    let report = run(&app, &sample()).await;
    app.faults.clear();
    assert_eq!(counts(&report)[3], 0);
    assert_eq!(bytes(&app).await, bytes(&calm).await);
}

/// The first import writes the head, but the response is lost. Before the SDK retries this write, a second
/// import publishes a snapshot that reuses the first import's chunk. The retry's conditional check then
/// fails. After a failed check, an import lets the chunks that it wrote expire, but not a chunk that the current
/// snapshot uses.
#[tokio::test(flavor = "multi_thread")]
async fn chunks_of_a_superseded_snapshot_do_not_expire_while_in_use() {
    let app = Arc::new(app().await);
    run(&app, &sample()).await;
    let one_match = |id: u32, month: &str| {
        json!({ "format": "touchline", "events": [{
            "id": id, "tournament_id": 1, "home_team_id": 1, "away_team_id": 2,
            "start_time": format!("2027-{month}-01T15:00:00Z"), "status": "scheduled",
        }] })
    };
    let (overtake, overtaken) = mpsc::channel::<()>();
    let mut puts = 0;
    app.faults.set(move |attempt| {
        if attempt.operation == "PutItem" && attempt.number == 1 {
            puts += 1;
            // The first import puts five items: the room, the row, the chunk, the index and the head.
            return if puts == 5 { Fault::LoseResponse } else { Fault::None };
        }
        if attempt.operation == "PutItem" && attempt.number == 2 {
            // `block_in_place` lets other tasks run while this thread waits.
            let _ = tokio::task::block_in_place(|| overtaken.recv_timeout(Duration::from_secs(5)));
        }
        Fault::None
    });
    let version = async || load_latest(&app.store, None).await.unwrap().unwrap().head.version;
    let first = {
        let (app, document) = (Arc::clone(&app), one_match(50, "03"));
        tokio::spawn(async move { run_without_lease(&app, &document).await.unwrap() })
    };
    let other = App {
        store: Store::new(app.client(), app.config.tables.clone()),
        catalog_cache: Arc::default(),
        ..App::clone(&app)
    };
    while load_latest(&other.store, None).await.unwrap().unwrap().catalog.event(50).is_none() {
        assert!(!first.is_finished(), "the fifth write must be the head");
        tokio::task::yield_now().await;
    }
    run_without_lease(&other, &one_match(51, "04")).await.unwrap();
    overtake.send(()).unwrap();
    assert_eq!(counts(&first.await.unwrap())[0], 1);
    app.faults.clear();
    assert_eq!(version().await, 3);
    // Delete every item that has an expiry. DynamoDB would delete these items later.
    let tables = &app.config.tables;
    let page = app.client().scan().table_name(&tables.catalog).send().await.unwrap();
    for item in page.items().iter().filter(|item| item.contains_key("expires_at")) {
        let key =
            [("pk", &item["pk"]), ("sk", &item["sk"])].map(|(name, value)| (name.to_owned(), value.clone()));
        let delete = app.client().delete_item().table_name(&tables.catalog).set_key(Some(key.into()));
        delete.send().await.unwrap();
    }
    assert_eq!(catalog(&app).await.events().count(), 6);
}
