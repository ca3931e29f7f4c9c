//! What seldom happens, and has to be allowed all the same: a session that is renewed after a day, a change that
//! cannot be read.

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::json;
use touchline::api;

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
        let answer = match api::ALL.iter().find(mine) {
            Some(route) => fan.get(&route.path.replace("{event}", "1").replace("{chatRoom}", "x")).await,
            None => fan.post("/api/auth/logout", &json!({})).await,
        };
        assert!(answer.status.is_success() || answer.status == 404, "{function}: {}", answer.body);
        if function != "login" {
            let me = fan.get("/api/auth/me").await;
            assert_eq!(me.status, 200, "{function}");
        }
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
