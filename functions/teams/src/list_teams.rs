use touchline::api::teams::{ListTeams, TeamView};
use touchline::api::{PageMeta, Paged};
use touchline::domain::catalog::{Paging, TeamFilter};
use touchline::{App, Call, Error, Reply};

pub async fn handle(app: App, call: Call<ListTeams>) -> Result<Reply<Paged<TeamView>>, Error> {
    let input = call.input;
    let catalogue = app.catalogue().await?;
    let filter =
        TeamFilter { sport_id: input.sport_id.map(|id| id.0), search: input.search.map(|text| text.0) };
    let page = catalogue.list_teams(&filter, Paging { page: input.page.0, per_page: input.per_page.0 });
    let data = page.rows.iter().filter_map(|team| TeamView::of(team, &catalogue)).collect();
    Ok(Paged { data, meta: PageMeta::of(&page) }.into())
}
