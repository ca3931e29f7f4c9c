use touchline::api::Data;
use touchline::api::matches::{EventView, OneEvent};
use touchline::{App, Call, Error, Reply};

pub async fn handle(app: App, call: Call<OneEvent>) -> Result<Reply<Data<EventView>>, Error> {
    let id = call.path.event.0;
    let catalog = app.catalog_with(&[id]).await?;
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
    async fn an_event_is_found_by_its_id_and_unknown_ids_are_404() {
        let app = TestApp::serving(&[crate::router]).start().await;
        let sample = serde_json::from_str(include_str!("../../../events/feed/touchline.json")).unwrap();
        app.invoke(feed::handle, sample).await;
        let alice = app.user("alice").await;
        let event = alice.views_event(3).await.expect_data(200);
        assert_eq!((event["id"].as_u64(), event["home_score"].as_u64()), (Some(3), Some(2)));
        for id in ["99", "0", "-1", "x", "3.0", "99999999999999999999", "%20", "3%00"] {
            alice.get(format!("/api/auth/events/{id}")).await.expect_error(404, "event_not_found");
        }
    }
}
