use touchline_testing::TestApp;

use super::{counts, run, sample};

#[tokio::test]
async fn without_chat_matches_wait() {
    let app = TestApp::serving(&[]).without_chat().start().await;
    let report = run(&app, &sample()).await;
    assert_eq!(counts(&report), [5, 0, 0, 4], "{report}");
    assert!(report["reasons"][0]["reason"].as_str().unwrap().contains("import again"));
}
