//! The description of the API, as OpenAPI 3.1 has it, made from the table of endpoints.

use std::collections::{BTreeMap, BTreeSet};

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use touchline::api::schema::{Operation, TakenField};
use touchline::api::{self, Route};
use touchline::http::{Dialect, Example, examples};

/// What was really sent and answered, by method and path.
#[derive(Debug, Default, Clone)]
pub struct Seen {
    pub requests: BTreeMap<String, Value>,
    /// By status.
    pub responses: BTreeMap<(String, u16), Value>,
}

const INTRODUCTION: &str = "The backend of a sports-match social app: people log in with a phone number and a code, \
predict matches, talk in rooms and collect coins.\n\nLog in with `POST /api/code/request` and `POST /api/code/verify`; send \
the token of the answer as `Authorization: Bearer <token>`. Every error has the same shape: `code` is a stable word for \
programs, `message` a sentence for people, `errors` names the fields of a 422. A 429 or 503 says in `Retry-After` when to try \
again. An answer without `code` is API Gateway's own: a path that does not exist, a burst over its limit, a function that failed.";

/// Functions, as the groups of endpoints that they are.
const TAGS: [(&str, &str); 10] = [
    ("login", "Logging in and out, and usernames"),
    ("profile", "One's own record, and verifying a phone"),
    ("matches", "Matches"),
    ("teams", "Teams and favourites"),
    ("predictions", "Predictions, and points after the match"),
    ("coins", "Coins"),
    ("chat", "Chat rooms"),
    ("homeserver", "What the Matrix homeserver tells and asks; not for apps"),
    ("sms-logs", "The development log of codes, not in production"),
    ("meta", "The service about itself"),
];

/// The whole description.
#[must_use]
pub fn document(version: &str, seen: &Seen) -> Value {
    let mut settings = SchemaSettings::draft2020_12().for_serialize();
    settings.definitions_path = "/components/schemas".into();
    settings.meta_schema = None;
    let mut generator = settings.into_generator();
    let problems: BTreeMap<&str, Example> =
        examples().into_iter().map(|example| (example.code, example)).collect();
    let (mut paths, mut refusals) = (Map::new(), Map::new());
    for describe in api::OPERATIONS {
        let operation = describe(&mut generator);
        let (path, method) = (operation.route.path, operation.route.method.as_str().to_lowercase());
        let described = described(&operation, &problems, seen, &mut refusals);
        paths.entry(path).or_insert_with(|| json!({}))[method] = described;
    }
    let mut schemas: Map<String, Value> = generator.definitions().clone();
    schemas.insert("Error".into(), error());
    schemas.insert("MatrixError".into(), matrix_error());
    // What the homeserver is told is in Matrix's words.
    let told: Map<String, Value> = problems
        .into_iter()
        .filter(|(code, _)| *code != "not_the_homeserver")
        .map(|(code, example)| {
            (code.to_owned(), json!({ "summary": example.body["message"], "value": example.body }))
        })
        .collect();
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Touchline",
            "version": version,
            "summary": "Predict matches with friends.",
            "description": INTRODUCTION,
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/", "description": "Where this document came from" }],
        "tags": TAGS.map(|(name, description)| json!({ "name": name, "description": description })),
        "paths": paths,
        "components": {
            "schemas": schemas,
            "examples": told,
            "responses": refusals,
            "securitySchemes": {
                "token": {
                    "type": "http", "scheme": "bearer", "bearerFormat": "tl_…",
                    "description": "The token of a login. It lasts 30 days, counted anew by use.",
                },
                "homeserver": {
                    "type": "http", "scheme": "bearer",
                    "description": "The `hs_token` that the Matrix homeserver has of us.",
                },
            },
        },
    });
    let names: BTreeSet<String> = generator.definitions().keys().cloned().collect();
    tidy(&mut document, &|name| {
        // What is shown of something has its name, unless that is taken.
        name.strip_suffix("View").filter(|short| !names.contains(*short)).map(str::to_owned)
    });
    document
}

