//! The IAM actions and resources of a DynamoDB call.

use std::collections::BTreeSet;

use serde_json::Value;

use super::writes::statement_table;

/// Formats a call in one line: `GetItem users`, or `TransactWriteItems: PutItem users, UpdateItem wallets`.
pub(super) fn summary(operation: &str, actions: &[(String, String)]) -> String {
    let parts: Vec<_> = actions.iter().map(|(action, resource)| format!("{action} {resource}")).collect();
    let parts = parts.join(", ");
    let is_single = actions.len() == 1 && actions[0].0 == operation;
    if is_single { parts } else { format!("{operation}: {parts}") }
}

/// Names a call by its operation and its tables: `GetItem users`, or `TransactWriteItems users, wallets`.
pub(super) fn tables(operation: &str, body: &Value) -> String {
    let resources: BTreeSet<String> =
        actions(operation, body).into_iter().map(|(_, resource)| resource).collect();
    format!("{operation} {}", Vec::from_iter(resources).join(", "))
}

/// Returns the actions that an IAM role must allow for a call, each with its table or index.
pub(super) fn actions(operation: &str, body: &Value) -> Vec<(String, String)> {
    match operation {
        "BatchGetItem" | "BatchWriteItem" => {
            let tables = body["RequestItems"].as_object().into_iter().flatten().map(|(table, _)| table);
            tables.map(|table| (operation.to_owned(), table.clone())).collect()
        }
        "TransactWriteItems" | "TransactGetItems" => body["TransactItems"]
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(|item| item.as_object().into_iter().flatten())
            .map(|(kind, part)| {
                let action = if kind == "ConditionCheck" {
                    "ConditionCheckItem".into()
                } else {
                    format!("{kind}Item")
                };
                (action, text(&part["TableName"]))
            })
            .collect(),
        "BatchExecuteStatement" => {
            body["Statements"].as_array().into_iter().flatten().map(partiql_action).collect()
        }
        _ => {
            let table = text(&body["TableName"]);
            let resource = match body["IndexName"].as_str() {
                Some(index) => format!("{table}/index/{index}"),
                None => table,
            };
            vec![(operation.to_owned(), resource)]
        }
    }
}

/// Returns the action and the table that a `PartiQL` statement needs. `UPDATE "predictions" SET …` needs
/// `PartiQLUpdate` on `predictions`.
fn partiql_action(statement: &Value) -> (String, String) {
    let text = text(&statement["Statement"]);
    let verb = text.split_whitespace().next().unwrap_or_default().to_lowercase();
    let verb: String =
        verb.chars().take(1).flat_map(char::to_uppercase).chain(verb.chars().skip(1)).collect();
    (format!("PartiQL{verb}"), statement_table(statement))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn actions_of(operation: &str, body: &Value) -> String {
        let actions = actions(operation, body);
        actions.iter().map(|(action, resource)| format!("{action} {resource}")).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn a_call_needs_iam_actions_on_its_tables_and_indexes() {
        assert_eq!(actions_of("GetItem", &json!({ "TableName": "users" })), "GetItem users");
        let query = json!({ "TableName": "rooms", "IndexName": "by_user" });
        assert_eq!(actions_of("Query", &query), "Query rooms/index/by_user");
        let batch = json!({ "RequestItems": { "rooms": {} } });
        assert_eq!(actions_of("BatchGetItem", &batch), "BatchGetItem rooms");
        let transaction = json!({ "TransactItems": [
            { "Put": { "TableName": "a" } }, { "ConditionCheck": { "TableName": "b" } },
        ] });
        assert_eq!(actions_of("TransactWriteItems", &transaction), "PutItem a, ConditionCheckItem b");
        assert_eq!(tables("TransactWriteItems", &transaction), "TransactWriteItems a, b");
        let statements = json!({ "Statements": [{ "Statement": "UPDATE \"predictions\" SET x = 1" }] });
        assert_eq!(actions_of("BatchExecuteStatement", &statements), "PartiQLUpdate predictions");
    }
}
