use touchline::api::matches::SportView;
use touchline::api::teams::ListSports;
use touchline::api::{NumberedPage, PageMeta};
use touchline::domain::catalog::Paging;
use touchline::{App, Call, Error, Reply};

pub async fn handle(app: App, call: Call<ListSports>) -> Result<Reply<NumberedPage<SportView>>, Error> {
    let catalog = app.teams().await?;
    let page = catalog.list_sports(Paging { page: call.input.page.0, per_page: call.input.per_page.0 });
    let data = page.rows.iter().map(|sport| SportView::of(sport)).collect();
    Ok(NumberedPage { data, meta: PageMeta::of(&page) }.into())
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use serde_json::json;

    use crate::testing::alice;

    #[tokio::test]
    async fn sports_are_sorted_by_name() {
        let (app, alice) = alice().await;
        let archery = json!({ "id": 9, "name": "Archery" });
        app.invoke(feed::handle, json!({ "format": "touchline", "sports": [archery] })).await;
        app.clock.advance(TimeDelta::seconds(1));
        let body = alice.lists_sports().await.expect(200);
        let expected = json!([
            { "id": 9, "name": "Archery", "slug": "archery" },
            { "id": 1, "name": "Football", "slug": "football" },
        ]);
        assert_eq!(body["data"], expected);
        assert_eq!(body["meta"]["total"], 2);
    }
}
