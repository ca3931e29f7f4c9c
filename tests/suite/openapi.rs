//! Checks that the OpenAPI document is up to date and that its examples match its schemas. The HTTP suite
//! calls [`check`] to compare every response with the schemas.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use jsonschema::Validator;
use serde::Serialize as _;
use serde_json::{Value, json};
use touchline::api;
use touchline::api::endpoint::JSON;
use touchline_openapi::{InOrder, Recorded, document};
use touchline_stack::samples;

use crate::contract::root;
use crate::costs;

const COMMITTED: &str = include_str!("../../docs/openapi.json");

static DOCUMENT: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(COMMITTED).expect("docs/openapi.json is JSON"));

/// The endpoint that returns the document. The document cannot contain itself as an example.
const ITSELF: &str = "GET /api/openapi.json";

/// Cuts every list to two elements: enough for an example.
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

/// Collects the examples of the document. The request bodies come from `events/`. The response bodies come from
/// the requests that [`costs`] measures.
async fn recorded() -> Recorded {
    let mut recorded = Recorded::default();
    for sample in samples::read(root()).unwrap() {
        // The body of the homeserver's ping is not part of our API.
        if sample.file == "chat/ping.json" {
            continue;
        }
        if let (Some(key), Some(body)) =
            (sample.payload["routeKey"].as_str(), sample.payload["body"].as_str())
        {
            recorded
                .requests
                .insert(key.to_owned(), serde_json::from_str(body).expect("the body of the sample is JSON"));
        }
    }
    for (endpoint, status, mut body) in costs::responses().await {
        if endpoint == ITSELF {
            continue;
        }
        shorten(&mut body);
        recorded.responses.entry((endpoint.to_owned(), status)).or_insert(body);
    }
    recorded
}

/// `UPDATE_OPENAPI=1 cargo test -p touchline-tests openapi` regenerates the document.
#[tokio::test]
async fn the_committed_document_is_up_to_date() {
    let fresh = document(env!("CARGO_PKG_VERSION"), &recorded().await);
    let mut text = Vec::new();
    let narrow = serde_json::ser::PrettyFormatter::with_indent(b" ");
    InOrder(&fresh).serialize(&mut serde_json::Serializer::with_formatter(&mut text, narrow)).unwrap();
    text.push(b'\n');
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        std::fs::write(root().join("docs/openapi.json"), text).unwrap();
        return;
    }
    assert!(
        text == COMMITTED.as_bytes(),
        "docs/openapi.json is out of date: run UPDATE_OPENAPI=1 cargo test -p touchline-tests openapi"
    );
}

/// The explorer shows the endpoints in the order of the document.
#[test]
fn the_document_begins_with_the_login_and_ends_with_what_is_not_for_apps() {
    let place = |path: &str| COMMITTED.find(&format!("\"{path}\": {{")).expect(path);
    let paths = [
        "/api/code/request",
        "/api/code/verify",
        "/api/auth/login",
        "/api/auth/me",
        "/api/auth/events",
        "/api/auth/chat-room",
        "/_matrix/app/v1/ping",
        "/api/logs/sms",
        "/api/health",
    ];
    assert!(paths.map(place).is_sorted(), "{:?}", paths.map(place));
}

#[test]
fn the_document_has_exactly_the_endpoints_of_the_api() {
    let described: BTreeSet<(String, String)> = DOCUMENT["paths"]
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

/// Calls `visitor` with the path and the content of every object in the document. Skips examples.
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
    for (path, methods) in DOCUMENT["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            for key in ["summary", "description"] {
                assert!(has_text(operation, key), "{method} {path} has no {key}");
            }
        }
    }
}

/// What methods of a client can begin with.
const VERBS: &[&str] = &[
    "accept", "block", "check", "claim", "confirm", "create", "deduct", "delete", "export", "generate",
    "get", "initiate", "invite", "join", "leave", "list", "login", "logout", "ping", "predict", "push",
    "query", "request", "resend", "revoke", "save", "search", "unblock", "undo", "update", "verify",
];

/// Types that every program in Swift, Kotlin, TypeScript, Dart or Python has, or that it often imports.
const COMMON_TYPES: &[&str] = &[
    "Any",
    "Array",
    "Char",
    "Character",
    "Class",
    "Collection",
    "Comment",
    "Data",
    "Date",
    "Document",
    "Duration",
    "Empty",
    "Entry",
    "Enum",
    "Error",
    "Event",
    "Exception",
    "File",
    "Function",
    "List",
    "Location",
    "Map",
    "Message",
    "Notification",
    "Null",
    "Number",
    "Object",
    "Optional",
    "Pick",
    "Record",
    "Report",
    "Request",
    "Response",
    "Result",
    "Set",
    "String",
    "Task",
    "Type",
];

