//! Counts how often the condition of each kind of conditional write held and failed.
//!
//! A condition that never fails in any world is not tested by the simulation.

use std::collections::BTreeMap;

use serde_json::Value;

/// How often a condition held, and how often it failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Guard {
    pub held: u64,
    pub failed: u64,
}

/// The conditions of all conditional writes, by table, operation and expression.
pub type Guards = BTreeMap<String, Guard>;

/// Counts the conditions of one request.
pub fn count(guards: &mut Guards, operation: &str, request: &Value, response: &Value) {
    let is_success = response.get("__type").is_none();
    match operation {
        "PutItem" | "UpdateItem" | "DeleteItem" => {
            let is_failed = response["__type"]
                .as_str()
                .is_some_and(|kind| kind.ends_with("ConditionalCheckFailedException"));
            add(guards, operation, request, is_success, is_failed);
        }
        "TransactWriteItems" => {
            for (at, item) in request["TransactItems"].as_array().into_iter().flatten().enumerate() {
                let Some((kind, write)) = item.as_object().and_then(|item| item.iter().next()) else {
                    continue;
                };
                let is_failed = response["CancellationReasons"][at]["Code"] == "ConditionalCheckFailed";
                add(guards, &format!("Transact{kind}"), write, is_success, is_failed);
            }
        }
        "BatchExecuteStatement" => {
            for (at, statement) in request["Statements"].as_array().into_iter().flatten().enumerate() {
                let code = &response["Responses"][at]["Error"]["Code"];
                let is_failed = code == "ConditionalCheckFailed";
                let kind =
                    if statement["Statement"].as_str().is_some_and(|text| text.contains("REMOVE points")) {
                        "BatchExecuteStatement: remove points"
                    } else {
                        "BatchExecuteStatement: set points"
                    };
                count_one(guards, kind.to_owned(), code.is_null(), is_failed);
            }
        }
        _ => {}
    }
}

fn add(guards: &mut Guards, operation: &str, write: &Value, is_success: bool, is_failed: bool) {
    if let Some(condition) = write["ConditionExpression"].as_str() {
        let table = write["TableName"].as_str().unwrap_or_default();
        let table = table.rsplit('-').next().unwrap_or_default();
        // The removal of old attributes names one or more of them. Count all these conditions together.
        let condition = condition.split(" AND #m1").next().unwrap_or_default();
        count_one(guards, format!("{table} {operation}: {condition}"), is_success, is_failed);
    }
}

fn count_one(guards: &mut Guards, name: String, is_success: bool, is_failed: bool) {
    let guard = guards.entry(name).or_default();
    guard.held += u64::from(is_success);
    guard.failed += u64::from(is_failed);
}
