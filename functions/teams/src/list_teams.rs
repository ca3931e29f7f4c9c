use touchline::api::teams::{ListTeams, TeamView};
use touchline::api::{NumberedPage, PageMeta};
use touchline::domain::catalog::{Paging, TeamFilter};
use touchline::{App, Call, Error, Reply};

pub async fn handle(app: App, call: Call<ListTeams>) -> Result<Reply<NumberedPage<TeamView>>, Error> {
    let input = call.input;
    let catalog = app.teams().await?;
    let filter =
        TeamFilter { sport_id: input.sport_id.map(|id| id.0), search: input.search.map(|text| text.0) };
    let page = catalog.list_teams(&filter, Paging { page: input.page.0, per_page: input.per_page.0 });
    let data = page.rows.iter().filter_map(|team| TeamView::of(team, &catalog)).collect();
    Ok(NumberedPage { data, meta: PageMeta::of(&page) }.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::alice;

    #[tokio::test]
    async fn teams_are_sorted_by_name_and_show_their_sport() {
        let (_app, alice) = alice().await;
        let body = alice.lists_teams().await.expect(200);
        assert_eq!(body["meta"], json!({ "current_page": 1, "last_page": 1, "per_page": 20, "total": 3 }));
        let names: Vec<_> =
            body["data"].as_array().unwrap().iter().map(|team| team["name"].as_str().unwrap()).collect();
        assert!(names.is_sorted(), "{names:?}");
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
    async fn teams_can_be_filtered_by_a_search_text_and_by_sport() {
        let (_app, alice) = alice().await;
        let list = || alice.lists_teams();
        let totals = [
            (list().search("ATLETICO").await, 1),
            (list().search("atlético").await, 1),
            (list().search("o").sport(1).await, 3),
            (list().sport(2).await, 0),
        ];
        for (response, total) in totals {
            assert_eq!(response.body["meta"]["total"], total, "{}", response.request);
            response.expect(200);
        }
    }

    #[tokio::test]
    async fn invalid_filters_are_422_and_the_response_names_them() {
        let (_app, alice) = alice().await;
        let response = alice.lists_teams().query("sport_id", "football").await;
        response.expect_invalid(&["sport_id"]);
        assert_eq!(response.message(), "The field sport_id must be an integer.");
        let response = alice.lists_teams().search(&"x".repeat(101)).await;
        response.expect_invalid(&["search"]);
        assert_eq!(response.message(), "Use at most 100 characters.");
    }
}
