use touchline::api::Data;
use touchline::api::matches::{EventWithExtras, OneEvent};
use touchline::{App, Call, Error, Reply};

use crate::extras;

pub async fn handle(app: App, call: Call<OneEvent>) -> Result<Reply<Data<EventWithExtras>>, Error> {
    let (id, include) = (call.path.event.0, call.input.include);
    // A stale catalog could show the picks for a match that was postponed.
    let catalog =
        if include.picks { app.checked_catalog_with(&[id]).await? } else { app.catalog_with(&[id]).await? };
    let event = catalog.event(id).ok_or(Error::EventNotFound)?;
    let mut found = extras::of(&app, call.caller.user, include, &catalog, &[event]).await?;
    let data = found.pop().ok_or(Error::Broken("a match without its teams"))?;
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
