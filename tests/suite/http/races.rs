use serde_json::json;
use touchline_testing::at_once;

use crate::target::{Target, phone};

#[tokio::test(flavor = "multi_thread")]
async fn one_code_is_one_login_however_many_try() {
    let target = Target::get();
    let phone = phone();
    let code = target.request_code(&phone).await;
    let statuses = at_once(20, |_| {
        let body = json!({ "phone": phone, "code": code });
        async move { Target::get().post("/api/code/verify", &body).await.status.as_u16() }
    })
    .await;
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 401).count(), 19, "{statuses:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_twenty_requests_for_a_code_five_are_served() {
    let phone = phone();
    let statuses = at_once(20, |_| {
        let body = json!({ "phone": phone });
        async move { Target::get().post("/api/code/request", &body).await.status.as_u16() }
    })
    .await;
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 5, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 429).count(), 15, "{statuses:?}");
}
