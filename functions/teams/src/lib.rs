//! The lists of teams and sports, and the caller's favourite teams.

mod list_sports;
mod list_teams;
mod save_other_teams;
mod save_primary_team;

use touchline::{App, Router};

#[must_use]
pub fn router(app: App) -> Router {
    Router::new(app)
        .on(list_teams::handle)
        .on(list_sports::handle)
        .on(save_primary_team::handle)
        .on(save_other_teams::handle)
}

#[cfg(test)]
mod testing {
    use touchline_testing::{TestApp, User};

    /// Starts an app with the sample league and the user alice.
    pub async fn alice() -> (TestApp, User) {
        let app = TestApp::serving(&[crate::router, profile::router]).start().await;
        let sample = serde_json::from_str(include_str!("../../../events/feed/touchline.json")).unwrap();
        app.invoke(feed::handle, sample).await;
        let alice = app.user("alice").await;
        (app, alice)
    }
}
