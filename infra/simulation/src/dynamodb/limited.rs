//! Calls within the limits of DynamoDB.

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::changes::{Written, written};
use super::{DynamoDb, body_of, error};
use crate::limits::{Access, Cause, ItemKey, Kind, Limits, Write, function_of, read_units, scalar, size};

/// A part of a request: an item that it reads or writes, or all that a query reads.
struct Part {
    access: Access,
    weight: u32,
    old: Option<Value>,
}

impl DynamoDb {
    /// Waits until a call begins.
    pub(super) async fn wait_for_turn(limits: &Limits, environment: &str, operation: &str, body: &Value) {
        let accesses = accesses(operation, body);
        let function = function_of(environment);
        let calls = limits.calls(function, operation, &accesses);
        tokio::time::sleep_until(limits.turn(environment, calls)).await;
        if operation == "BatchExecuteStatement" {
            loop {
                let at = limits.admits_batch_at(&accesses, function);
                if at <= Instant::now() {
                    return;
                }
                tokio::time::sleep_until(at).await;
            }
        }
    }

    /// Executes a call unless it is throttled. Of a batch, executes what is not throttled.
    pub(super) fn execute_within(
        &self,
        limits: &Limits,
        environment: &str,
        operation: &str,
        body: &Value,
    ) -> HttpResponse {
        let function = function_of(environment);
        let parts: Vec<Part> = accesses(operation, body)
            .into_iter()
            .map(|access| {
                let weight = limits.weight(function, &access);
                let old = if access.kind == Kind::Write { self.item_of(&access) } else { None };
                Part { access, weight, old }
            })
            .collect();
        let admitted: Vec<Result<(), Cause>> = parts
            .iter()
            .map(|part| {
                let new = written_item(body);
                limits.admits(&part.access, part.old.as_ref(), new.as_ref(), function)
            })
            .collect();
        let is_admitted: Vec<bool> = admitted.iter().map(Result::is_ok).collect();
        if is_admitted.iter().all(|is_admitted| *is_admitted) {
            let response = self.execute(operation, body);
            self.charge(limits, operation, &parts, &response);
            return response;
        }
        if admitted.contains(&Err(Cause::Collection)) {
            return error(400, "ItemCollectionSizeLimitExceededException", Value::Null);
        }
        let response = match operation {
            "BatchExecuteStatement" => self.execute_statements(body.clone(), &is_admitted),
            "BatchGetItem" | "BatchWriteItem" if is_admitted.contains(&true) => {
                self.execute_requests(operation, body.clone(), &is_admitted)
            }
            "TransactWriteItems" => {
                let code = |is_admitted: &bool| if *is_admitted { "None" } else { "ThrottlingError" };
                let reasons: Vec<Value> =
                    is_admitted.iter().map(|is_admitted| json!({ "Code": code(is_admitted) })).collect();
                return error(400, "TransactionCanceledException", json!({ "CancellationReasons": reasons }));
            }
            // The error of on-demand tables. Provisioned tables have another.
            _ => return error(400, "ThrottlingException", Value::Null),
        };
        let executed: Vec<Part> = parts
            .into_iter()
            .zip(is_admitted)
            .filter(|(_, is_admitted)| *is_admitted)
            .map(|(part, _)| part)
            .collect();
        self.charge(limits, operation, &executed, &response);
        response
    }

    fn item_of(&self, access: &Access) -> Option<Value> {
        self.item(&access.table, &access.key.pk, &access.key.sk)
    }

    fn charge(&self, limits: &Limits, operation: &str, parts: &[Part], response: &HttpResponse) {
        if matches!(operation, "GetItem" | "Query") {
            let units = consumed(response).unwrap_or(0.5);
            for part in parts {
                limits.charge_read(&part.access, units, part.weight);
            }
            return;
        }
        for Part { access, weight, old } in parts {
            let new = self.item_of(access);
            match access.kind {
                // Charge every batch read as eventually consistent. Only the import and usernames that the first read
                // does not find are read strongly consistent.
                Kind::Read => {
                    limits.charge_read(access, read_units(new.as_ref().map_or(0, size), false), *weight);
                }
                Kind::Write => {
                    let per_write = if operation == "TransactWriteItems" { 2.0 } else { 1.0 };
                    let write = Write { access, old: old.as_ref(), new: new.as_ref() };
                    limits.charge_write(write, per_write, *weight);
                }
            }
        }
    }

