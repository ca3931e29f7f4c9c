//! Describes error responses. Operations with the same error codes for a status share a response in
//! `components`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use touchline::api::schema::Operation;
use touchline::api::{ErrorCode, ErrorFormat};

/// Lists the references from an operation to its error responses, by status.
pub fn references(operation: &Operation) -> impl Iterator<Item = (String, Value)> {
    codes_by_status(operation).into_iter().map(|(status, codes)| {
        let name = response_name(operation.error_format, &codes);
        (status.to_string(), json!({ "$ref": format!("#/components/responses/{name}") }))
    })
}

/// Lists the error responses that an operation refers to, by name.
pub fn responses(operation: &Operation) -> impl Iterator<Item = (String, Value)> {
    codes_by_status(operation).into_iter().map(|(status, codes)| {
        let response = match operation.error_format {
            ErrorFormat::Touchline => response(status, &codes),
            ErrorFormat::Matrix => matrix_response(),
        };
        (response_name(operation.error_format, &codes), response)
    })
}

fn codes_by_status(operation: &Operation) -> BTreeMap<u16, Vec<ErrorCode>> {
    let mut by_status: BTreeMap<u16, Vec<ErrorCode>> = BTreeMap::new();
    for code in operation.route.errors() {
        // Matrix uses 400 instead of 422 for invalid input.
        let is_matrix = operation.error_format == ErrorFormat::Matrix;
        let status = if is_matrix && code.status() == 422 { 400 } else { code.status() };
        by_status.entry(status).or_default().push(code);
    }
    by_status
}

fn response_name(format: ErrorFormat, codes: &[ErrorCode]) -> String {
    match format {
        ErrorFormat::Matrix => "matrix".into(),
        ErrorFormat::Touchline => codes.iter().map(|code| code.as_str()).collect::<Vec<_>>().join("-"),
    }
}

fn response(status: u16, codes: &[ErrorCode]) -> Value {
    let meanings: Vec<_> = codes.iter().map(|code| format!("`{code}`: {}", code.meaning())).collect();
    let examples: Map<String, Value> = codes
        .iter()
        .map(|code| (code.to_string(), json!({ "$ref": format!("#/components/examples/{code}") })))
        .collect();
    let mut response = json!({
        "description": meanings.join("\n\n"),
        "content": { "application/json": {
            "schema": {
                "allOf": [
                    { "$ref": "#/components/schemas/ApiError" },
                    { "type": "object", "properties": {
                        "code": { "type": "string", "enum": codes, "description": "The possible codes at this status." },
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
                "description": "Seconds to wait before a retry.",
                "schema": { "type": "integer", "minimum": 1 },
            });
        }
        _ => {}
    }
    response
}

fn matrix_response() -> Value {
    json!({
        "description": "An error in Matrix's format",
        "content": { "application/json": { "schema": { "$ref": "#/components/schemas/MatrixError" } } },
    })
}

/// Returns one example for each error code that can appear in this API's own error format.
pub fn examples() -> Map<String, Value> {
    let mut examples = touchline::http::examples();
    // Only endpoints that the homeserver calls return this code. Their errors have Matrix's format.
    examples.retain(|example| example.code != ErrorCode::NotTheHomeserver);
    let object = |code: ErrorCode, body| json!({ "summary": code.meaning(), "value": body });
    examples
        .into_iter()
        .map(|example| (example.code.to_string(), object(example.code, example.body)))
        .collect()
}

/// Returns the JSON Schemas of error bodies, by name.
pub fn schemas() -> [(String, Value); 2] {
    [("ApiError".into(), error_schema()), ("MatrixError".into(), matrix_error_schema())]
}

fn error_schema() -> Value {
    json!({
        "type": "object",
        "description": "An error.",
        "required": ["message", "code"],
        "properties": {
            "message": { "type": "string", "description": "A sentence for the user." },
            "code": { "type": "string", "description": "Identifies the error for programs. A code never changes." },
            "errors": {
                "type": "object",
                "description": "Only on 422: sentences for each invalid field.",
                "additionalProperties": { "type": "array", "items": { "type": "string" }, "minItems": 1 },
            },
            "balance": {
                "type": "integer", "format": "int64",
                "description": "Only with `insufficient_balance`: the coins in the wallet.",
            },
            "required": {
                "type": "integer", "format": "int64", "minimum": 1,
                "description": "Only with `insufficient_balance`: the coins that the request needs.",
            },
            "next_claim_at": {
                "type": "string", "format": "date-time",
                "description": "Only with `already_claimed`: when the next daily coins can be claimed.",
            },
            "retry_after": {
                "type": "integer", "format": "int64", "minimum": 1,
                "description": "Only on 429 and 503: seconds to wait before a retry.",
            },
        },
    })
}

fn matrix_error_schema() -> Value {
    json!({
        "type": "object",
        "description": "An error in Matrix's format.",
        "required": ["errcode", "error"],
        "properties": {
            "errcode": { "type": "string", "pattern": "^M_", "description": "Matrix's error code." },
            "error": { "type": "string", "description": "A sentence for the homeserver's operator." },
        },
    })
}
