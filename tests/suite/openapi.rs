//! The description of the API: that it is fresh, that its examples are true, and, through [`check`], that every answer
//! of the HTTP suite is one that it has.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde::Serialize as _;
use serde_json::{Value, json};
use touchline::api;
use touchline_openapi::{Recorded, document};
use touchline_stack::samples;

use crate::contract::root;
use crate::costs;

const COMMITTED: &str = include_str!("../../docs/openapi.json");

static DESCRIPTION: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(COMMITTED).expect("JSON"));

const ITSELF: &str = "GET /api/openapi.json";

/// Two rows of a list show what a row is.
fn shorten(value: &mut Value) {
    match value {
        Value::Array(values) => {
            values.truncate(2);
            values.iter_mut().for_each(shorten);
        }
        Value::Object(map) => map.values_mut().for_each(shorten),
        _ => {}
    }
}

/// What the samples ask, and what the walk over all endpoints was answered.
async fn seen() -> Recorded {
    let mut seen = Recorded::default();
    for sample in samples::read(root()).unwrap() {
        // The ping's body is Matrix's, and is not looked at.
        if sample.file == "chat/ping.json" {
            continue;
        }
        if let (Some(key), Some(body)) =
            (sample.payload["routeKey"].as_str(), sample.payload["body"].as_str())
        {
            seen.requests.insert(key.to_owned(), serde_json::from_str(body).expect("a JSON body"));
        }
    }
    for (endpoint, status, mut body) in costs::answers().await {
        if endpoint == ITSELF {
            continue;
        }
        shorten(&mut body);
        seen.responses.entry((endpoint.to_owned(), status)).or_insert(body);
    }
    seen
}

/// `UPDATE_OPENAPI=1 cargo test -p touchline-tests openapi` writes it anew.
#[tokio::test]
async fn the_committed_description_is_fresh() {
    let fresh = document(env!("CARGO_PKG_VERSION"), &seen().await);
    let mut text = Vec::new();
    let narrow = serde_json::ser::PrettyFormatter::with_indent(b" ");
    fresh.serialize(&mut serde_json::Serializer::with_formatter(&mut text, narrow)).unwrap();
    text.push(b'\n');
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        std::fs::write(root().join("docs/openapi.json"), text).unwrap();
        return;
    }
    assert!(
        text == COMMITTED.as_bytes(),
        "docs/openapi.json is not fresh: UPDATE_OPENAPI=1 cargo test -p touchline-tests openapi"
    );
}

#[test]
fn every_endpoint_is_described_and_nothing_else() {
    let described: BTreeSet<(String, String)> = DESCRIPTION["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, methods)| {
            methods.as_object().unwrap().keys().map(|method| (path.clone(), method.to_uppercase()))
        })
        .collect();
    let declared: BTreeSet<_> =
        api::ALL.iter().map(|route| (route.path.to_owned(), route.method.to_string())).collect();
    assert_eq!(described, declared);
}

/// Visits every object of the document, with the path to it. Examples are not part of the description.
fn visit(value: &Value, path: &str, visitor: &mut dyn FnMut(&str, &serde_json::Map<String, Value>)) {
    match value {
        Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                visit(value, &format!("{path}/{index}"), visitor);
            }
        }
        Value::Object(map) => {
            visitor(path, map);
            for (key, value) in map.iter().filter(|(key, _)| !["example", "examples"].contains(&key.as_str()))
            {
                visit(value, &format!("{path}/{key}"), visitor);
            }
        }
        _ => {}
    }
}

fn has_text(value: &Value, key: &str) -> bool {
    value[key].as_str().is_some_and(|text| !text.trim().is_empty())
}

#[test]
fn every_operation_has_a_summary_and_a_description() {
    for (path, methods) in DESCRIPTION["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            for key in ["summary", "description"] {
                assert!(has_text(operation, key), "{method} {path} has no {key}");
            }
        }
    }
}

#[test]
fn every_schema_property_and_parameter_has_a_description() {
    let mut missing = Vec::new();
    for (name, schema) in DESCRIPTION["components"]["schemas"].as_object().unwrap() {
        if !has_text(schema, "description") {
            missing.push(format!("/components/schemas/{name}"));
        }
    }
    let mut properties = 0;
    visit(&DESCRIPTION, "", &mut |path, object| {
        let lists = [("properties", object.get("properties")), ("parameters", object.get("parameters"))];
        for (list, values) in lists {
            let values: Vec<(String, &Value)> = match values {
                Some(Value::Object(map)) => map.iter().map(|(name, value)| (name.clone(), value)).collect(),
                Some(Value::Array(list)) => list.iter().map(|one| (one["name"].to_string(), one)).collect(),
                _ => Vec::new(),
            };
            properties += values.len();
            let undescribed = values.iter().filter(|(_, value)| !has_text(value, "description"));
            missing.extend(undescribed.map(|(name, _)| format!("{path}/{list}/{name}")));
        }
    });
    assert!(missing.is_empty(), "without a description: {missing:#?}");
    assert!(properties > 200, "the walk found only {properties} properties and parameters");
}

#[test]
fn every_success_has_an_example_that_is_of_its_schema() {
    for route in api::ALL {
        let operation = &DESCRIPTION["paths"][route.path][route.method.as_str().to_lowercase()];
        for status in route.statuses {
            let content = &operation["responses"][status.to_string()]["content"]["application/json"];
            // Nobody has a room of that alias, so there is no success to show; and a document cannot hold itself.
            if route.path != "/_matrix/app/v1/rooms/{roomAlias}"
                && format!("{} {}", route.method, route.path) != ITSELF
            {
                assert!(!content["example"].is_null(), "{} {} {status}", route.method, route.path);
                check(route.method.as_str(), route.path, *status, &content["example"]);
            }
        }
        let content = &operation["requestBody"]["content"]["application/json"];
        if !route.fields.is_empty() && route.has_body() {
            let faults = faults(&content["schema"], &content["example"]);
            assert!(faults.is_empty(), "{}: {faults:?}", route.path);
        }
    }
}

/// Holds an answer to the description.
#[track_caller]
pub fn check(method: &str, path: &str, status: u16, body: &Value) {
    let path = path.split('?').next().unwrap_or_default();
    // What no route serves is the gateway's to answer.
    let Some(route) = api::ALL.iter().find(|route| route.method == *method && fits(route.path, path)) else {
        return;
    };
    let operation = &DESCRIPTION["paths"][route.path][method.to_lowercase()];
    let response = resolved(&operation["responses"][status.to_string()]);
    assert!(response.is_object(), "{method} {path}: {status} is not described: {body}");
    let faults = faults(&response["content"]["application/json"]["schema"], body);
    assert!(faults.is_empty(), "{method} {path} {status}: {faults:?} in {body}");
}

/// What a reference within the description stands for.
fn resolved(value: &Value) -> &Value {
    match value["$ref"].as_str().and_then(|reference| reference.strip_prefix('#')) {
        Some(place) => DESCRIPTION.pointer(place).expect("something to refer to"),
        None => value,
    }
}

fn fits(template: &str, path: &str) -> bool {
    let (template, path): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
    template.len() == path.len()
        && template.iter().zip(path).all(|(pattern, segment)| pattern.starts_with('{') || *pattern == segment)
}

fn faults(schema: &Value, value: &Value) -> Vec<String> {
    let whole = json!({ "allOf": [schema], "components": DESCRIPTION["components"] });
    let validator = jsonschema::options().should_validate_formats(true).build(&whole).expect("a schema");
    validator.iter_errors(value).map(|error| format!("{} at {}", error, error.instance_path())).collect()
}
