use touchline::api::matches::{ListTournaments, TournamentView};
use touchline::api::{NumberedPage, PageMeta};
use touchline::domain::catalog::Paging;
use touchline::{App, Call, Error, Reply};

pub async fn handle(
    app: App,
    call: Call<ListTournaments>,
) -> Result<Reply<NumberedPage<TournamentView>>, Error> {
    let catalog = app.teams().await?;
    let paging = Paging { page: call.input.page.0, per_page: call.input.per_page.0 };
    let page = catalog.list_tournaments(paging);
    let data = page.rows.iter().map(|tournament| TournamentView::of(tournament)).collect();
    Ok(NumberedPage { data, meta: PageMeta::of(&page) }.into())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use touchline_testing::TestApp;

    #[tokio::test]
    async fn featured_tournaments_come_first_and_all_are_sorted_by_name() {
        let app = TestApp::serving(&[crate::router]).start().await;
        let named =
            |id: u32, name: &str, featured: bool| json!({ "id": id, "name": name, "featured": featured });
        let tournaments = [
            named(1, "Zonal Cup", true),
            named(2, "Ábaco League", false),
            named(3, "abbey league", false),
            named(4, "World Cup", true),
        ];
        app.invoke(feed::handle, json!({ "format": "touchline", "tournaments": tournaments })).await;
        let alice = app.user("alice").await;
        let body = alice.lists_tournaments().await.expect(200);
        let ids: Vec<&Value> = body["data"].as_array().unwrap().iter().map(|row| &row["id"]).collect();
        assert_eq!(ids, [4, 1, 2, 3]);
        assert_eq!(body["data"][0], json!({ "id": 4, "name": "World Cup", "is_featured": true }));
        assert_eq!(body["meta"], json!({ "current_page": 1, "last_page": 1, "per_page": 20, "total": 4 }));
        let second = alice.lists_tournaments().query("per_page", 3).query("page", 2).await.expect(200);
        assert_eq!(second["data"], json!([{ "id": 3, "name": "abbey league", "is_featured": false }]));
        alice.lists_tournaments().query("per_page", 101).await.expect_invalid(&["per_page"]);
        app.anonymous().lists_tournaments().await.expect_error(401, "token_missing");
    }
}
