use touchline_testing::concurrently;

use crate::target::{HttpApi, unique_phone};

#[tokio::test(flavor = "multi_thread")]
async fn twenty_concurrent_logins_with_one_code_give_one_session() {
    let anonymous = HttpApi::under_test().anonymous();
    let phone = unique_phone();
    let code = anonymous.receives_code(&phone).await;
    let responses = concurrently(20, |_| anonymous.verifies_code(&phone, &code)).await;
    let with = |status: u16| responses.iter().filter(|response| response.status == status).count();
    assert_eq!((with(200), with(401)), (1, 19), "{responses:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_concurrent_code_requests_for_one_phone_send_five_codes() {
    let anonymous = HttpApi::under_test().anonymous();
    let phone = unique_phone();
    let responses = concurrently(20, |_| anonymous.requests_code(&phone)).await;
    let with = |status: u16| responses.iter().filter(|response| response.status == status).count();
    assert_eq!((with(200), with(429)), (5, 15), "{responses:?}");
}
