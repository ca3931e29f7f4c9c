//! The items that a DynamoDB call writes.

use serde_json::Value;

pub(super) fn is_write(operation: &str) -> bool {
    matches!(
        operation,
        "PutItem"
            | "UpdateItem"
            | "DeleteItem"
            | "BatchWriteItem"
            | "TransactWriteItems"
            | "ExecuteStatement"
            | "BatchExecuteStatement"
            | "ExecuteTransaction"
    )
}

/// Returns the table and the key attributes of each item that a call writes. For a put, it returns all
/// attributes of the item, not only the key. For a `PartiQL` statement, it returns the table and `None`.
pub(super) fn written_items(operation: &str, body: &Value) -> Vec<(String, Option<Value>)> {
    let item = |part: &Value| {
        let keys = part.get("Key").or_else(|| part.get("Item"));
        (text(&part["TableName"]), keys.cloned())
    };
    match operation {
        "BatchWriteItem" => {
            let tables = body["RequestItems"].as_object().into_iter().flatten();
            let writes = tables.flat_map(|(table, writes)| {
                list(writes).iter().flat_map(|write| write.as_object().into_iter().flatten()).map(
                    move |(_, write)| {
                        (table.clone(), write.get("Key").or_else(|| write.get("Item")).cloned())
                    },
                )
            });
            writes.collect()
        }
        "TransactWriteItems" => {
            let parts =
                list(&body["TransactItems"]).iter().flat_map(|part| part.as_object().into_iter().flatten());
            parts.filter(|(kind, _)| *kind != "ConditionCheck").map(|(_, part)| item(part)).collect()
        }
        "ExecuteStatement" => vec![(statement_table(body), None)],
        "BatchExecuteStatement" => {
            list(&body["Statements"]).iter().map(|statement| (statement_table(statement), None)).collect()
        }
        "ExecuteTransaction" => list(&body["TransactStatements"])
            .iter()
            .map(|statement| (statement_table(statement), None))
            .collect(),
        _ => vec![item(body)],
    }
}

/// Returns the table of a `PartiQL` statement, which is the first quoted name: `UPDATE "predictions" SET …`.
pub(super) fn statement_table(statement: &Value) -> String {
    statement["Statement"].as_str().unwrap_or_default().split('"').nth(1).unwrap_or_default().to_owned()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_items_that_a_call_writes_are_found() {
        let key = json!({ "sk": { "S": "a" } });
        let written = |operation, body: Value| written_items(operation, &body);
        assert_eq!(
            written("PutItem", json!({ "TableName": "t", "Item": key })),
            [("t".into(), Some(key.clone()))]
        );
        assert_eq!(
            written("UpdateItem", json!({ "TableName": "t", "Key": key })),
            [("t".into(), Some(key.clone()))]
        );
        let batch = json!({ "RequestItems": { "t": [
            { "PutRequest": { "Item": key } }, { "DeleteRequest": { "Key": key } },
        ] } });
        assert_eq!(written("BatchWriteItem", batch), vec![("t".to_owned(), Some(key.clone())); 2]);
        let transaction = json!({ "TransactItems": [
            { "Put": { "TableName": "t", "Item": key } }, { "ConditionCheck": { "TableName": "u", "Key": key } },
        ] });
        assert_eq!(written("TransactWriteItems", transaction), [("t".into(), Some(key))]);
        let statements = json!({ "Statements": [{ "Statement": "UPDATE \"t\" SET x = 1" }] });
        assert_eq!(written("BatchExecuteStatement", statements), [("t".into(), None)]);
    }
}