    /// Executes the requests of a batch that are in the mask. The response names the rest as unprocessed.
    fn execute_requests(&self, operation: &str, mut body: Value, is_kept: &[bool]) -> HttpResponse {
        let is_write = operation == "BatchWriteItem";
        let mut unprocessed = serde_json::Map::new();
        let mut is_kept = is_kept.iter();
        for (table, requests) in body["RequestItems"].as_object_mut().expect("a batch has tables") {
            let mut left = requests.clone();
            let list = if is_write { &mut *requests } else { &mut requests["Keys"] };
            let list = list.as_array_mut().expect("a batch has requests");
            let (kept, rest): (Vec<_>, Vec<_>) =
                list.drain(..).partition(|_| is_kept.next().copied().unwrap_or(true));
            *list = kept;
            if !rest.is_empty() {
                *(if is_write { &mut left } else { &mut left["Keys"] }) = json!(rest);
                unprocessed.insert(table.clone(), left);
            }
        }
        if let Some(tables) = body["RequestItems"].as_object_mut() {
            let list = |requests: &Value| if is_write { requests.clone() } else { requests["Keys"].clone() };
            tables.retain(|_, requests| list(requests).as_array().is_some_and(|list| !list.is_empty()));
        }
        let mut response = body_of(&self.execute(operation, &body));
        response[if is_write { "UnprocessedItems" } else { "UnprocessedKeys" }] = unprocessed.into();
        touchline_stack::direct::response(200, response.to_string())
    }
}

/// Returns the units that a read consumed. Does not parse the items, because a final has many large pages.
fn consumed(response: &HttpResponse) -> Option<f64> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Page {
        consumed_capacity: Consumed,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Consumed {
        capacity_units: f64,
    }
    let page: Page = serde_json::from_slice(response.body().bytes()?).ok()?;
    Some(page.consumed_capacity.capacity_units)
}

/// Returns what a request reads or writes, in the order of the request.
fn accesses(operation: &str, body: &Value) -> Vec<Access> {
    let table = || body["TableName"].as_str().unwrap_or_default().to_owned();
    let read =
        |table: String, index: Option<String>, key: ItemKey| Access { table, index, key, kind: Kind::Read };
    let key = |key: &Value| ItemKey {
        pk: scalar(&key["pk"]).unwrap_or_default(),
        sk: scalar(&key["sk"]).unwrap_or_default(),
    };
    match operation {
        "GetItem" => vec![read(table(), None, key(&body["Key"]))],
        "Query" => {
            let index = body["IndexName"].as_str().map(str::to_owned);
            let pk = queried_partition(body).unwrap_or_default();
            vec![read(table(), index, ItemKey { pk, sk: String::new() })]
        }
        "BatchGetItem" => body["RequestItems"]
            .as_object()
            .into_iter()
            .flatten()
            .flat_map(|(table, requests)| {
                let keys = requests["Keys"].as_array().into_iter().flatten();
                keys.map(|one| read(table.clone(), None, key(one)))
            })
            .collect(),
        _ => written(operation, body)
            .into_iter()
            .map(|Written { table, pk, sk }| Access {
                table,
                index: None,
                key: ItemKey { pk, sk },
                kind: Kind::Write,
            })
            .collect(),
    }
}

/// Returns the partition key of a query, from a condition such as `pk = :partition AND sk BETWEEN :from AND :to`.
fn queried_partition(body: &Value) -> Option<String> {
    let (_, value) = body["KeyConditionExpression"].as_str()?.split_once(" = ")?;
    scalar(&body["ExpressionAttributeValues"][value.split(' ').next()?])
}

/// Returns what is known of the item that a single write leaves: all of a put, and what an update sets to a value, such as
/// `user_id = :user`.
fn written_item(body: &Value) -> Option<Value> {
    if let Some(item) = body.get("Item") {
        return Some(item.clone());
    }
    let (_, set) = body["UpdateExpression"].as_str()?.split_once("SET ")?;
    let mut item = serde_json::Map::new();
    for assignment in set.split(", ") {
        if let Some((name, value)) = assignment.split_once(" = ") {
            let value = value.split(' ').next().unwrap_or_default();
            let name = body["ExpressionAttributeNames"][name].as_str().unwrap_or(name);
            if let Some(value) = body["ExpressionAttributeValues"].get(value) {
                item.insert(name.to_owned(), value.clone());
            }
        }
    }
    Some(Value::Object(item))
}

