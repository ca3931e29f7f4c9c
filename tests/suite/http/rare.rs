//! What seldom happens, and has to be allowed all the same: a session that is renewed after a day, a change that
//! cannot be read.

use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use clap::Parser as _;
use serde_json::{Value, json};
use touchline::api;
use touchline_local::{LocalStack, Options};

use super::chat::client;
use crate::target::Target;

/// Each function that takes tokens renews an old session by itself.
#[tokio::test]
async fn a_session_is_renewed_by_whichever_function_sees_it() {
    let Some(dynamodb) = Target::dynamodb() else { return };
    let (fan, client) = (Target::fan().await, client(dynamodb));
    let tables = client.list_tables().send().await.unwrap();
    let users = tables.table_names().iter().filter(|table| table.ends_with("-users"));
    let mut functions: Vec<&str> =
        api::ALL.iter().filter(|route| route.needs_token).map(|route| route.function).collect();
    functions.dedup();
    // Logging out is all that a token is for there, and ends the session.
    functions.retain(|function| *function != "login");
    for function in functions {
        let mut aged = 0;
        for table in users.clone() {
            let sessions = client
                .query()
                .table_name(table)
                .key_condition_expression("pk = :user AND begins_with(sk, :session)")
                .expression_attribute_values(":user", AttributeValue::S(format!("user#{}", fan.id())))
                .expression_attribute_values(":session", AttributeValue::S("session#".into()));
            for session in sessions.send().await.unwrap().items() {
                let update = client
                    .update_item()
                    .table_name(table)
                    .key("pk", session["pk"].clone())
                    .key("sk", session["sk"].clone())
                    .update_expression("SET renewed_at = renewed_at - :two_days")
                    .expression_attribute_values(":two_days", AttributeValue::N("172800000".into()));
                update.send().await.unwrap();
                aged += 1;
            }
        }
        assert_eq!(aged, 1);
        let mine =
            |route: &&api::Route| route.function == function && route.needs_token && route.method == "GET";
        let route = api::ALL.iter().find(mine).expect("something to read");
        let answer = fan.get(&route.path.replace("{event}", "1").replace("{chatRoom}", "x")).await;
        assert!(answer.status.is_success() || answer.status == 404, "{function}: {}", answer.body);
    }
}

#[tokio::test]
async fn a_change_that_cannot_be_read_is_set_aside() {
    let poison = json!({ "Records": [{ "dynamodb": {
        "Keys": { "pk": { "S": "event#1#0" }, "sk": { "S": "user#1" } },
        "NewImage": { "pick": { "S": "nobody" } }, "SequenceNumber": "1",
    } }] });
    if Target::dynamodb().is_some() {
        let answer = Target::get().invoke("tally", &poison).await;
        assert_eq!(answer["batchItemFailures"], json!([]));
    }
}

/// A catalog whose snapshot cannot be read, and a number that is somebody else's. On a stack of its own: nobody else
/// could list a match meanwhile.
#[tokio::test]
async fn a_catalog_is_built_anew() {
    let mut arguments =
        vec!["touchline", "--quiet", "--memory", "--no-demo", "--port", "0", "--dynamodb-port", "0"];
    let calls = std::env::var("TOUCHLINE_TEST_CALLS");
    if let Ok(file) = &calls {
        arguments.extend(["--note-calls", file]);
    }
    let stack = LocalStack::start(&Options::parse_from(arguments)).await.expect("a local stack");
    let url = format!("http://{}/2015-03-31/functions/feed/invocations", stack.api);
    let import = async |document: &'static str| -> Value {
        let asked = reqwest::Client::new().post(&url).body(document).send();
        asked.await.unwrap().json().await.unwrap()
    };
    let foreign = import(include_str!("../../../events/feed/openfootball.json")).await;
    assert_eq!(foreign["created"], 9, "{foreign}");
    let client = client(&stack.dynamodb);
    let rows = client.scan().table_name("touchline-catalog").send().await.unwrap();
    let is_part = |row: &&HashMap<String, AttributeValue>| {
        row["pk"].as_s().unwrap().starts_with("snapshot#") && row["sk"].as_s().unwrap() != "index"
    };
    for part in rows.items().iter().filter(is_part) {
        let nonsense = part.iter().map(|(name, value)| {
            let value = if value.is_b() { AttributeValue::B(Blob::new(*b"nonsense")) } else { value.clone() };
            (name.clone(), value)
        });
        let put = client.put_item().table_name("touchline-catalog").set_item(Some(nonsense.collect()));
        put.send().await.unwrap();
    }
    let ours = import(include_str!("../../../events/feed/touchline.json")).await;
    assert!(ours["rejected"].as_u64() > Some(0), "numbers of others are refused: {ours}");
    stack.stop().await;
}
