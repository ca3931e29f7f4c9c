use touchline::api::matches::{EventView, ListEvents};
use touchline::api::{PageMeta, Paged};
use touchline::domain::catalog::{EventFilter, Paging};
use touchline::{App, Call, Error, Reply};

pub async fn handle(app: App, call: Call<ListEvents>) -> Result<Reply<Paged<EventView>>, Error> {
    let input = call.input;
    let catalogue = app.catalogue().await?;
    let filter = EventFilter {
        tournament_id: input.tournament_id.map(|id| id.0),
        team_id: input.team_id.map(|id| id.0),
        date: input.date,
        status: input.status,
    };
    let paging = Paging { page: input.page.0, per_page: input.per_page.0 };
    let page = catalogue.list_events(&filter, paging);
    let ids: Vec<u32> = page.rows.iter().map(|event| event.id).collect();
    let counts = app.store.prediction_counts(&ids).await?;
    let count = |id| counts.get(&id).copied().unwrap_or(0);
    let data =
        page.rows.iter().filter_map(|event| EventView::of(event, &catalogue, count(event.id))).collect();
    Ok(Paged { data, meta: PageMeta::of(&page) }.into())
}
