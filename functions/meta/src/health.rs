use touchline::api::Data;
use touchline::api::meta::{Health, Healthy};
use touchline::{App, Call, Error, Reply};

/// Reads from the store, because a service that cannot reach its data is not healthy.
pub async fn handle(app: App, _: Call<Health>) -> Result<Reply<Data<Healthy>>, Error> {
    app.store.ping().await?;
    Ok(Data { data: Healthy { status: "ok", version: env!("CARGO_PKG_VERSION") } }.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use touchline_testing::{Fault, TestApp};

    #[tokio::test]
    async fn the_service_is_healthy_while_the_store_responds() {
        let app = TestApp::serving(&[crate::router]).start().await;
        let body = app.anonymous().get("/api/health").await.expect(200);
        assert_eq!(body, json!({ "data": { "status": "ok", "version": env!("CARGO_PKG_VERSION") } }));
        app.faults.set(|_| Fault::LoseRequest);
        app.anonymous().get("/api/health").await.expect_error(503, "busy");
    }
}
