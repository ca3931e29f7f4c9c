//! Describes one operation: its parameters, request body and responses.

use serde_json::{Map, Value, json};
use touchline::api::endpoint::JSON;
use touchline::api::schema::Operation;
use touchline::api::{self, ErrorFormat, InputField, Route};
use touchline::http::idempotency_key_schema;

use crate::errors;
use crate::recorded::Recorded;

/// Builds the OpenAPI object of an operation.
pub fn object(operation: &Operation, recorded: &Recorded) -> Value {
    let Operation { name, route, error_format, fields, output, .. } = operation;
    let key = format!("{} {}", route.method, route.path);
    let security = match (error_format, route.needs_token) {
        (ErrorFormat::Matrix, _) => json!([{ "homeserver": [] }]),
        (ErrorFormat::Touchline, true) => json!([{ "token": [] }]),
        (ErrorFormat::Touchline, false) => json!([]),
    };
    let mut responses = successes(route, &key, output.as_value(), recorded);
    responses.extend(errors::references(operation));
    let mut object = json!({
        "operationId": operation_id(name),
        "summary": route.summary,
        "description": route.description,
        "tags": [if *error_format == ErrorFormat::Matrix { "homeserver" } else { route.function }],
        "security": security,
        "parameters": parameters(operation),
        "responses": responses,
    });
    if !fields.is_empty() && route.has_body() {
        object["requestBody"] = request_body(fields, recorded.requests.get(&key));
    }
    object
}

/// The operation ids of endpoints whose types are not named after what the endpoint does.
const IDS: [(&str, &str); 17] = [
    ("ChatCredentials", "createChatCredentials"),
    ("ClaimDaily", "claimDailyCoins"),
    ("Coins", "getCoins"),
    ("Deduct", "deductCoins"),
    ("DeletionPage", "getDeletionPage"),
    ("Description", "getDescription"),
    ("EventPredictions", "listEventPredictions"),
    ("Health", "getHealth"),
    ("Invite", "inviteUser"),
    ("Leaderboard", "getLeaderboard"),
    ("Me", "getMe"),
    ("MemberStats", "getMemberStats"),
    ("OneEvent", "getEvent"),
    ("OwnPredictions", "listMyPredictions"),
    ("RoomPredictions", "listRoomPredictions"),
    ("Transaction", "pushTransaction"),
    ("UserProfile", "getUser"),
];

/// Returns the operation id of an endpoint's type: `listEvents` for `ListEvents`.
fn operation_id(name: &str) -> String {
    if let Some((_, id)) = IDS.iter().find(|(endpoint, _)| *endpoint == name) {
        return (*id).to_owned();
    }
    let mut letters = name.chars();
    letters.next().into_iter().flat_map(char::to_lowercase).chain(letters).collect()
}

/// Lists the parameters in the path, in the query and in the headers.
fn parameters(operation: &Operation) -> Vec<Value> {
    let Operation { route, path, fields, .. } = operation;
    let names = api::parameter_names(route.path);
    let mut parameters: Vec<Value> =
        names.zip(path).map(|(name, schema)| parameter(name, "path", true, schema.clone())).collect();
    if !route.has_body() {
        let query = fields
            .iter()
            .map(|field| parameter(field.name, "query", field.is_required, described_schema(field)));
        parameters.extend(query);
    }
    let header = route.idempotency_header;
    parameters.extend(header.map(|header| parameter(header, "header", false, idempotency_key_schema())));
    if route.has_etag {
        let schema = json!({
            "type": "string", "examples": ["\"2a1c7c6f0b8d4e5f9a3b1c2d4e6f8091\""],
            "description": "The `ETag` of the response that the client has. If it is still valid, the response is 304.",
        });
        parameters.push(parameter("If-None-Match", "header", false, schema));
    }
    parameters
}

/// Builds a parameter object. The description moves from the schema to the parameter.
fn parameter(name: &str, place: &str, is_required: bool, mut schema: Value) -> Value {
    let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
    json!({ "name": name, "in": place, "required": is_required, "description": description, "schema": schema })
}

/// Returns the schema of a field. The description says what the field is for, then which values it accepts.
fn described_schema(field: &InputField) -> Value {
    let mut schema = field.schema.clone();
    let values = schema["description"].as_str().unwrap_or_default();
    schema["description"] = format!("{} {values}", field.description).trim().into();
    schema
}

fn request_body(fields: &[InputField], example: Option<&Value>) -> Value {
    let property = |field: &InputField| {
        let schema = described_schema(field);
        (field.name.to_owned(), if field.is_required { schema } else { nullable(schema) })
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

/// Makes a schema accept `null`. A field with the value `null` counts as absent.
fn nullable(mut schema: Value) -> Value {
    let kind = schema["type"].take();
    schema["type"] = json!([kind, "null"]);
    if let Some(Value::Array(words)) = schema.get_mut("enum") {
        words.push(Value::Null);
    }
    schema
}

/// Builds the successful responses, by status.
fn successes(route: &Route, key: &str, output: &Value, recorded: &Recorded) -> Map<String, Value> {
    let mut responses = Map::new();
    for status in route.statuses {
        let mut content = json!({ "schema": output });
        // A whole page would be no useful example.
        let is_json = route.content_type == JSON;
        if let Some(example) = recorded.responses.get(&(key.to_owned(), *status)).filter(|_| is_json) {
            content["example"] = example.clone();
        }
        let mut response = json!({
            "description": success_description(route, *status), "content": { route.content_type: content },
        });
        if route.idempotency_header.is_some() && *status == 200 {
            response["headers"]["Idempotency-Replayed"] = json!({
                "description": "`true` if this is the result of an earlier request with the same key.",
                "schema": { "type": "string", "enum": ["true"] },
            });
        }
        if route.has_etag {
            response["headers"]["ETag"] = etag_header();
            response["headers"]["Cache-Control"] = caching_header(route);
        }
        responses.insert(status.to_string(), response);
    }
    if route.has_etag {
        let not_modified = json!({
            "description": "The response that the client has is still valid.", "headers": { "ETag": etag_header() },
        });
        responses.insert("304".into(), not_modified);
    }
    responses
}

fn caching_header(route: &Route) -> Value {
    let (description, value) = match route.public_for {
        Some(seconds) => {
            ("Any cache can use the response for so long.", format!("public, max-age={seconds}"))
        }
        None => (
            "A client can keep the response, but has to ask each time whether it is still valid.",
            "private, no-cache".to_owned(),
        ),
    };
    json!({ "description": description, "schema": { "type": "string", "enum": [value] } })
}

fn etag_header() -> Value {
    json!({
        "description": "Changes with the body. Send it as `If-None-Match` with the next request.",
        "schema": { "type": "string", "pattern": "^\"[0-9a-f]{32}(-gzip)?\"$" },
    })
}

fn success_description(route: &Route, status: u16) -> &'static str {
    let can_be_created = route.statuses.contains(&201);
    match (status, can_be_created, route.idempotency_header) {
        (201, ..) => "Created",
        (_, true, Some(_)) => "Created earlier, by a request with the same `Idempotency-Key`",
        (_, true, None) => "Updated",
        (_, false, _) => "Success",
    }
}