fn described(
    operation: &Operation,
    problems: &BTreeMap<&str, Example>,
    seen: &Seen,
    refusals: &mut Map<String, Value>,
) -> Value {
    let Operation { name, route, dialect, fields, output } = operation;
    let key = format!("{} {}", route.method, route.path);
    let mut parameters: Vec<Value> = api::parameter_names(route.path).map(path_parameter).collect();
    if !route.has_body() {
        parameters.extend(fields.iter().map(query_parameter));
    }
    if route.is_keyed {
        parameters.push(json!({
            "name": "Idempotency-Key", "in": "header", "required": false,
            "description": "The caller's own name for this call: the same again is the same call, answered with \
                            `Idempotency-Replayed: true`. A `reference_id` in the body goes before it.",
            "schema": { "type": "string", "pattern": "^[!-~]([ -~]{0,62}[!-~])?$", "examples": ["5f0c2c1e"] },
        }));
    }
    let security = match (dialect, route.needs_token) {
        (Dialect::Matrix, _) => json!([{ "homeserver": [] }]),
        (Dialect::Own, true) => json!([{ "token": [] }]),
        (Dialect::Own, false) => json!([]),
    };
    let mut responses = successes(operation, &key, output.as_value(), seen);
    for (status, examples) in refused(operation, problems) {
        let name = refusal_name(*dialect, &examples);
        responses.insert(status.to_string(), json!({ "$ref": format!("#/components/responses/{name}") }));
        refusals.entry(name).or_insert_with(|| refusal(*dialect, status, &examples));
    }
    let mut description = json!({
        "operationId": first_lower(name),
        "summary": route.summary.trim_end_matches('.'),
        "tags": [if *dialect == Dialect::Matrix { "homeserver" } else { route.function }],
        "security": security,
        "parameters": parameters,
        "responses": responses,
    });
    if !fields.is_empty() && route.has_body() {
        description["requestBody"] = body(fields, seen.requests.get(&key));
    }
    description
}

fn path_parameter(name: &str) -> Value {
    let (schema, description) = match name {
        "event" => (json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX }), "The match's id."),
        "chatRoom" | "matrixRoomId" => (
            json!({ "type": "string", "minLength": 1, "examples": ["!abc:touchline.local"] }),
            "The room's id, percent-encoded or plain.",
        ),
        "txnId" => (
            json!({ "type": "string", "minLength": 1 }),
            "The transaction's id: the same again changes nothing.",
        ),
        "userId" => (json!({ "type": "string", "minLength": 1 }), "A Matrix user's id."),
        _ => (json!({ "type": "string", "minLength": 1 }), "A room's alias."),
    };
    json!({ "name": name, "in": "path", "required": true, "description": description, "schema": schema })
}

fn query_parameter(field: &TakenField) -> Value {
    let TakenField { name, is_required, schema, .. } = field;
    let mut parameter = json!({ "name": name, "in": "query", "required": is_required, "schema": schema });
    let description = told(field);
    if !description.is_empty() {
        parameter["description"] = description.into();
        parameter["schema"].as_object_mut().map(|schema| schema.remove("description"));
    }
    parameter
}

/// What a field is for, then what it takes.
fn told(field: &TakenField) -> String {
    let kind = field.schema["description"].as_str().unwrap_or_default();
    format!("{} {kind}", field.description).trim().to_owned()
}

fn body(fields: &[TakenField], example: Option<&Value>) -> Value {
    let property = |field: &TakenField| {
        let mut schema = field.schema.clone();
        let description = told(field);
        if !description.is_empty() {
            schema["description"] = description.into();
        }
        // Absent and null are the same.
        if !field.is_required {
            let kind = schema["type"].take();
            schema["type"] = json!([kind, "null"]);
            if let Some(words) = schema["enum"].as_array_mut() {
                words.push(Value::Null);
            } else {
                schema.as_object_mut().map(|schema| schema.remove("enum"));
            }
        }
        (field.name.to_owned(), schema)
    };
    let required: Vec<_> = fields.iter().filter(|field| field.is_required).map(|field| field.name).collect();
    let mut schema =
        json!({ "type": "object", "properties": fields.iter().map(property).collect::<Map<_, _>>() });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    let mut content = json!({ "schema": schema });
    if let Some(example) = example {
        content["example"] = example.clone();
    }
    json!({ "required": !required.is_empty(), "content": { "application/json": content } })
}

fn successes(operation: &Operation, key: &str, output: &Value, seen: &Seen) -> Map<String, Value> {
    let route = &operation.route;
    let mut responses = Map::new();
    for status in route.answers {
        let mut content = json!({ "schema": output });
        if let Some(example) = seen.responses.get(&(key.to_owned(), *status)) {
            content["example"] = example.clone();
        }
        let mut response = json!({
            "description": meaning(route, *status), "content": { "application/json": content },
        });
        if route.is_keyed && *status == 200 {
            response["headers"]["Idempotency-Replayed"] = json!({
                "description": "`true` where the answer is that of an earlier call.",
                "schema": { "type": "string", "enum": ["true"] },
            });
        }
        responses.insert(status.to_string(), response);
    }
    responses
}

