//! Invokes the functions with the samples in `events/`. Each must give the result that `events/README.md`
//! lists.

use std::collections::BTreeMap;

use lambda_http::Body;
use serde_json::Value;
use touchline::App;
use touchline::api;
use touchline::config::Config;
use touchline_local::HTTP_FUNCTIONS;
use touchline_stack::samples::{self, Expected, Sample};
use touchline_stack::{TEMPLATE, Template};
use touchline_testing::TestApp;

use crate::contract::root;

fn samples() -> Vec<Sample> {
    samples::read(root()).unwrap()
}

#[test]
fn every_sample_is_in_the_readme_and_every_function_has_a_sample() {
    let named: Vec<String> = samples().into_iter().map(|sample| sample.file).collect();
    for folder in std::fs::read_dir(root().join("events")).unwrap().map(|entry| entry.unwrap().path()) {
        for file in std::fs::read_dir(&folder).into_iter().flatten().map(|entry| entry.unwrap().path()) {
            let file = file.strip_prefix(root().join("events")).unwrap().to_str().unwrap().to_owned();
            assert!(named.contains(&file), "events/README.md has no row for {file}");
        }
    }
    let readme = std::fs::read_to_string(root().join("events/README.md")).unwrap();
    let stack = Template::parse(TEMPLATE).unwrap().resolve(&BTreeMap::new()).unwrap();
    for function in stack.functions {
        let row = format!("| `{}/` | `{}` |", function.name, function.logical_id);
        assert!(readme.contains(&row), "events/README.md has no row {row}");
        assert!(
            samples().iter().any(|sample| sample.function == function.name),
            "no samples for {}",
            function.name
        );
    }
}

/// The variables in `events/env.json` must give every function a valid configuration. The template must declare
/// each of them, because `sam local invoke` ignores variables that the template does not declare.
#[test]
fn the_variables_for_sam_local_are_complete() {
    let text = std::fs::read_to_string(root().join("events/env.json")).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    let given = file["Parameters"].as_object().unwrap();
    let stack = Template::parse(TEMPLATE).unwrap().resolve(&BTreeMap::new()).unwrap();
    for variable in given.keys() {
        let is_named = stack.functions.iter().any(|function| function.environment.contains_key(variable));
        assert!(is_named, "no function of the template has the variable {variable}");
    }
    for function in &stack.functions {
        let config = Config::read(|name| match name {
            "AWS_REGION" | "AWS_ACCESS_KEY_ID" | "AWS_SECRET_ACCESS_KEY" => Some("local".into()),
            _ => {
                let named = function.environment.get(name)?;
                Some(given.get(name).and_then(Value::as_str).unwrap_or(named).to_owned())
            }
        });
        let config = config.unwrap_or_else(|error| panic!("{}: {error}", function.name));
        assert!(
            config.environment.shows_codes() && config.aws.dynamodb_endpoint.is_some(),
            "{}",
            function.name
        );
    }
}

#[tokio::test]
async fn every_http_sample_gives_the_status_in_the_readme() {
    let mut reached = Vec::new();
    for Sample { function, file, payload, expected } in samples() {
        let Expected::Status(expected) = expected else { continue };
        let (_, router) =
            HTTP_FUNCTIONS.into_iter().find(|(name, _)| *name == function).expect("the function exists");
        let app = TestApp::serving(&[router]).start().await;
        let request = lambda_http::request::from_str(&payload.to_string()).unwrap();
        let response = router(App::clone(&app)).respond(request).await;
        let Body::Text(body) = response.body() else { panic!("{file}: the body is not text") };
        assert_eq!(u64::from(response.status().as_u16()), expected, "{file}: {body}");
        let context = &payload["requestContext"]["http"];
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        reached.push((text(&context["method"]), text(&payload["rawPath"])));
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
}

/// `events/with-token` replaces the invented token in the same way.
#[tokio::test]
async fn samples_with_a_real_token_are_not_rejected_for_their_token() {
    let script = std::fs::read_to_string(root().join("events/with-token")).unwrap();
    assert!(script.contains(r"tl_1_0\{64\}"), "the script replaces this token");
    let invented = format!("tl_1_{}", "0".repeat(64));
    let mut tried = 0;
    for Sample { function, file, payload, .. } in samples() {
        let sample = payload.to_string();
        let Some((_, router)) = HTTP_FUNCTIONS.into_iter().find(|(name, _)| *name == function) else {
            continue;
        };
        if !sample.contains(&invented) {
            continue;
        }
        let app = TestApp::serving(&[router]).start().await;
        let user = app.user("alice").await;
        let request = lambda_http::request::from_str(&sample.replace(&invented, &user.token)).unwrap();
        let response = router(App::clone(&app)).respond(request).await;
        let Body::Text(body) = response.body() else { panic!("{file}: the body is not text") };
        assert!(!body.contains(r#""code":"token_"#), "{file}: {body}");
        tried += 1;
    }
    assert!(tried > 40, "{tried} samples have the invented token");
}

#[tokio::test]
async fn every_feed_sample_gives_the_counts_in_the_readme() {
    let mut tried = 0;
    for sample in samples() {
        if let Expected::Counts(..) = sample.expected {
            let app = TestApp::serving(&[]).start().await;
            let report = app.invoke(feed::handle, sample.payload).await;
            assert!(sample.expected.matches(&report), "{}: {report}", sample.file);
            tried += 1;
        }
    }
    assert_eq!(tried, 4, "one sample for each of the three formats, and one list of teams");
}

#[tokio::test]
async fn samples_of_background_functions_give_the_results_in_the_readme() {
    let app = TestApp::serving(&[]).start().await;
    let league = include_str!("../../events/feed/touchline.json");
    app.invoke(feed::handle, serde_json::from_str(league).unwrap()).await;
    let mut tried = 0;
    for Sample { function, file, payload, expected } in samples() {
        let Expected::Payload(_) = expected else { continue };
        let result = match function.as_str() {
            "points" => app.invoke(points::handle, payload).await,
            "standings" => app.invoke(standings::handle, payload).await,
            "moderation" => app.invoke(moderation::handle, payload).await,
            "treasury" => app.invoke(treasury::handle, payload).await,
            "erasure" => app.invoke(erasure::handle, payload).await,
            "recount" => app.invoke(recount::handle, payload).await,
            "tally" => app.invoke(tally::handle, payload).await,
            other => panic!("add the function {other} here"),
        };
        assert!(expected.matches(&result), "{file}: {result}");
        tried += 1;
    }
    assert_eq!(tried, 11);
    // `tally` adds up the parts of a match when it gets the stream record of a part.
    app.invoke(tally::handle, app.changes(&app.config.tables.predictions).await).await;
    assert_eq!(app.store.event_counts(1).await.unwrap().home, 1);
}
