//! `events/` is executed, not decoration: each sample gives the answer that `events/README.md` names.

use std::collections::BTreeMap;

use lambda_http::Body;
use serde_json::Value;
use touchline::api;
use touchline_local::HTTP_FUNCTIONS;
use touchline_testing::TestApp;

use crate::contract::root;

/// `login/code-request.json` to its status, from the table in the README.
fn answers() -> BTreeMap<String, u16> {
    let text = std::fs::read_to_string(root().join("events/README.md")).unwrap();
    text.lines()
        .filter_map(|line| {
            let mut cells = line.trim_matches('|').split('|').map(str::trim);
            let file = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
            let answer = (file.to_owned(), cells.next()?.parse().ok()?);
            HTTP_FUNCTIONS.iter().any(|(name, _)| file.starts_with(&format!("{name}/"))).then_some(answer)
        })
        .collect()
}

#[tokio::test]
async fn every_sample_gives_the_answer_named_beside_it() {
    let answers = answers();
    let mut reached = Vec::new();
    let mut files = Vec::new();
    for (function, router) in HTTP_FUNCTIONS {
        let folder = root().join("events").join(function);
        for entry in std::fs::read_dir(&folder).unwrap_or_else(|_| panic!("no samples for {function}")) {
            let path = entry.unwrap().path();
            let file = format!("{function}/{}", path.file_name().unwrap().to_str().unwrap());
            let text = std::fs::read_to_string(&path).unwrap();
            let event: Value = serde_json::from_str(&text).unwrap();

            let app = TestApp::serving(&[router]).start().await;
            let router = router(app.app.clone());
            let request = lambda_http::request::from_str(&text).unwrap();
            let response = router.respond(request).await;
            let Body::Text(body) = response.body() else { panic!("{file}: no text") };
            let expected =
                answers.get(&file).unwrap_or_else(|| panic!("{file} has no row in events/README.md"));
            assert_eq!(response.status(), *expected, "{file}: {body}");

            let context = &event["requestContext"]["http"];
            reached.push((
                context["method"].as_str().unwrap().to_owned(),
                event["rawPath"].as_str().unwrap().to_owned(),
            ));
            files.push(file);
        }
    }
    for route in api::ALL {
        let declared = |path: &str| {
            let mut parts = route.path.split('/').zip(path.split('/'));
            route.path.split('/').count() == path.split('/').count()
                && parts.all(|(ours, theirs)| ours == theirs || ours.starts_with('{'))
        };
        let sampled = reached.iter().any(|(method, path)| *method == route.method.as_str() && declared(path));
        assert!(sampled, "{} {} has no sample", route.method, route.path);
    }
    for file in answers.keys() {
        assert!(files.contains(file), "events/README.md names {file}, which is not there");
    }
}

/// Rows of the second table: file, created, rejected.
fn feeds() -> Vec<(String, u64, u64)> {
    let text = std::fs::read_to_string(root().join("events/README.md")).unwrap();
    text.lines()
        .filter_map(|line| {
            let mut cells = line.trim_matches('|').split('|').map(str::trim);
            let file = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
            let (created, rejected) = (cells.next()?.parse().ok()?, cells.next()?.parse().ok()?);
            file.starts_with("feed/").then(|| (file.to_owned(), created, rejected))
        })
        .collect()
}

#[tokio::test]
async fn every_feed_gives_the_counts_named_beside_it() {
    let feeds = feeds();
    assert_eq!(feeds.len(), 3);
    for (file, created, rejected) in feeds {
        let app = TestApp::serving(&[]).start().await;
        let document =
            serde_json::from_str(&std::fs::read_to_string(root().join("events").join(&file)).unwrap());
        let report = feed::handle(app.app.clone(), document.unwrap()).await.unwrap();
        assert_eq!(
            (report["created"].as_u64(), report["rejected"].as_u64()),
            (Some(created), Some(rejected)),
            "{file}"
        );
    }
}

/// Rows of the third table: file, and the answer word for word.
#[tokio::test]
async fn every_other_payload_gives_the_answer_named_beside_it() {
    let text = std::fs::read_to_string(root().join("events/README.md")).unwrap();
    let quoted = |cell: &str| Some(cell.trim().strip_prefix('`')?.strip_suffix('`')?.to_owned());
    let rows: Vec<(String, String)> = text
        .lines()
        .filter_map(|line| {
            let mut cells = line.trim_matches('|').split('|');
            Some((quoted(cells.next()?)?, quoted(cells.next()?)?))
        })
        .collect();
    let app = TestApp::serving(&[]).start().await;
    let league = include_str!("../../events/feed/touchline.json");
    feed::handle(app.app.clone(), serde_json::from_str(league).unwrap()).await.unwrap();
    let deadline = app.app.clock.now() + chrono::TimeDelta::minutes(5);
    for function in ["points", "tally", "treasury"] {
        for entry in std::fs::read_dir(root().join("events").join(function)).unwrap() {
            let path = entry.unwrap().path();
            let file = format!("{function}/{}", path.file_name().unwrap().to_str().unwrap());
            let payload: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
            let answer = match function {
                "points" => points::handle(app.app.clone(), payload, deadline).await.unwrap(),
                "treasury" => treasury::handle(app.app.clone(), payload, deadline).await.unwrap(),
                _ => tally::handle(app.app.clone(), payload).await.unwrap(),
            };
            let (_, expected) = rows.iter().find(|(of, _)| *of == file).expect("a row in events/README.md");
            assert_eq!(answer.to_string(), *expected, "{file}");
        }
    }
    assert_eq!(rows.len(), 4);
    assert_eq!(app.app.store.event_counts(1).await.unwrap().home, 1);
}