/// What it refuses, by status.
fn refused<'a>(
    operation: &Operation,
    problems: &'a BTreeMap<&str, Example>,
) -> BTreeMap<u16, Vec<&'a Example>> {
    let mut by_status: BTreeMap<u16, Vec<&Example>> = BTreeMap::new();
    for code in operation.route.refuses() {
        let example = &problems[code];
        by_status.entry(example.status).or_default().push(example);
    }
    if operation.dialect == Dialect::Matrix {
        // What is not valid is a bad request in Matrix.
        if let Some(invalid) = by_status.remove(&422) {
            by_status.entry(400).or_default().extend(invalid);
        }
    }
    by_status
}

/// The same codes are the same response, wherever they are.
fn refusal_name(dialect: Dialect, examples: &[&Example]) -> String {
    match dialect {
        Dialect::Matrix => "matrix".into(),
        Dialect::Own => examples.iter().map(|example| example.code).collect::<Vec<_>>().join("-"),
    }
}

fn meaning(route: &Route, status: u16) -> &'static str {
    match (status, route.is_keyed, route.answers.len()) {
        (201, ..) => "Made",
        (200, true, 2..) => "Made before, by the same `Idempotency-Key`",
        (200, _, 2..) => "Replaced, or the same as before",
        _ => "Done",
    }
}

fn refusal(dialect: Dialect, status: u16, examples: &[&Example]) -> Value {
    if dialect == Dialect::Matrix {
        return json!({
            "description": "Refused, in the words of the Matrix specification",
            "content": { "application/json": { "schema": { "$ref": "#/components/schemas/MatrixError" } } },
        });
    }
    let codes: Vec<_> = examples.iter().map(|example| example.code).collect();
    let said: Map<String, Value> = examples
        .iter()
        .map(|example| {
            let name = example.code;
            (name.to_owned(), json!({ "$ref": format!("#/components/examples/{name}") }))
        })
        .collect();
    let mut response = json!({
        "description": codes.iter().map(|code| format!("`{code}`")).collect::<Vec<_>>().join(", "),
        "content": { "application/json": {
            "schema": {
                "allOf": [
                    { "$ref": "#/components/schemas/Error" },
                    { "type": "object", "properties": { "code": { "type": "string", "enum": codes } } },
                ],
            },
            "examples": said,
        } },
    });
    match status {
        401 => {
            response["headers"]["WWW-Authenticate"] =
                json!({ "description": "`Bearer`", "schema": { "type": "string" } });
        }
        429 | 503 => {
            response["headers"]["Retry-After"] = json!({
                "description": "Seconds until it is worth trying again.",
                "schema": { "type": "integer", "minimum": 1 },
            });
        }
        _ => {}
    }
    response
}

fn error() -> Value {
    json!({
        "type": "object",
        "required": ["message", "code"],
        "properties": {
            "message": { "type": "string", "description": "A sentence for people." },
            "code": { "type": "string", "description": "A stable word for programs." },
            "errors": {
                "type": "object",
                "description": "On 422 alone: what is wrong, by field.",
                "additionalProperties": { "type": "array", "items": { "type": "string" }, "minItems": 1 },
            },
        },
    })
}

fn matrix_error() -> Value {
    json!({
        "type": "object",
        "required": ["errcode", "error"],
        "properties": {
            "errcode": { "type": "string", "pattern": "^M_" },
            "error": { "type": "string" },
        },
    })
}

fn first_lower(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().into_iter().flat_map(char::to_lowercase).chain(letters).collect()
}

/// Names without what only our code needs, and no format that OpenAPI does not know.
fn tidy(value: &mut Value, shorter: &dyn Fn(&str) -> Option<String>) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(|value| tidy(value, shorter)),
        Value::Object(map) => {
            // OpenAPI knows no unsigned numbers; what needs more than 32 bits has to say so, or clients cut it off.
            if let Some(Value::String(format)) = map.get_mut("format")
                && let Some(bits) = format.strip_prefix("uint")
            {
                *format = if matches!(bits, "8" | "16") { "int32".into() } else { "int64".into() };
            }
            if let Some(Value::String(reference)) = map.get_mut("$ref")
                && let Some(name) = reference.strip_prefix("#/components/schemas/").and_then(shorter)
            {
                *reference = format!("#/components/schemas/{name}");
            }
            if let Some(Value::Object(schemas)) = map.get_mut("schemas") {
                let named = |(name, schema): (String, Value)| (shorter(&name).unwrap_or(name), schema);
                *schemas = std::mem::take(schemas).into_iter().map(named).collect();
            }
            map.values_mut().for_each(|value| tidy(value, shorter));
        }
        _ => {}
    }
}
