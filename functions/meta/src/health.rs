use touchline::api::Data;
use touchline::api::meta::{Health, Healthy};
use touchline::{App, Call, Error, Reply};

/// Asks the store as well: a service that cannot reach its data is not healthy.
pub async fn handle(app: App, _: Call<Health>) -> Result<Reply<Data<Healthy>>, Error> {
    app.store.ping().await?;
    Ok(Data { data: Healthy { status: "ok", version: env!("CARGO_PKG_VERSION") } }.into())
}
