use std::sync::Arc;

use serde_json::json;
use touchline::domain::catalog::{EventFilter, Paging, Team};
use touchline_testing::concurrently;

use super::{app, catalog, changed, counts, openfootball, run, run_without_lease, sample};

/// An import ignores a result whose `as_of` time is before that of the stored row. Here all results have the same
/// `as_of` time, so no import ignores its result.
#[tokio::test(flavor = "multi_thread")]
async fn each_concurrent_result_gets_a_new_revision() {
    let app = Arc::new(app().await);
    run(&app, &sample()).await;
    concurrently(6, |n| {
        let app = Arc::clone(&app);
        async move {
            let document = changed("2026-11-15T12:04:00Z", 2, "home_score", json!(n + 10));
            run_without_lease(&app, &document).await.unwrap()
        }
    })
    .await;
    assert_eq!(catalog(&app).await.event(3).unwrap().revision, 7, "1 earlier and 6 concurrent results");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_imports_lose_no_changes() {
    let app = Arc::new(app().await);
    run(&app, &sample()).await;
    concurrently(12, |n| {
        let app = Arc::clone(&app);
        async move {
            let document = json!({ "format": "touchline", "events": [{
                "id": 100 + n, "tournament_id": 1, "home_team_id": 1, "away_team_id": 2,
                "start_time": "2026-11-20T15:00:00Z", "status": "scheduled",
            }] });
            assert_eq!(counts(&run_without_lease(&app, &document).await.unwrap()), [1, 0, 0, 0]);
        }
    })
    .await;
    assert_eq!(catalog(&app).await.events().count(), 16);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_of_several_concurrent_documents_wins() {
    for _ in 0..3 {
        let app = Arc::new(app().await);
        run(&app, &sample()).await;
        concurrently(8, |n| {
            let (app, at) = (Arc::clone(&app), format!("2026-11-15T12:00:0{n}Z"));
            async move {
                let document = changed(&at, 1, "home_score", json!(n + 10));
                run_without_lease(&app, &document).await.unwrap()
            }
        })
        .await;
        assert_eq!(catalog(&app).await.event(2).unwrap().score.unwrap().home, 17);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slugs_stay_unique_in_concurrent_imports() {
    let app = Arc::new(app().await);
    let foreign = openfootball();
    concurrently(2, |n| {
        let (app, document) = (Arc::clone(&app), if n == 0 { sample() } else { foreign.clone() });
        async move { run_without_lease(&app, &document).await.unwrap() }
    })
    .await;
    let catalog = catalog(&app).await;
    let slugs: std::collections::HashSet<_> = catalog.teams().map(|team| &team.slug).collect();
    assert_eq!(slugs.len(), catalog.teams().count());
    for team in catalog.teams() {
        let stored = app.store.catalog_rows::<Team>(&[team.id]).await.unwrap();
        assert_eq!(stored[&team.id].slug, team.slug, "the snapshot and the row have the same slug");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_imports_of_one_document_create_its_rows_once() {
    let app = Arc::new(app().await);
    let document = openfootball();
    concurrently(6, |_| {
        let (app, document) = (Arc::clone(&app), document.clone());
        async move { run_without_lease(&app, &document).await.unwrap() }
    })
    .await;
    let catalog = catalog(&app).await;
    assert_eq!((catalog.events().count(), catalog.teams().count()), (3, 4));
    let all = Paging { page: 1, per_page: 100 };
    assert_eq!(catalog.list_events(&EventFilter::default(), all).total, 3);
}
