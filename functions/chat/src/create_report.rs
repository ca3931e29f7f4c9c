use lambda_http::http::StatusCode;
use touchline::api::reports::{CreateReport, ReportView};
use touchline::api::{Invalid, Message};
use touchline::domain::UserId;
use touchline::domain::limit::{DailyAction, action_id};
use touchline::domain::report::{Report, ReportId, Subject};
use touchline::storage::Reads;
use touchline::{App, Call, Error, Reply};

use crate::{day_limit, lookup};

/// Stores a report for the operators. The subject must exist, except for messages, which only the homeserver has.
pub async fn handle(app: App, call: Call<CreateReport>) -> Result<Reply<Message<ReportView>>, Error> {
    let (input, caller) = (call.input, call.caller.user);
    let subject = Subject::of(input.user_id, input.room_id, input.message_id);
    let one = "Send one of user_id, room_id and message_id. Only a message can come with its room_id.";
    let subject = subject.ok_or_else(|| Invalid::field("user_id", one))?;
    require_subject(&app, &subject, caller).await?;

    let id = ReportId { reporter: caller, digest: subject.digest() };
    // A retry and a change of the same report on the same day count once.
    let pending = day_limit::count(&app, caller, DailyAction::SendReport, action_id(&[&id.digest])).await?;
    let text = input.text.as_ref().and_then(|text| text.as_str()).map(str::to_owned);
    let report = Report::new(caller, &subject, input.reason, text, app.clock.now());
    let saved = app.store.save_report(&id, &report).await.map_err(Error::from);
    let saved = pending.end(&app, saved).await?;

    let data = ReportView { id: id.to_string(), reason: input.reason, created_at: saved.opened_at.into() };
    let message = "Thank you for your report. We will look at it.".to_owned();
    let body = Message { message, data };
    Ok(Reply::new(if saved.is_new { StatusCode::CREATED } else { StatusCode::OK }, body))
}

