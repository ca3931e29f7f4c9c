use std::collections::BTreeSet;

use chrono::TimeDelta;
use serde_json::json;
use touchline::api::Cursor;
use touchline::api::predictions::{AfterPredictor, BeforePrediction};
use touchline::domain::UserId;
use touchline::domain::prediction::Stamp;

use crate::testing::{app, app_with, change_match, counted, fan, user_ids};

#[tokio::test]
async fn a_list_has_the_totals_and_every_prediction_with_its_user() {
    let (app, alice) = app().await;
    alice.updates_profile().name("Ada").username("ada").await.expect(200);
    let created = alice.predicts(1).home().score(2, 1).confidence(75).await.expect_data(201);
    fan(&app, 2).await.predicts(1).draw().await.expect(201);
    counted(&app, 1).await;
    let list = alice.lists_event_predictions(1).await.expect(200);
    assert_eq!(
        list["meta"],
        json!({
            "total_predictions": 2, "prediction_distribution": { "home": 1, "draw": 1, "away": 0 },
            "average_confidence": 62.5, "next_cursor": null,
        })
    );
    let own = list["data"].as_array().unwrap().iter().find(|row| row["user"]["id"] == 1).unwrap();
    assert_eq!(
        own,
        &json!({
            "id": created["id"], "user": { "id": 1, "username": "ada", "name": "Ada" },
            "prediction": "home", "score_prediction": { "home": 2, "away": 1 }, "confidence": 75,
            "points_earned": null, "created_at": "2026-11-15T12:00:00Z",
        })
    );
}

#[tokio::test]
async fn filters_apply_to_the_rows_and_not_to_the_totals() {
    let (app, alice) = app().await;
    for (user, pick) in [(2, "home"), (3, "draw"), (4, "home"), (5, "away")] {
        fan(&app, user).await.predicts(1).pick(pick).await.expect(201);
    }
    counted(&app, 1).await;
    let list = || alice.lists_event_predictions(1);
    for (request, expected) in [
        (list().pick("home"), vec![2, 4]),
        (list().pick("away"), vec![5]),
        (list().user(3), vec![3]),
        (list().user(3).pick("home"), vec![]),
        (list().user(4).pick("home"), vec![4]),
        (list().user(99), vec![]),
        (list().user(4_000_000_000), vec![]),
    ] {
        let list = request.await.expect(200);
        let found: BTreeSet<_> = user_ids(&list).into_iter().collect();
        assert_eq!(found, expected.into_iter().collect());
        assert_eq!(list["meta"]["prediction_distribution"], json!({ "home": 2, "draw": 1, "away": 1 }));
        assert_eq!(list["meta"]["total_predictions"], 4);
    }
}

#[tokio::test]
async fn the_pages_together_hold_every_prediction_once_for_any_page_size() {
    let (app, alice) = app().await;
    for user in 2..=90 {
        let pick = ["home", "draw", "away"][user as usize % 3];
        fan(&app, user).await.predicts(1).pick(pick).await.expect(201);
    }
    counted(&app, 1).await;
    for (pick, expected) in [(None, 89), (Some("draw"), 29)] {
        for per_page in [1, 7, 50, 89, 100] {
            if per_page == 1 && pick.is_none() {
                continue;
            }
            let mut request = alice.lists_event_predictions(1).per_page(per_page);
            if let Some(pick) = pick {
                request = request.pick(pick);
            }
            let (mut seen, mut next) = (Vec::new(), request.clone());
            loop {
                let page = next.await.expect(200);
                assert!(user_ids(&page).len() <= per_page as usize);
                seen.extend(user_ids(&page));
                match page["meta"]["next_cursor"].as_str() {
                    Some(cursor) => next = request.clone().cursor(cursor),
                    None => break,
                }
            }
            let distinct: BTreeSet<_> = seen.iter().collect();
            assert_eq!((seen.len(), distinct.len()), (expected, expected), "{pick:?} by {per_page}");
        }
    }
}

#[tokio::test]
async fn a_deployment_may_hide_the_picks_of_others_until_kick_off() {
    let (app, alice) = app_with(&[("PICKS_VISIBLE", "after_start")]).await;
    alice.predicts(1).home().await.expect(201);
    fan(&app, 2).await.predicts(1).draw().await.expect(201);
    // However many predictions there are, totals before and after one of them would tell its pick.
    for user in 3..8 {
        fan(&app, user).await.predicts(1).draw().await.expect(201);
    }
    counted(&app, 1).await;
    let list = || alice.lists_event_predictions(1);
    for (request, expected) in [
        (list(), vec![1]),
        (list().user(2), vec![]),
        (list().user(1), vec![1]),
        (list().pick("draw"), vec![]),
    ] {
        let list = request.await.expect(200);
        assert_eq!(user_ids(&list), expected);
        let hidden = json!({ "home": 0, "draw": 0, "away": 0 });
        let meta = &list["meta"];
        assert_eq!((&meta["total_predictions"], &meta["prediction_distribution"]), (&json!(7), &hidden));
        assert_eq!(meta["average_confidence"], 0.0);
    }
    change_match(&app, json!({ "status": "postponed" })).await;
    app.clock.advance(TimeDelta::hours(3));
    assert_eq!(user_ids(&list().await.expect(200)), [1], "a postponed match has not kicked off");
    change_match(&app, json!({ "status": "scheduled" })).await;
    let shown = list().await.expect(200);
    assert_eq!(user_ids(&shown).len(), 7);
    assert_eq!(shown["meta"]["prediction_distribution"], json!({ "home": 1, "draw": 6, "away": 0 }));
    assert_eq!(user_ids(&list().user(2).await.expect(200)), [2]);
}

#[tokio::test]
async fn suspended_users_are_left_out_and_still_count() {
    let (app, alice) = app().await;
    alice.predicts(1).home().await.expect(201);
    fan(&app, 2).await.predicts(1).draw().await.expect(201);
    counted(&app, 1).await;
    app.store.suspend_user(UserId(2), app.clock.now()).await.unwrap();
    let list = alice.lists_event_predictions(1).await.expect(200);
    assert_eq!((user_ids(&list), &list["meta"]["total_predictions"]), (vec![1], &json!(2)));
    app.store.restore_user(UserId(2)).await.unwrap();
    assert_eq!(user_ids(&alice.lists_event_predictions(1).await.expect(200)).len(), 2);
}

#[tokio::test]
async fn invalid_filters_and_cursors_are_rejected() {
    let (_, alice) = app().await;
    let of_another_match = Cursor::new(2, AfterPredictor(UserId(7))).to_string();
    let position = BeforePrediction(Stamp::parse("1763208000000-00000000").unwrap());
    let of_own_predictions = Cursor::new(UserId(1), position).to_string();
    for (name, value) in [
        ("user_id", "x"),
        ("user_id", "1.5"),
        ("user_id", "-1"),
        ("prediction", "win"),
        ("per_page", "0"),
        ("per_page", "101"),
        ("cursor", "x"),
        ("cursor", ""),
        ("cursor", &of_another_match),
        ("cursor", &of_own_predictions),
    ] {
        alice.lists_event_predictions(1).query(name, value).await.expect_invalid(&[name]);
    }
}

#[tokio::test]
async fn unknown_matches_are_404() {
    let (_, alice) = app().await;
    for event in ["404", "x", "0", "-1"] {
        let path = format!("/api/auth/events/{event}/predictions");
        alice.get(&path).await.expect_error(404, "event_not_found");
    }
}
