use futures_util::future::try_join;
use touchline::api::predictions::{BeforePrediction, OwnPrediction, OwnPredictions};
use touchline::api::{Cursor, CursorPage, NextPage};
use touchline::{App, Call, Error, Reply};

pub async fn handle(app: App, call: Call<OwnPredictions>) -> Result<Reply<CursorPage<OwnPrediction>>, Error> {
    let (input, user) = (call.input, call.caller.user);
    let before = input.cursor.map(|cursor| cursor.position_in(user)).transpose()?.map(|before| before.0);
    let rows = async {
        app.store.own_predictions(user, before.as_ref(), input.per_page.0).await.map_err(Error::from)
    };
    // Begins to load the catalog. Only the rows tell which matches are needed, and most are recent.
    let (_, (rows, more)) = try_join(app.catalog_with(&[]), rows).await?;

    let ids: Vec<u32> = rows.iter().map(|row| row.event_id).collect();
    let counts = async { app.store.prediction_counts(&ids).await.map_err(Error::from) };
    let (catalog, counts) = try_join(app.catalog_with(&ids), counts).await?;
    let count = |id| counts.get(&id).copied().unwrap_or(0);
    let next =
        rows.last().filter(|_| more).map(|row| Cursor::new(user, BeforePrediction(row.created.clone())));
    let data = rows.iter().filter_map(|row| OwnPrediction::of(row, &catalog, count(row.event_id))).collect();
    Ok(CursorPage { data, meta: NextPage { next_cursor: next.map(|cursor| cursor.to_string()) } }.into())
}

#[cfg(test)]
mod tests;
