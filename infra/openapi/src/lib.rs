//! Generates the OpenAPI 3.1 document from the table of endpoints.

mod errors;
mod operation;
mod recorded;

use schemars::generate::SchemaSettings;
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::{Map, Value, json};
use touchline::api;

pub use crate::recorded::Recorded;

const INTRODUCTION: &str = "The backend of a sports-match social app: users log in with a phone number and a code, predict \
matches, talk in rooms and collect coins.\n\nLog in with `POST /api/code/request` and `POST /api/code/verify`. Send the token \
from the response as `Authorization: Bearer <token>`. Every error has the same shape: `code` is a stable word for programs, \
`message` is a sentence for the user, and on 422 `errors` has sentences for each invalid field. 429 and 503 have `retry_after` \
and the header `Retry-After`. A response without `code` comes from API Gateway: an unknown path, a burst over its limit, or a \
function that failed.";

/// The groups of endpoints with their descriptions: one group for each Lambda function that serves endpoints, and one
/// for the endpoints that the homeserver calls.
const TAGS: [(&str, &str); 11] = [
    ("login", "Login, logout and usernames"),
    ("profile", "The caller's own profile, and phone verification"),
    ("matches", "Matches"),
    ("teams", "Teams and favourite teams"),
    ("leaderboards", "Leaderboards"),
    ("predictions", "Predictions, and points after the match"),
    ("coins", "Coins"),
    ("chat", "Chat rooms"),
    ("homeserver", "For the Matrix homeserver, not for apps"),
    ("sms-logs", "The SMS log, for development; not in production"),
    ("meta", "Health, and this document"),
];

/// The names of schemas whose Rust names are those of built-in or common types in the languages of clients.
const NAMES: [(&str, &str); 9] = [
    ("Empty", "EmptyObject"),
    ("Entry", "CoinEntry"),
    ("EventPredictionList", "MatchPredictionList"),
    ("EventPredictionMeta", "MatchPredictionMeta"),
    ("Event", "Match"),
    ("EventWithExtras", "MatchWithExtras"),
    ("Pick", "Outcome"),
    ("Record", "PredictionRecord"),
    ("Report", "UserReport"),
];

/// Generates the whole document.
#[must_use]
pub fn document(version: &str, recorded: &Recorded) -> Value {
    let mut settings = SchemaSettings::draft2020_12().for_serialize();
    settings.definitions_path = "/components/schemas".into();
    settings.meta_schema = None;
    let mut generator = settings.into_generator();
    let (mut paths, mut responses) = (Map::new(), Map::new());
    for describe in api::OPERATIONS {
        let operation = describe(&mut generator);
        for (name, response) in errors::responses(&operation) {
            responses.entry(name).or_insert(response);
        }
        let (path, method) = (operation.route.path, operation.route.method.as_str().to_lowercase());
        paths.entry(path).or_insert_with(|| json!({}))[method] = operation::object(&operation, recorded);
    }
    let mut schemas: Map<String, Value> = generator.definitions().clone();
    schemas.extend(errors::schemas());
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Touchline",
            "version": version,
            "summary": "Predict matches with friends.",
            "description": INTRODUCTION,
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/", "description": "The server of this document" }],
        "tags": TAGS.map(|(name, description)| json!({ "name": name, "description": description })),
        "paths": paths,
        "components": {
            "schemas": schemas,
            "examples": errors::examples(),
            "responses": responses,
            "securitySchemes": {
                "token": {
                    "type": "http", "scheme": "bearer", "bearerFormat": "tl_…",
                    "description": "The token from a login. It is valid for 30 days after its last use.",
                },
                "homeserver": {
                    "type": "http", "scheme": "bearer",
                    "description": "The `hs_token` from the homeserver's registration file.",
                },
            },
        },
    });
    let names: Vec<String> = document["components"]["schemas"]
        .as_object()
        .map(|schemas| schemas.keys().cloned().collect())
        .unwrap_or_default();
    tidy(&mut document, &|name| {
        // `RoomView` becomes `Room`, unless another schema has that name.
        let short = name.strip_suffix("View").filter(|short| !names.iter().any(|name| name == short));
        let short = short.unwrap_or(name);
        let new = NAMES.iter().find(|(ours, _)| *ours == short).map_or(short, |(_, other)| *other);
        (new != name).then(|| new.to_owned())
    });
    document
}

/// The document with its paths in the order in which an app uses them: by their group, and then by the table of endpoints. Other
/// objects are in alphabetical order.
#[derive(Debug)]
pub struct InOrder<'a>(pub &'a Value);

impl Serialize for InOrder<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(document) = self.0.as_object() else { return self.0.serialize(serializer) };
        let mut map = serializer.serialize_map(Some(document.len()))?;
        for (name, value) in document {
            match value {
                Value::Object(paths) if name == "paths" => map.serialize_entry(name, &Paths(paths))?,
                value => map.serialize_entry(name, value)?,
            }
        }
        map.end()
    }
}

struct Paths<'a>(&'a Map<String, Value>);

impl Serialize for Paths<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let group = |operations: &Value| {
            let tag = operations.as_object()?.values().next()?["tags"][0].as_str()?;
            TAGS.iter().position(|(name, _)| *name == tag)
        };
        let place = |path: &str| api::ALL.iter().position(|route| route.path == path);
        let mut paths: Vec<_> = self.0.iter().collect();
        paths.sort_by_key(|(path, operations)| (group(operations), place(path)));
        serializer.collect_map(paths)
    }
}

/// Shortens the names of schemas, and replaces number formats that OpenAPI does not define.
fn tidy(value: &mut Value, short_name: &dyn Fn(&str) -> Option<String>) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(|value| tidy(value, short_name)),
        Value::Object(map) => {
            // OpenAPI has no unsigned formats. Without `int64`, generated clients read only 32 bits.
            if let Some(Value::String(format)) = map.get_mut("format")
                && let Some(bits) = format.strip_prefix("uint")
            {
                *format = if matches!(bits, "8" | "16") { "int32".into() } else { "int64".into() };
            }
            if let Some(Value::String(reference)) = map.get_mut("$ref")
                && let Some(name) = reference.strip_prefix("#/components/schemas/").and_then(short_name)
            {
                *reference = format!("#/components/schemas/{name}");
            }
            if let Some(Value::Object(schemas)) = map.get_mut("schemas") {
                let renamed = |(name, schema): (String, Value)| (short_name(&name).unwrap_or(name), schema);
                *schemas = std::mem::take(schemas).into_iter().map(renamed).collect();
            }
            map.values_mut().for_each(|value| tidy(value, short_name));
        }
        _ => {}
    }
}
