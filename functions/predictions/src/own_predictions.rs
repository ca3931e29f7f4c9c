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
    let (catalog, (rows, more)) = try_join(app.catalog(), rows).await?;

    let ids: Vec<u32> = rows.iter().map(|row| row.event_id).collect();
    let counts = app.store.prediction_counts(&ids).await?;
    let count = |id| counts.get(&id).copied().unwrap_or(0);
    let next =
        rows.last().filter(|_| more).map(|row| Cursor::new(user, BeforePrediction(row.created.clone())));
    let data = rows.iter().filter_map(|row| OwnPrediction::of(row, &catalog, count(row.event_id))).collect();
    Ok(CursorPage { data, meta: NextPage { next_cursor: next.map(|cursor| cursor.to_string()) } }.into())
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use serde_json::{Value, json};

    use crate::testing::{PATH, app, count, import, predicted, set_event};

    #[tokio::test]
    async fn newest_first_with_the_match_and_its_points() {
        let (app, token) = app().await;
        let _ = app.post_as(&token, PATH, json!({ "event_id": 1, "prediction": "home" })).await.expect(201);
        app.clock.advance(TimeDelta::minutes(1));
        let _ = app.post_as(&token, PATH, json!({ "event_id": 4, "prediction": "draw" })).await.expect(201);
        app.clock.advance(TimeDelta::minutes(1));
        // A change of the first does not make it newer.
        let _ = app.post_as(&token, PATH, json!({ "event_id": 1, "prediction": "home" })).await.expect(200);
        predicted(&app, 2, 1, "away").await;
        count(&app, 1).await;
        let list = app.get_as(&token, PATH).await.expect(200);
        let events: Vec<_> =
            list["data"].as_array().unwrap().iter().map(|row| row["event_id"].clone()).collect();
        assert_eq!(events, [4, 1]);
        assert_eq!(list["meta"], json!({ "next_cursor": null }));
        let first = &list["data"][1];
        assert_eq!(
            (&first["points_earned"], &first["event"]["predictions_count"]),
            (&Value::Null, &json!(2))
        );
        assert_eq!(first["event"]["home_team"]["name"], "Northgate Rovers");

        set_event(&app, json!({ "status": "finished", "home_score": 1, "away_score": 0 })).await;
        let deadline = app.app.clock.now() + TimeDelta::minutes(5);
        points::handle(app.app.clone(), json!({ "event_id": 1 }), deadline).await.unwrap();
        let list = app.get_as(&token, PATH).await.expect(200);
        assert_eq!(list["data"][1]["points_earned"], 2);
    }

    #[tokio::test]
    async fn pages_hold_every_row_once() {
        let (app, token) = app().await;
        let events: Vec<Value> = (100..130)
            .map(|id| {
                json!({
                    "id": id, "tournament_id": 1, "home_team_id": 1, "away_team_id": 2,
                    "start_time": "2026-11-20T15:00:00Z", "status": "scheduled",
                })
            })
            .collect();
        import(&app, json!({ "format": "touchline", "events": events })).await;
        for event in 100..130 {
            // Several in the same millisecond: the order is still one order.
            if event % 4 == 0 {
                app.clock.advance(TimeDelta::milliseconds(1));
            }
            let body = json!({ "event_id": event, "prediction": "home" });
            let _ = app.post_as(&token, PATH, body).await.expect(201);
        }
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = app.get_as(&token, &format!("{PATH}?per_page=7{cursor}")).await.expect(200);
            seen.extend(page["data"].as_array().unwrap().iter().map(|row| row["event_id"].as_u64().unwrap()));
            match page["meta"]["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        let mut sorted = seen.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (100..130).collect::<Vec<u64>>());
        let groups = |events: &[u64]| events.iter().map(|event| event / 4).collect::<Vec<_>>();
        assert!(groups(&seen).is_sorted_by(|a, b| a >= b), "newest first: {seen:?}");
    }

    #[tokio::test]
    async fn a_cursor_of_another_list_is_refused() {
        let (app, token) = app().await;
        for cursor in ["x", "e1.1", "o2.1763208000000-00000000", "o1.x"] {
            let answer = app.get_as(&token, &format!("{PATH}?cursor={cursor}")).await;
            answer.expect_error(422, "validation_error");
            assert!(answer.body["errors"]["cursor"][0].is_string());
        }
        let empty = app.get_as(&token, &format!("{PATH}?cursor=o1.1763208000000-00000000")).await.expect(200);
        assert_eq!(empty["data"], json!([]));
    }
}
