use touchline::api::teams::{ListTeams, TeamView};
use touchline::api::{PageMeta, Paged};
use touchline::domain::catalog::{Paging, TeamFilter};
use touchline::{App, Call, Error, Reply};

pub async fn handle(app: App, call: Call<ListTeams>) -> Result<Reply<Paged<TeamView>>, Error> {
    let input = call.input;
    let catalog = app.catalog().await?;
    let filter =
        TeamFilter { sport_id: input.sport_id.map(|id| id.0), search: input.search.map(|text| text.0) };
    let page = catalog.list_teams(&filter, Paging { page: input.page.0, per_page: input.per_page.0 });
    let data = page.rows.iter().filter_map(|team| TeamView::of(team, &catalog)).collect();
    Ok(Paged { data, meta: PageMeta::of(&page) }.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::tests::app;

    #[tokio::test]
    async fn teams_are_listed_by_name_with_their_sport() {
        let (_app, alice) = app().await;
        let body = alice.lists_teams().await.expect(200);
        assert_eq!(body["meta"], json!({ "current_page": 1, "last_page": 1, "per_page": 20, "total": 3 }));
        assert_eq!(
            body["data"][0],
            json!({
                "id": 1, "name": "Northgate Rovers", "slug": "northgate-rovers", "sport_id": 1,
                "sport": { "id": 1, "name": "Football", "slug": "football" },
                "logo": "https://example.org/1.png", "country": "Albion", "founded": 1889,
            })
        );
    }

    #[tokio::test]
    async fn an_unknown_country_is_empty_and_an_unknown_year_is_0() {
        let (_app, alice) = app().await;
        let team = &alice.lists_teams().search("Westport").await.expect_data(200)[0];
        assert_eq!((&team["country"], &team["founded"]), (&json!(""), &json!(0)));
    }

    #[tokio::test]
    async fn search_ignores_case_and_accents_and_filters_combine() {
        let (_app, alice) = app().await;
        let total = async |query: &[(&str, &str)]| {
            let mut request = alice.lists_teams();
            for (name, value) in query {
                request = request.query(name, value);
            }
            request.await.expect(200)["meta"]["total"].clone()
        };
        assert_eq!(total(&[("search", "ATLETICO")]).await, 1);
        assert_eq!(total(&[("search", "atlético")]).await, 1);
        assert_eq!(total(&[("search", "o"), ("sport_id", "1")]).await, 3);
        assert_eq!(total(&[("sport_id", "2")]).await, 0);
    }

    #[tokio::test]
    async fn invalid_filters_are_422() {
        let (_app, alice) = app().await;
        alice.lists_teams().query("sport_id", "football").await.expect_invalid(&["sport_id"]);
        alice.lists_teams().search(&"x".repeat(101)).await.expect_invalid(&["search"]);
    }
}