#[test]
fn generated_methods_begin_with_a_verb_and_generated_types_hide_no_common_type() {
    let fresh = document("0.0.0", &Recorded::default());
    let mut ids = BTreeSet::new();
    for operation in
        fresh["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap().values())
    {
        let id = operation["operationId"].as_str().unwrap();
        assert!(VERBS.iter().any(|verb| id.starts_with(verb)), "{id} does not begin with a verb");
        assert!(ids.insert(id.to_owned()), "two operations have the id {id}");
    }
    assert!(ids.contains("getMe") && ids.contains("listEvents"));
    let names: Vec<&String> = fresh["components"]["schemas"].as_object().unwrap().keys().collect();
    for name in &names {
        assert!(!COMMON_TYPES.contains(&name.as_str()), "{name} is a common type");
    }
    assert!(["ApiError", "Match"].iter().all(|name| names.iter().any(|found| found == name)), "{names:?}");
}

#[test]
fn schemas_properties_and_parameters_have_descriptions() {
    let mut missing = Vec::new();
    for (name, schema) in DOCUMENT["components"]["schemas"].as_object().unwrap() {
        if !has_text(schema, "description") {
            missing.push(format!("/components/schemas/{name}"));
        }
    }
    let mut properties = 0;
    visit(&DOCUMENT, "", &mut |path, object| {
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
fn successful_responses_and_request_bodies_have_examples_that_match_their_schemas() {
    for route in api::ALL {
        let operation = &DOCUMENT["paths"][route.path][route.method.as_str().to_lowercase()];
        for status in route.statuses {
            let content = &operation["responses"][status.to_string()]["content"]["application/json"];
            // A query for a room alias is always 404, so it has no successful response. A page has no example.
            if route.path != "/_matrix/app/v1/rooms/{roomAlias}"
                && route.content_type == JSON
                && format!("{} {}", route.method, route.path) != ITSELF
            {
                assert!(!content["example"].is_null(), "{} {} {status}", route.method, route.path);
                check(route.method.as_str(), route.path, *status, &content["example"]);
            }
        }
        let content = &operation["requestBody"]["content"]["application/json"];
        if !route.fields.is_empty() && route.has_body() {
            let problems = problems(&content["schema"], &content["example"]);
            assert!(problems.is_empty(), "{}: {problems:?}", route.path);
        }
    }
}

/// Checks a response against the document: the endpoint has this status, and the body matches its schema.
#[track_caller]
pub fn check(method: &str, path: &str, status: u16, body: &Value) {
    let path = path.split('?').next().unwrap_or_default();
    // The gateway responds to paths without a route. The document does not describe those responses.
    let Some(route) = api::ALL.iter().find(|route| route.method == *method && fits(route.path, path)) else {
        return;
    };
    let operation = &DOCUMENT["paths"][route.path][method.to_lowercase()];
    let response = resolved(&operation["responses"][status.to_string()]);
    assert!(response.is_object(), "{method} {path}: the document has no response {status}: {body}");
    if response.get("content").is_none() {
        assert_eq!(body, "", "{method} {path} {status}: the document has no body");
        return;
    }
    let content_type = if (200..300).contains(&status) { route.content_type } else { JSON };
    let problems = problems(&response["content"][content_type]["schema"], body);
    assert!(problems.is_empty(), "{method} {path} {status}: {problems:?} in {body}");
}

/// Returns the target of a `$ref` within the document. Any other value is returned as it is.
fn resolved(value: &Value) -> &Value {
    match value["$ref"].as_str().and_then(|reference| reference.strip_prefix('#')) {
        Some(pointer) => DOCUMENT.pointer(pointer).expect("the reference has a target"),
        None => value,
    }
}

fn fits(template: &str, path: &str) -> bool {
    let (template, path): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
    template.len() == path.len()
        && template.iter().zip(path).all(|(pattern, segment)| pattern.starts_with('{') || *pattern == segment)
}

fn problems(schema: &Value, value: &Value) -> Vec<String> {
    // To build a validator takes longer than a request.
    static VALIDATORS: LazyLock<Mutex<HashMap<String, Arc<Validator>>>> = LazyLock::new(Mutex::default);
    let mut validators = VALIDATORS.lock().unwrap_or_else(PoisonError::into_inner);
    let build = || {
        let whole = json!({ "allOf": [schema], "components": DOCUMENT["components"] });
        let options = jsonschema::options().should_validate_formats(true);
        Arc::new(options.build(&whole).expect("the schema is valid"))
    };
    let validator = Arc::clone(validators.entry(schema.to_string()).or_insert_with(build));
    drop(validators);
    validator.iter_errors(value).map(|error| format!("{} at {}", error, error.instance_path())).collect()
}