#[cfg(test)]
mod tests {
    use dynoxide::Database;
    use touchline_stack::direct::{self, RequestBody};

    use super::*;

    /// The engine enforces the limits of sizes, so the model does not.
    #[test]
    fn the_engine_has_the_published_limits_of_sizes() {
        let database = Database::memory().unwrap();
        let run = |operation: &str, body: &Value| {
            let response = direct::execute(&database, operation, RequestBody::Json(body));
            (response.status().as_u16(), body_of(&response))
        };
        let create = json!({
            "TableName": "things", "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": [
                { "AttributeName": "pk", "AttributeType": "S" }, { "AttributeName": "sk", "AttributeType": "S" },
            ],
            "KeySchema": [{ "AttributeName": "pk", "KeyType": "HASH" }, { "AttributeName": "sk", "KeyType": "RANGE" }],
        });
        assert_eq!(run("CreateTable", &create).0, 200);
        let item = |sk: usize, bytes: usize| json!({ "pk": { "S": "a" }, "sk": { "S": format!("{sk:05}") }, "text": { "S": "x".repeat(bytes) } });
        let put = |bytes: usize| run("PutItem", &json!({ "TableName": "things", "Item": item(0, bytes) })).0;
        assert_eq!((put(399 * 1_024), put(400 * 1_024)), (200, 400), "400 KB for an item");
        let transact = |count: usize| {
            let put = |sk: usize| json!({ "Put": { "TableName": "things", "Item": item(sk, 1) } });
            run("TransactWriteItems", &json!({ "TransactItems": (0..count).map(put).collect::<Vec<_>>() })).0
        };
        assert_eq!((transact(100), transact(101)), (200, 400), "100 items in a transaction");
        let batch = |count: usize, bytes: usize| {
            let put = |sk: usize| json!({ "PutRequest": { "Item": item(sk, bytes) } });
            run(
                "BatchWriteItem",
                &json!({ "RequestItems": { "things": (0..count).map(put).collect::<Vec<_>>() } }),
            )
            .0
        };
        assert_eq!((batch(25, 100_000), batch(26, 1)), (200, 400), "25 items in a batch");
        let query = json!({
            "TableName": "things", "KeyConditionExpression": "pk = :a", "ExpressionAttributeValues": { ":a": { "S": "a" } },
        });
        let (_, page) = run("Query", &query);
        assert!(page["Count"].as_u64() < Some(25) && !page["LastEvaluatedKey"].is_null(), "1 MB in a page");
    }

    #[test]
    fn requests_name_the_partitions_that_they_use() {
        let query = json!({
            "TableName": "t", "IndexName": "by_user", "KeyConditionExpression": "user_id = :user AND created < :before",
            "ExpressionAttributeValues": { ":user": { "N": "7" }, ":before": { "S": "x" } },
        });
        let found = &accesses("Query", &query)[0];
        assert_eq!(
            (found.index.as_deref(), found.key.pk.as_str(), found.kind),
            (Some("by_user"), "7", Kind::Read)
        );
        let keys =
            json!([{ "pk": { "S": "a" }, "sk": { "S": "b" } }, { "pk": { "S": "c" }, "sk": { "S": "d" } }]);
        let batch = json!({ "RequestItems": { "t": { "Keys": keys } } });
        let found: Vec<_> =
            accesses("BatchGetItem", &batch).into_iter().map(|access| access.key.pk).collect();
        assert_eq!(found, ["a", "c"]);
        let update = json!({
            "TableName": "t", "Key": { "pk": { "S": "a" }, "sk": { "S": "b" } },
            "UpdateExpression": "SET #id = :id, created = if_not_exists(created, :at) REMOVE home ADD edits :one",
            "ExpressionAttributeNames": { "#id": "user_id" },
            "ExpressionAttributeValues": { ":id": { "N": "7" }, ":at": { "S": "x" }, ":one": { "N": "1" } },
        });
        assert_eq!(accesses("UpdateItem", &update)[0].kind, Kind::Write);
        assert_eq!(written_item(&update), Some(json!({ "user_id": { "N": "7" } })));
    }
}
