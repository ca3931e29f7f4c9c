//! A function's `main`: everything between the process starting and the first event.

use lambda_http::service_fn;
pub use lambda_runtime::Error;

use crate::config::Config;
use crate::http::Router;
use crate::{App, telemetry};

/// Serves API Gateway events until Lambda ends the process.
///
/// The connection to the store is opened here, because Lambda gives full CPU during init: the first
/// request then finds it warm.
pub async fn serve(router: impl FnOnce(App) -> Router) -> Result<(), Error> {
    let config = Config::from_env()?;
    telemetry::start(config.log_level);
    let app = App::new(config);
    if let Err(error) = app.store.ping().await {
        tracing::warn!(%error, "the store did not answer during init");
    }
    let router = router(app);
    lambda_http::run(service_fn(|request| async { Ok::<_, Error>(router.respond(request).await) })).await
}
