//! Tests of text messages that are sent through SNS.

use clap::Parser as _;
use reqwest::Client;
use serde_json::{Value, json};
use touchline_local::{LocalStack, Options};

use super::variable;
use crate::target::unique_phone;

async fn stack_with_sns(url: &str) -> LocalStack {
    let options = Options::parse_from([
        "touchline",
        "--quiet",
        "--memory",
        "--no-crowd",
        "--port",
        "0",
        "--dynamodb-port",
        "0",
        "--sns",
        url,
        "--parameter",
        "Environment=testing",
        "--parameter",
        "SmsSenderId=Touchline",
    ]);
    LocalStack::start(&options).await.expect("the local stack starts")
}

#[tokio::test]
#[ignore = "needs ministack: run tests/real-components"]
async fn a_user_can_log_in_with_a_code_sent_through_sns() {
    let sns = variable("TOUCHLINE_TEST_SNS");
    let stack = stack_with_sns(&sns).await;
    let (client, api, phone) = (Client::new(), format!("http://{}", stack.api), unique_phone());
    let post = async |path: &str, body: Value| -> Value {
        let response = client.post(format!("{api}{path}")).json(&body).send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        response.json().await.unwrap()
    };
    post("/api/code/request", json!({ "phone": phone })).await;

    let inbox: Value =
        client.get(format!("{sns}/_ministack/sns/sms-messages")).send().await.unwrap().json().await.unwrap();
    let message = &inbox["sms_messages"][&phone][0];
    let attributes = &message["MessageAttributes"];
    assert_eq!(attributes["AWS.SNS.SMS.SMSType"]["StringValue"], "Transactional", "{message}");
    assert_eq!(attributes["AWS.SNS.SMS.SenderID"]["StringValue"], "Touchline", "{message}");
    assert_eq!(attributes["AWS.SNS.SMS.MaxPrice"]["StringValue"], "0.50", "{message}");
    let text = message["Message"].as_str().unwrap();
    let code = text.split(|c: char| !c.is_ascii_digit()).find(|word| word.len() == 6).unwrap();
    post("/api/code/verify", json!({ "phone": phone, "code": code })).await;

    let log = format!("{api}/api/logs/sms?phone={}", phone.replace('+', "%2B"));
    let log: Value = client.get(log).send().await.unwrap().json().await.unwrap();
    assert_eq!(log["data"][0]["provider"], "sns");
    assert_eq!(log["data"][0]["status"], "sent");
    assert_eq!(log["data"][0]["code"], code);
    stack.stop().await;
}

#[tokio::test]
#[ignore = "needs ministack with AUTH=true: run tests/real-components"]
async fn a_failed_message_is_logged_and_does_not_count_towards_the_limit() {
    // This instance of ministack, an AWS emulator, does not know our access key. So every call to SNS fails, as it
    // does on AWS with an unknown access key.
    let stack = stack_with_sns(&variable("TOUCHLINE_TEST_SNS_REJECTING")).await;
    let (client, api, phone) = (Client::new(), format!("http://{}", stack.api), unique_phone());
    // The limit is five codes, so the last two requests would be 429 if failed messages counted.
    for _ in 0..7 {
        let request = client.post(format!("{api}/api/code/request")).json(&json!({ "phone": phone }));
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()["retry-after"], "1");
        assert_eq!(response.json::<Value>().await.unwrap()["code"], "sms_unavailable");
    }
    let log = format!("{api}/api/logs/sms?status=failed&phone={}", phone.replace('+', "%2B"));
    let log: Value = client.get(log).send().await.unwrap().json().await.unwrap();
    let rows = log["data"].as_array().unwrap();
    assert_eq!(rows.len(), 7);
    for row in rows {
        assert_eq!(row["status"], "failed");
        assert_eq!(row["error"], "InvalidClientTokenId");
        assert!(row.get("expires_at").is_none());
    }
    stack.stop().await;
}
