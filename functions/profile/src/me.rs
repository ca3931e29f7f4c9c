use touchline::api::Data;
use touchline::api::profile::{Me, WholeUser};
use touchline::storage::Reads;
use touchline::{App, Call, Error, Reply};

use crate::NO_RECORD;

pub async fn handle(app: App, call: Call<Me>) -> Result<Reply<Data<WholeUser>>, Error> {
    let user = app.store.user(call.caller.user, Reads::Consistent).await?.ok_or(NO_RECORD)?;
    // Only who has teams needs the catalog.
    let catalog = if user.primary_team.is_some() || !user.other_teams.is_empty() {
        Some(app.catalog().await?)
    } else {
        None
    };
    Ok(Data { data: WholeUser::of(user, catalog.as_deref()) }.into())
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use serde_json::json;
    use touchline_testing::TestApp;

    const PATH: &str = "/api/auth/me";
    const PHONE: &str = "+447700900123";

    async fn app() -> TestApp {
        TestApp::serving(&[login::router, crate::router]).start().await
    }

    #[tokio::test]
    async fn the_whole_record() {
        let app = app().await;
        let login = app.log_in(PHONE).await;
        let token = login["token"].as_str().unwrap();
        let info = json!({ "name": "Ada", "email": "ada@example.org", "date_of_birth": "2000-02-29" });
        let _ = app.post_as(token, "/api/auth/update-user-info", info).await.expect(200);
        let body = app.get_as(token, PATH).await.expect(200);
        assert_eq!(
            body,
            json!({ "data": {
                "id": 1,
                "phone": PHONE,
                "username": login["user"]["username"],
                "created_at": "2026-11-15T12:00:00Z",
                "name": "Ada",
                "email": "ada@example.org",
                "date_of_birth": "2000-02-29",
                "primary_team": null,
                "other_teams": [],
            }})
        );
    }

    #[tokio::test]
    async fn a_token_lasts_thirty_days_from_its_last_use() {
        let app = app().await;
        let token = app.token(PHONE).await;
        // Used every 29 days it never ends.
        for _ in 0..3 {
            app.clock.advance(TimeDelta::days(29));
            let _ = app.get_as(&token, PATH).await.expect(200);
        }
        app.clock.advance(TimeDelta::days(30) - TimeDelta::seconds(1));
        let _ = app.get_as(&token, PATH).await.expect(200);
        app.clock.advance(TimeDelta::days(30));
        app.get_as(&token, PATH).await.expect_error(401, "token_expired");
    }

    #[tokio::test]
    async fn renewing_costs_a_write_at_most_once_a_day() {
        let app = app().await;
        let token = app.token(PHONE).await;
        let written = |answer: touchline_testing::Answer| {
            answer.headers["x-touchline-cost"].to_str().unwrap().ends_with("wcu=1")
        };
        assert!(!written(app.get_as(&token, PATH).await));
        app.clock.advance(TimeDelta::days(1));
        assert!(written(app.get_as(&token, PATH).await));
        assert!(!written(app.get_as(&token, PATH).await));
    }
}
