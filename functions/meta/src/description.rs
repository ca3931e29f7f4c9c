use touchline::api::meta::{Description, Document};
use touchline::{App, Call, Error, Reply};

/// The OpenAPI document, generated from the endpoints. `tests/suite/openapi.rs` checks that it is up to date.
const TEXT: &str = include_str!("../../../docs/openapi.json");

pub async fn handle(_: App, _: Call<Description>) -> Result<Reply<Document>, Error> {
    let document =
        serde_json::from_str(TEXT).map_err(|_| Error::Broken("docs/openapi.json is not valid JSON"))?;
    Ok(Document(document).into())
}

#[cfg(test)]
mod tests {
    use touchline_testing::TestApp;

    #[tokio::test]
    async fn the_openapi_document_describes_its_own_endpoint() {
        let app = TestApp::serving(&[crate::router]).start().await;
        let body = app.anonymous().get("/api/openapi.json").await.expect(200);
        assert_eq!(body["openapi"], "3.1.0");
        assert!(body["paths"]["/api/openapi.json"]["get"].is_object());
    }
}
