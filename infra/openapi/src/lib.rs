//! Generates the OpenAPI 3.1 document from the table of endpoints.

use std::collections::{BTreeMap, BTreeSet};

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use touchline::api::schema::{InputField, Operation};
use touchline::api::{self, ErrorCode, ErrorFormat, Route};
use touchline::http::{Example, examples, idempotency_key_schema};

/// Real requests and responses, as examples, by method and path.
#[derive(Debug, Default, Clone)]
pub struct Recorded {
    pub requests: BTreeMap<String, Value>,
    /// By endpoint and status.
    pub responses: BTreeMap<(String, u16), Value>,
}

const INTRODUCTION: &str = "The backend of a sports-match social app: people log in with a phone number and a code, \
predict matches, talk in rooms and collect coins.\n\nLog in with `POST /api/code/request` and `POST /api/code/verify`. Send \
the token from the response as `Authorization: Bearer <token>`. Every error has the same shape: `code` is a stable word for \
programs, `message` a sentence for the user, and `errors` has sentences by field on 422. 429 and 503 carry `retry_after` and \
the header `Retry-After`. A response without `code` comes from API Gateway: an unknown path, a burst over its limit, or a \
function that failed.";

/// The groups of endpoints: one per function, and one for the homeserver.
const TAGS: [(&str, &str); 10] = [
    ("login", "Log in, log out, and choose a username"),
    ("profile", "The caller's own record, and phone verification"),
    ("matches", "Matches"),
    ("teams", "Teams and favourites"),
    ("predictions", "Predictions, and points after the match"),
    ("coins", "Coins"),
    ("chat", "Chat rooms"),
    ("homeserver", "For the Matrix homeserver, not for apps"),
    ("sms-logs", "The development log of codes, not in production"),
    ("meta", "Health and this document"),
];

