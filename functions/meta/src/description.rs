use touchline::api::meta::{Description, Document};
use touchline::{App, Call, Error, Reply};

/// As `docs/openapi.json` has it; a test keeps that true.
const TEXT: &str = include_str!("../../../docs/openapi.json");

pub async fn handle(_: App, _: Call<Description>) -> Result<Reply<Document>, Error> {
    let document = serde_json::from_str(TEXT).map_err(|_| Error::Broken("the description is not JSON"))?;
    Ok(Document(document).into())
}

#[cfg(test)]
mod tests {
    use touchline_testing::TestApp;

    #[tokio::test]
    async fn the_description_describes_itself() {
        let app = TestApp::serving(&[crate::router]).start().await;
        let body = app.get("/api/openapi.json").await.expect(200);
        assert_eq!(body["openapi"], "3.1.0");
        assert!(body["paths"]["/api/openapi.json"]["get"].is_object());
    }
}
