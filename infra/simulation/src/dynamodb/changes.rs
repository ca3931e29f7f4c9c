//! Which items a request writes, and what it changed.

use dynoxide::Database;
use serde_json::{Value, json};
use touchline_stack::direct::{self, RequestBody};

/// A changed item.
#[derive(Debug, Clone)]
pub struct Change {
    pub key: Written,
    /// The item before the change, in DynamoDB's JSON format. `None` if the change created it.
    pub old: Option<Value>,
    /// The item after the change. `None` if the change deleted it.
    pub new: Option<Value>,
}

/// The key of an item that a request may write.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Written {
    pub table: String,
    pub pk: String,
    pub sk: String,
}

impl Written {
    /// Returns the key in DynamoDB's JSON format.
    pub fn as_json(&self) -> Value {
        json!({ "pk": { "S": self.pk }, "sk": { "S": self.sk } })
    }
}

/// Returns the keys of all items that a request may write.
pub fn written(operation: &str, body: &Value) -> Vec<Written> {
    let in_table = |table: &Value, key: &Value| Written {
        table: table.as_str().unwrap_or_default().to_owned(),
        pk: key["pk"]["S"].as_str().unwrap_or_default().to_owned(),
        sk: key["sk"]["S"].as_str().unwrap_or_default().to_owned(),
    };
    match operation {
        "PutItem" => vec![in_table(&body["TableName"], &body["Item"])],
        "UpdateItem" | "DeleteItem" => vec![in_table(&body["TableName"], &body["Key"])],
        "TransactWriteItems" => list(&body["TransactItems"])
            .filter_map(|item| {
                let (kind, write) = item.as_object()?.iter().next()?;
                let key = if kind == "Put" { &write["Item"] } else { &write["Key"] };
                (kind != "ConditionCheck").then(|| in_table(&write["TableName"], key))
            })
            .collect(),
        "BatchWriteItem" => body["RequestItems"]
            .as_object()
            .into_iter()
            .flatten()
            .flat_map(|(table, writes)| {
                list(writes).map(move |write| {
                    let put = &write["PutRequest"]["Item"];
                    let key = if put.is_null() { &write["DeleteRequest"]["Key"] } else { put };
                    in_table(&json!(table), key)
                })
            })
            .collect(),
        "BatchExecuteStatement" => list(&body["Statements"])
            .filter_map(|statement| written_by_statement(statement["Statement"].as_str()?))
            .collect(),
        _ => Vec::new(),
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Reads the key from a statement such as `UPDATE "table" SET … WHERE pk='a' AND sk='b' AND …`.
fn written_by_statement(statement: &str) -> Option<Written> {
    let quoted = |after: &str, quote: char| {
        let (_, rest) = statement.split_once(after)?;
        rest.split_once(quote).map(|(text, _)| text.to_owned())
    };
    Some(Written { table: quoted("UPDATE \"", '"')?, pk: quoted("pk='", '\'')?, sk: quoted("sk='", '\'')? })
}

/// Reads an item, strongly consistent.
pub fn image(database: &Database, key: &Written) -> Option<Value> {
    let request = json!({
        "TableName": key.table,
        "Key": key.as_json(),
        "ConsistentRead": true,
    });
    let response = direct::execute(database, "GetItem", RequestBody::Json(&request));
    let body: Value = serde_json::from_slice(response.body().bytes()?).ok()?;
    body.get("Item").cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(operation: &str, body: &Value) -> Vec<String> {
        written(operation, body).iter().map(|key| format!("{} {} {}", key.table, key.pk, key.sk)).collect()
    }

    #[test]
    fn every_kind_of_write_names_its_items() {
        let key = |pk: &str| json!({ "pk": { "S": pk }, "sk": { "S": "s" } });
        assert_eq!(keys("PutItem", &json!({ "TableName": "t", "Item": key("a") })), ["t a s"]);
        assert_eq!(keys("UpdateItem", &json!({ "TableName": "t", "Key": key("a") })), ["t a s"]);
        let transaction = json!({ "TransactItems": [
            { "Put": { "TableName": "t", "Item": key("a") } },
            { "ConditionCheck": { "TableName": "t", "Key": key("b") } },
            { "Delete": { "TableName": "u", "Key": key("c") } },
        ] });
        assert_eq!(keys("TransactWriteItems", &transaction), ["t a s", "u c s"]);
        let batch = json!({ "RequestItems": { "t": [
            { "PutRequest": { "Item": key("a") } }, { "DeleteRequest": { "Key": key("b") } },
        ] } });
        assert_eq!(keys("BatchWriteItem", &batch), ["t a s", "t b s"]);
        let statement =
            "UPDATE \"t\" SET points=4 SET revision=1 WHERE pk='event#1#0' AND sk='user#2' AND edits=1";
        let statements = json!({ "Statements": [{ "Statement": statement }] });
        assert_eq!(keys("BatchExecuteStatement", &statements), ["t event#1#0 user#2"]);
        assert!(keys("GetItem", &json!({ "TableName": "t", "Key": key("a") })).is_empty());
    }
}