async fn require_subject(app: &App, subject: &Subject, caller: UserId) -> Result<(), Error> {
    match subject {
        Subject::User(user) if *user == caller => {
            Err(Invalid::field("user_id", "You cannot report yourself.").into())
        }
        Subject::User(user) => {
            let user = app.store.user(*user, Reads::Eventual).await?;
            user.map(|_| ()).ok_or(Error::UserNotFound)
        }
        Subject::Room(room) | Subject::Message(_, Some(room)) => lookup::room(app, room).await.map(|_| ()),
        Subject::Message(_, None) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use touchline::domain::report::ReportStatus;
    use touchline_testing::{Fault, TestApp, concurrently};

    use crate::testing::{app, builder};

    async fn open_reports(app: &TestApp) -> Vec<(u32, String, Option<String>)> {
        let page = app.store.reports_page(ReportStatus::Open, None, 100, app.clock.now()).await.unwrap();
        let report = |(_, report): (_, touchline::domain::report::Report)| {
            (report.reporter_id.0, report.reason.as_str().to_owned(), report.text)
        };
        page.reports.into_iter().map(report).collect()
    }

    #[tokio::test]
    async fn users_rooms_and_messages_can_be_reported() {
        let (app, [alice, bob, _]) = app().await;
        let room = bob.creates_room("Den").await.room_id();
        let report = alice.reports("spam").user(bob.id).field("text", "One\ntwo").await.expect(201);
        assert_eq!(report["message"], "Thank you for your report. We will look at it.");
        assert_eq!(report["data"]["created_at"], "2026-11-15T12:00:00Z");
        alice.reports("abuse").room(&room).await.expect(201);
        alice.reports("illegal").message("$one").await.expect(201);
        alice.reports("other").message("$two").room(&room).await.expect(201);
        let reports = open_reports(&app).await;
        assert_eq!(reports.len(), 4);
        assert!(reports.contains(&(alice.id, "spam".into(), Some("One\ntwo".into()))), "{reports:?}");
    }

    #[tokio::test]
    async fn a_second_report_replaces_the_first() {
        let (app, [alice, bob, carol]) = app().await;
        let first = alice.reports("spam").user(bob.id).field("text", "Links").await.expect_data(201);
        app.clock.advance(TimeDelta::minutes(5));
        let second = alice.reports("abuse").user(bob.id).await.expect_data(200);
        assert_eq!((&second["id"], &second["created_at"]), (&first["id"], &first["created_at"]));
        assert_eq!(open_reports(&app).await, [(alice.id, "abuse".into(), None)]);
        carol.reports("spam").user(bob.id).await.expect(201);
        assert_eq!(open_reports(&app).await.len(), 2, "another user's report is another report");
    }

    #[tokio::test]
    async fn a_report_must_have_one_known_subject_and_a_known_reason() {
        let (app, [alice, bob, _]) = app().await;
        let report = || alice.reports("spam");
        for invalid in [
            report(),
            report().user(bob.id).room("!match1:touchline.local"),
            report().user(bob.id).message("$m"),
            report().user(alice.id),
        ] {
            invalid.await.expect_invalid(&["user_id"]);
        }
        report().message("m").await.expect_invalid(&["message_id"]);
        report().room("m").await.expect_invalid(&["room_id"]);
        report().user(bob.id).field("text", "x".repeat(1_001)).await.expect_invalid(&["text"]);
        alice.reports("rude").user(bob.id).await.expect_invalid(&["reason"]);
        report().user(999).await.expect_error(404, "user_not_found");
        report().room("!unknown:touchline.local").await.expect_error(404, "room_not_found");
        report().message("$m").room("!unknown:touchline.local").await.expect_error(404, "room_not_found");
        assert_eq!(open_reports(&app).await, []);
    }

    #[tokio::test]
    async fn reports_are_limited_per_day() {
        let app = builder().variable("REPORTS_PER_DAY", "2").start().await;
        let [alice, bob] = [app.user("alice").await, app.user("bob").await];
        alice.reports("spam").message("$1").await.expect(201);
        alice.reports("spam").message("$2").await.expect(201);
        let limited = alice.reports("spam").message("$3").await;
        limited.expect_error(429, "rate_limited");
        assert_eq!(limited.message(), "You can send 2 reports a day. Send the next one after midnight UTC.");
        // A change of an earlier report does not count, nor do the reports of others.
        alice.reports("abuse").message("$2").await.expect(200);
        bob.reports("spam").message("$3").await.expect(201);
        app.clock.advance(TimeDelta::days(1));
        alice.reports("spam").message("$3").await.expect(201);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn concurrent_reports_about_the_same_subject_are_one() {
        let (app, [alice, bob, _]) = app().await;
        let responses = concurrently(10, |_| alice.reports("spam").user(bob.id)).await;
        let created = responses.iter().filter(|response| response.status == 201).count();
        assert!(created <= 1, "{responses:?}");
        assert_eq!(open_reports(&app).await.len(), 1);
    }

    #[tokio::test]
    async fn a_lost_response_or_a_crash_leaves_one_report() {
        for fault in [Fault::LoseResponse, Fault::FailAfter, Fault::FailBefore] {
            for failing in 0..5 {
                let (app, [alice, bob, _]) = app().await;
                let mut calls = 0;
                app.faults.set(move |attempt| {
                    calls += u32::from(attempt.number == 1);
                    if calls == failing + 1 && attempt.number == 1 { fault } else { Fault::None }
                });
                let _ = alice.reports("spam").user(bob.id).await;
                app.faults.clear();
                let again = alice.reports("spam").user(bob.id).await.status.as_u16();
                assert!([200, 201].contains(&again), "{fault:?} {failing}: {again}");
                assert_eq!(open_reports(&app).await.len(), 1, "{fault:?} {failing}");
            }
        }
    }
}
