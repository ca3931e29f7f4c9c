use touchline::api::Data;
use touchline::api::matches::{EventView, OneEvent};
use touchline::{App, Call, Error, Reply};

pub async fn handle(app: App, call: Call<OneEvent>) -> Result<Reply<Data<EventView>>, Error> {
    let id = call.path.event.0;
    let catalog = app.catalog().await?;
    let event = catalog.event(id).ok_or(Error::EventNotFound)?;
    let counts = app.store.prediction_counts(&[id]).await?;
    let count = counts.get(&id).copied().unwrap_or(0);
    let data = EventView::of(event, &catalog, count).ok_or(Error::Broken("a match without its teams"))?;
    Ok(Data { data }.into())
}

#[cfg(test)]
mod tests {
    use touchline_testing::TestApp;

    #[tokio::test]
    async fn one_by_its_id_and_404_for_anything_else() {
        let app = TestApp::serving(&[login::router, crate::router]).start().await;
        let sample = serde_json::from_str(include_str!("../../../events/feed/touchline.json")).unwrap();
        feed::handle(app.app.clone(), sample).await.unwrap();
        let token = app.token("+447700900123").await;
        let body = app.get_as(&token, "/api/auth/events/3").await.expect(200);
        assert_eq!((body["data"]["id"].as_u64(), body["data"]["home_score"].as_u64()), (Some(3), Some(2)));
        for id in ["99", "0", "-1", "x", "3.0", "99999999999999999999", "%20", "3%00"] {
            app.get_as(&token, &format!("/api/auth/events/{id}")).await.expect_error(404, "event_not_found");
        }
    }
}
