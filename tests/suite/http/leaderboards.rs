use serde_json::{Value, json};
use touchline_testing::User;

use super::predictions::{finish, new_match};
use super::recount::recount;
use crate::target::{HttpApi, eventually};

/// Returns the ranks and usernames of a tournament's leaderboard, after it was built.
async fn ranks(app: &HttpApi, user: &User<HttpApi>, tournament: u32) -> Value {
    app.invoke("standings", &json!({})).await;
    let board = user.views_leaderboard().query("scope", "tournament").query("id", tournament).await;
    let rows = board.expect_data(200);
    let row = |row: &Value| json!([row["rank"], row["user"]["username"], row["points"]]);
    rows.as_array().unwrap().iter().map(row).collect()
}

#[tokio::test]
async fn a_leaderboard_ranks_users_after_a_match_and_again_after_a_correction() {
    let app = HttpApi::under_test();
    let (alice, bob) = (app.user("alice").await, app.user("bob").await);
    let event = new_match(&app).await;
    let id = u32::try_from(event["id"].as_u64().unwrap()).unwrap();
    alice.predicts(id).home().score(2, 1).await.expect(201);
    bob.predicts(id).draw().score(1, 1).await.expect(201);
    for ((home, away), first, second) in [((2, 1), &alice, &bob), ((1, 1), &bob, &alice)] {
        finish(&app, &event, home, away).await;
        // The points of the result are not awarded yet, so this changes nothing.
        app.invoke("standings", &json!({})).await;
        app.invoke("points", &json!({ "event_id": id })).await;
        // ministack's streams lack the changes that `points` makes. A recount finds them.
        for user in [&alice, &bob] {
            recount(&app, &json!({ "user": user.id })).await;
        }
        let expected = json!([[1, first.username, 4], [2, second.username, 0]]);
        eventually(async || ranks(&app, &alice, id).await, |rows| *rows == expected).await;
        let around =
            first.views_leaderboard().query("scope", "tournament").query("id", id).query("around", "me");
        let around = around.await.expect(200);
        assert_eq!((&around["meta"]["me"]["rank"], &around["meta"]["total"]), (&json!(1), &json!(2)));
        assert_eq!(around["data"].as_array().unwrap().len(), 2);
        let profile = second.views_user(first.id).await.expect_data(200);
        assert!(profile["ranks"]["all"].is_u64(), "{profile}");
    }
}
