use touchline::api::teams::{ListTeams, TeamView};
use touchline::api::{NumberedPage, PageMeta};
use touchline::domain::catalog::{Paging, TeamFilter};
use touchline::{App, Call, Error, Reply};

pub async fn handle(app: App, call: Call<ListTeams>) -> Result<Reply<NumberedPage<TeamView>>, Error> {
    let input = call.input;
    let catalog = app.catalog().await?;
    let filter =
        TeamFilter { sport_id: input.sport_id.map(|id| id.0), search: input.search.map(|text| text.0) };
    let page = catalog.list_teams(&filter, Paging { page: input.page.0, per_page: input.per_page.0 });
    let data = page.rows.iter().filter_map(|team| TeamView::of(team, &catalog)).collect();
    Ok(NumberedPage { data, meta: PageMeta::of(&page) }.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::tests::app;

    #[tokio::test]
    async fn teams_with_their_sport_by_name() {
        let (app, token) = app().await;
        let body = app.get_as(&token, "/api/auth/teams").await.expect(200);
        assert_eq!(body["meta"], json!({ "current_page": 1, "last_page": 1, "per_page": 20, "total": 3 }));
        assert_eq!(
            body["data"][0],
            json!({
                "id": 1, "name": "Northgate Rovers", "slug": "northgate-rovers", "sport_id": 1,
                "sport": { "id": 1, "name": "Football", "slug": "football" },
                "logo": "https://example.org/1.png", "country": "Albion", "founded": 1889,
            })
        );
        let unknown = &body["data"][2];
        assert_eq!((&unknown["country"], &unknown["founded"]), (&json!(""), &json!(0)), "not in the feed");
    }

    #[tokio::test]
    async fn search_and_sport() {
        let (app, token) = app().await;
        let total = async |query: &str| {
            app.get_as(&token, &format!("/api/auth/teams?{query}")).await.expect(200)["meta"]["total"].clone()
        };
        assert_eq!(total("search=ATLETICO").await, 1);
        assert_eq!(total("search=atl%C3%A9tico").await, 1);
        assert_eq!(total("search=o&sport_id=1").await, 3);
        assert_eq!(total("sport_id=2").await, 0);
        let answer = app.get_as(&token, "/api/auth/teams?sport_id=football").await;
        answer.expect_error(422, "validation_error");
        let long = format!("/api/auth/teams?search={}", "x".repeat(101));
        app.get_as(&token, &long).await.expect_error(422, "validation_error");
    }
}