/// The whole document.
#[must_use]
pub fn document(version: &str, recorded: &Recorded) -> Value {
    let mut settings = SchemaSettings::draft2020_12().for_serialize();
    settings.definitions_path = "/components/schemas".into();
    settings.meta_schema = None;
    let mut generator = settings.into_generator();
    let error_examples: BTreeMap<ErrorCode, Example> =
        examples().into_iter().map(|example| (example.code, example)).collect();
    let (mut paths, mut error_responses) = (Map::new(), Map::new());
    for describe in api::OPERATIONS {
        let operation = describe(&mut generator);
        let (path, method) = (operation.route.path, operation.route.method.as_str().to_lowercase());
        let operation = operation_object(&operation, recorded, &mut error_responses);
        paths.entry(path).or_insert_with(|| json!({}))[method] = operation;
    }
    let mut schemas: Map<String, Value> = generator.definitions().clone();
    schemas.insert("Error".into(), error_schema());
    schemas.insert("MatrixError".into(), matrix_error_schema());
    let error_examples: Map<String, Value> = error_examples
        .into_iter()
        // The homeserver gets errors in Matrix's format.
        .filter(|(code, _)| *code != ErrorCode::NotTheHomeserver)
        .map(|(code, example)| {
            (code.to_string(), json!({ "summary": code.meaning(), "value": example.body }))
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
        "servers": [{ "url": "/", "description": "The server of this document" }],
        "tags": TAGS.map(|(name, description)| json!({ "name": name, "description": description })),
        "paths": paths,
        "components": {
            "schemas": schemas,
            "examples": error_examples,
            "responses": error_responses,
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
    let names: BTreeSet<String> = generator.definitions().keys().cloned().collect();
    tidy(&mut document, &|name| {
        // `RoomView` is shown as `Room`, unless that name is taken.
        name.strip_suffix("View").filter(|short| !names.contains(*short)).map(str::to_owned)
    });
    document
}

fn operation_object(
    operation: &Operation,
    recorded: &Recorded,
    error_responses: &mut Map<String, Value>,
) -> Value {
    let Operation { name, route, error_format, path, fields, output } = operation;
    let key = format!("{} {}", route.method, route.path);
    let names = api::parameter_names(route.path);
    let mut parameters: Vec<Value> =
        names.zip(path).map(|(name, schema)| parameter(name, "path", true, schema.clone())).collect();
    if !route.has_body() {
        parameters.extend(fields.iter().map(query_parameter));
    }
    if let Some(header) = route.idempotency_header {
        parameters.push(parameter(header, "header", false, idempotency_key_schema()));
    }
    let security = match (error_format, route.needs_token) {
        (ErrorFormat::Matrix, _) => json!([{ "homeserver": [] }]),
        (ErrorFormat::Touchline, true) => json!([{ "token": [] }]),
        (ErrorFormat::Touchline, false) => json!([]),
    };
    let mut responses = successes(route, &key, output.as_value(), recorded);
    for (status, codes) in errors_by_status(operation) {
        let name = error_response_name(*error_format, &codes);
        responses.insert(status.to_string(), json!({ "$ref": format!("#/components/responses/{name}") }));
        error_responses.entry(name).or_insert_with(|| error_response(*error_format, status, &codes));
    }
    let mut object = json!({
        "operationId": first_lower(name),
        "summary": route.summary,
        "description": route.description,
        "tags": [if *error_format == ErrorFormat::Matrix { "homeserver" } else { route.function }],
        "security": security,
        "parameters": parameters,
        "responses": responses,
    });
    if !fields.is_empty() && route.has_body() {
        object["requestBody"] = request_body(fields, recorded.requests.get(&key));
    }
    object
}

/// A parameter. The description moves from its schema to the parameter itself.
fn parameter(name: &str, place: &str, is_required: bool, mut schema: Value) -> Value {
    let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
    json!({ "name": name, "in": place, "required": is_required, "description": description, "schema": schema })
}

fn query_parameter(field: &InputField) -> Value {
    let mut schema = field.schema.clone();
    schema["description"] = description(field).into();
    parameter(field.name, "query", field.is_required, schema)
}

/// What a field is for, then what values it accepts.
fn description(field: &InputField) -> String {
    let values = field.schema["description"].as_str().unwrap_or_default();
    format!("{} {values}", field.description).trim().to_owned()
}

fn request_body(fields: &[InputField], example: Option<&Value>) -> Value {
    let property = |field: &InputField| {
        let mut schema = field.schema.clone();
        schema["description"] = description(field).into();
        // `null` means absent.
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

fn successes(route: &Route, key: &str, output: &Value, recorded: &Recorded) -> Map<String, Value> {
    let mut responses = Map::new();
    for status in route.statuses {
        let mut content = json!({ "schema": output });
        if let Some(example) = recorded.responses.get(&(key.to_owned(), *status)) {
            content["example"] = example.clone();
        }
        let mut response = json!({
            "description": success_description(route, *status), "content": { "application/json": content },
        });
        if route.idempotency_header.is_some() && *status == 200 {
            response["headers"]["Idempotency-Replayed"] = json!({
                "description": "`true` if this is the result of an earlier request with the same key.",
                "schema": { "type": "string", "enum": ["true"] },
            });
        }
        responses.insert(status.to_string(), response);
    }
    responses
}

fn success_description(route: &Route, status: u16) -> &'static str {
    match (status, route.idempotency_header.is_some(), route.statuses.len()) {
        (201, ..) => "Created",
        (200, true, 2..) => "Created earlier, by a request with the same `Idempotency-Key`",
        (200, _, 2..) => "Updated",
        _ => "Success",
    }
}

/// The endpoint's error codes by status.
fn errors_by_status(operation: &Operation) -> BTreeMap<u16, Vec<ErrorCode>> {
    let mut by_status: BTreeMap<u16, Vec<ErrorCode>> = BTreeMap::new();
    for code in operation.route.errors() {
        // Matrix reports invalid input as 400.
        let is_matrix = operation.error_format == ErrorFormat::Matrix;
        let status = if is_matrix && code.status() == 422 { 400 } else { code.status() };
        by_status.entry(status).or_default().push(code);
    }
    by_status
}

/// Endpoints with the same codes share a response.
fn error_response_name(format: ErrorFormat, codes: &[ErrorCode]) -> String {
    match format {
        ErrorFormat::Matrix => "matrix".into(),
        ErrorFormat::Touchline => codes.iter().map(|code| code.as_str()).collect::<Vec<_>>().join("-"),
    }
}

fn error_response(format: ErrorFormat, status: u16, codes: &[ErrorCode]) -> Value {
    if format == ErrorFormat::Matrix {
        return json!({
            "description": "An error in Matrix's format",
            "content": { "application/json": { "schema": { "$ref": "#/components/schemas/MatrixError" } } },
        });
    }
    let meanings: Vec<_> = codes.iter().map(|code| format!("`{code}`: {}", code.meaning())).collect();
    let examples: Map<String, Value> = codes
        .iter()
        .map(|code| (code.to_string(), json!({ "$ref": format!("#/components/examples/{code}") })))
        .collect();
    let words: Vec<_> = codes.iter().map(|code| code.as_str()).collect();
    let mut response = json!({
        "description": meanings.join("\n\n"),
        "content": { "application/json": {
            "schema": {
                "allOf": [
                    { "$ref": "#/components/schemas/Error" },
                    { "type": "object", "properties": {
                        "code": { "type": "string", "enum": words, "description": "The codes of this response." },
                    } },
                ],
            },
            "examples": examples,
        } },
    });
    match status {
        401 => {
            response["headers"]["WWW-Authenticate"] =
                json!({ "description": "`Bearer`", "schema": { "type": "string" } });
        }
        429 | 503 => {
            response["headers"]["Retry-After"] = json!({
                "description": "Seconds until a retry can succeed.",
                "schema": { "type": "integer", "minimum": 1 },
            });
        }
        _ => {}
    }
    response
}

fn error_schema() -> Value {
    json!({
        "type": "object",
        "required": ["message", "code"],
        "properties": {
            "message": { "type": "string", "description": "A sentence for the user." },
            "code": { "type": "string", "description": "A stable word for programs." },
            "errors": {
                "type": "object",
                "description": "Only on 422: sentences by field.",
                "additionalProperties": { "type": "array", "items": { "type": "string" }, "minItems": 1 },
            },
            "balance": {
                "type": "integer", "format": "int64",
                "description": "Only with `insufficient_balance`: the coins in the wallet.",
            },
            "required": {
                "type": "integer", "format": "int64", "minimum": 1,
                "description": "Only with `insufficient_balance`: the coins that the call needs.",
            },
            "next_claim_at": {
                "type": "string", "format": "date-time",
                "description": "Only with `already_claimed`: when the next daily coins can be claimed.",
            },
            "retry_after": {
                "type": "integer", "format": "int64", "minimum": 1,
                "description": "Only on 429 and 503: seconds until a retry can succeed.",
            },
        },
    })
}

fn matrix_error_schema() -> Value {
    json!({
        "type": "object",
        "required": ["errcode", "error"],
        "properties": {
            "errcode": { "type": "string", "pattern": "^M_", "description": "Matrix's error code." },
            "error": { "type": "string", "description": "A sentence for the homeserver's operator." },
        },
    })
}

fn first_lower(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().into_iter().flat_map(char::to_lowercase).chain(letters).collect()
}

/// Shortens schema names, and replaces number formats that OpenAPI does not define.
fn tidy(value: &mut Value, shorter: &dyn Fn(&str) -> Option<String>) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(|value| tidy(value, shorter)),
        Value::Object(map) => {
            // OpenAPI has no unsigned formats. Numbers beyond 32 bits say so, or generated clients truncate them.
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
