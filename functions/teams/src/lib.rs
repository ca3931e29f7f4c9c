//! Teams, and a user's favourites.

mod list_teams;
mod save_other_teams;
mod save_primary_team;

use touchline::{App, Router};

#[must_use]
pub fn router(app: App) -> Router {
    Router::new(app).on(list_teams::handle).on(save_primary_team::handle).on(save_other_teams::handle)
}

#[cfg(test)]
mod tests {
    use touchline_testing::TestApp;

    /// The sample league, imported, and somebody logged in.
    pub(crate) async fn app() -> (TestApp, String) {
        let app = TestApp::serving(&[login::router, profile::router, crate::router]).start().await;
        let sample = serde_json::from_str(include_str!("../../../events/feed/touchline.json")).unwrap();
        feed::handle(app.app.clone(), sample).await.unwrap();
        let token = app.token("+447700900123").await;
        (app, token)
    }
}
