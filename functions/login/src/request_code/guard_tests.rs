//! The limits against SMS pumping.

use chrono::TimeDelta;
use touchline::domain::{CallingPrefix, Phone};
use touchline_testing::TestApp;

const PHONE: &str = "+447700900123";
const HOME: &str = "203.0.113.9";

/// The price of a message to an expensive country, in cents.
const EXPENSIVE: usize = 30;

/// Calling codes of countries in which pumping is common.
const EXPENSIVE_COUNTRIES: [&str; 10] =
    ["+234", "+62", "+880", "+92", "+998", "+992", "+993", "+243", "+963", "+1876"];

/// Starts an app as in production, with all countries allowed.
async fn production(variables: &[(&str, &str)]) -> TestApp {
    let app = TestApp::serving(&[crate::router]);
    let app = app.variable("ENVIRONMENT", "production").variable("PHONE_PREFIXES", "*");
    variables.iter().fold(app, |app, (name, value)| app.variable(name, value)).start().await
}

/// Delivers the changes of the tables to `tally`.
#[derive(Default)]
struct Streams {
    /// The last delivered change of each table.
    delivered: [Option<String>; 2],
}

impl Streams {
    async fn deliver(&mut self, app: &TestApp) {
        let tables = [&app.config.tables.users, &app.config.tables.sms_logs];
        for (table, delivered) in tables.into_iter().zip(&mut self.delivered) {
            let event = app.changes_after(table, delivered.as_deref()).await;
            let last = event["Records"].as_array().and_then(|records| records.last());
            if let Some(last) = last.and_then(|last| last["dynamodb"]["SequenceNumber"].as_str()) {
                *delivered = Some(last.to_owned());
                app.invoke(tally::handle, event).await;
            }
        }
        // The counters in memory are too old now.
        app.clock.advance(TimeDelta::seconds(5));
    }
}

/// Logs in with a number and an address.
async fn log_in(app: &TestApp, phone: &str, address: &str) {
    let caller = app.anonymous();
    caller.requests_code(phone).from_address(address).await.expect(200);
    caller.verifies_code(phone, &app.sns.last_code(phone)).from_address(address).await.expect(200);
}

/// Requests codes for different numbers of expensive countries, each from a different address, 150 in a second. Delivers the
/// changes every two seconds. Returns what the messages cost, in cents.
async fn attack(app: &TestApp, requests: usize) -> usize {
    let mut streams = Streams::default();
    let sent_before = app.sns.messages().len();
    for n in 0..requests {
        let country = EXPENSIVE_COUNTRIES[n % EXPENSIVE_COUNTRIES.len()];
        let address = format!("{}.{}.{}.{}", 11 + n % 80, n / 65_536 % 256, n / 256 % 256, n % 256);
        let request = app.anonymous().requests_code(&format!("{country}{:07}", 1_000_000 + n));
        let response = request.from_address(&address).await;
        if response.status != 200 {
            response.expect_error(429, "rate_limited");
        }
        app.clock.advance(TimeDelta::microseconds(6_667));
        if n % 300 == 299 {
            streams.deliver(app).await;
            app.clock.advance(-TimeDelta::seconds(5));
        }
    }
    (app.sns.messages().len() - sent_before) * EXPENSIVE
}

#[tokio::test]
async fn in_production_nothing_is_sent_until_an_operator_chooses_the_countries() {
    let app = TestApp::serving(&[crate::router]).variable("ENVIRONMENT", "production").start().await;
    let response = app.anonymous().requests_code(PHONE).await;
    response.expect_invalid(&["phone"]);
    assert_eq!(response.message(), "Codes cannot be sent to this country yet.");
    assert!(app.sns.messages().is_empty());
}

#[tokio::test]
async fn a_pumping_attack_costs_less_than_a_dollar() {
    let app = production(&[]).await;
    assert_eq!(attack(&app, 1_500).await, 3 * EXPENSIVE, "three trials a day");
}

#[tokio::test]
#[ignore = "takes minutes; run it after a change of the limits"]
async fn a_pumping_attack_of_100_000_requests_costs_less_than_a_dollar() {
    let app = production(&[]).await;
    assert_eq!(attack(&app, 100_000).await, 3 * EXPENSIVE, "three trials a day");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_requests_do_not_exceed_the_trials() {
    let app = production(&[]).await;
    let request = |n: usize| app.anonymous().requests_code(&format!("+234{:07}", 1_000_000 + n));
    let responses = touchline_testing::concurrently(30, request).await;
    assert_eq!(responses.iter().filter(|response| response.status == 200).count(), 3);
    assert_eq!(app.sns.messages().len(), 3);
}

#[tokio::test]
async fn a_country_opens_up_as_its_users_enter_their_codes() {
    let (app, mut streams) = (production(&[]).await, Streams::default());
    let number = |n: u32| format!("+2348000{n:05}");
    log_in(&app, &number(0), HOME).await;
    streams.deliver(&app).await;
    // One message is tolerated, five are earned, one is sent.
    for n in 1..6 {
        app.anonymous().requests_code(&number(n)).await.expect(200);
    }
    let response = app.anonymous().requests_code(&number(6)).await;
    response.expect_error(429, "rate_limited");
    assert_eq!(response.header("retry-after"), Some("3595"), "until one o'clock");
    let other = app.anonymous().requests_code("+628000000001").await;
    other.expect(200);
    for n in 1..6 {
        let code = app.sns.last_code(&number(n));
        app.anonymous().verifies_code(&number(n), &code).await.expect(200);
    }
    streams.deliver(&app).await;
    for n in 6..30 {
        app.anonymous().requests_code(&number(n)).await.expect(200);
    }
}

/// Redelivered records are not counted again.
#[tokio::test]
async fn redelivered_changes_count_once() {
    let app = production(&[("SMS_CREDIT", "1000")]).await;
    for n in 0..4 {
        log_in(&app, &format!("+2348000{n:05}"), HOME).await;
    }
    let prefix = CallingPrefix::of(&Phone::parse("+2348000000000").unwrap());
    let mut histories = Vec::new();
    for _ in 0..3 {
        Streams::default().deliver(&app).await;
        histories.push(app.store.sms_history(&prefix, app.clock.now()).await.unwrap());
    }
    assert_eq!(histories[0].sent_this_hour, 4);
    assert_eq!((histories[1], histories[2]), (histories[0], histories[0]));
}

#[tokio::test]
async fn an_attack_on_a_country_with_users_stops_and_known_networks_still_get_codes() {
    let (app, mut streams) = (production(&[("SMS_CREDIT", "+44=100")]).await, Streams::default());
    log_in(&app, PHONE, HOME).await;
    streams.deliver(&app).await;
    for n in 0..100_u32 {
        let request = app.anonymous().requests_code(&format!("+4477001{n:05}"));
        let _ = request.from_address(&format!("198.51.100.{n}")).await;
        app.clock.advance(TimeDelta::milliseconds(7));
        if n % 50 == 49 {
            streams.deliver(&app).await;
        }
    }
    assert_eq!(app.sns.messages().len(), 55, "50 are tolerated, 5 are earned");
    app.anonymous()
        .requests_code(PHONE)
        .from_address("198.51.100.200")
        .await
        .expect_error(429, "rate_limited");
    app.anonymous().requests_code(PHONE).from_address(HOME).await.expect(200);
    // After two hours, the messages of the attack no longer count.
    app.clock.advance(TimeDelta::hours(2));
    app.anonymous().requests_code(PHONE).from_address("198.51.100.200").await.expect(200);
}

#[tokio::test]
async fn a_country_has_a_cap_per_hour_also_for_known_networks() {
    let variables = [("SMS_CREDIT", "1000"), ("SMS_PER_PREFIX_PER_HOUR", "9,+44=3")];
    let (app, mut streams) = (production(&variables).await, Streams::default());
    log_in(&app, PHONE, HOME).await;
    for n in 0..2 {
        app.anonymous().requests_code(&format!("+4477001{n:05}")).await.expect(200);
    }
    streams.deliver(&app).await;
    let response = app.anonymous().requests_code(PHONE).from_address(HOME).await;
    response.expect_error(429, "rate_limited");
    assert_eq!(response.header("retry-after"), Some("3595"));
    assert_eq!(response.message(), "No codes can be sent to this country now. Try again in 60 minutes.");
    app.anonymous().requests_code("+4915112345678").await.expect(200);
    app.clock.advance(TimeDelta::hours(1));
    app.anonymous().requests_code(PHONE).await.expect(200);
}

#[tokio::test]
async fn nothing_is_sent_when_a_budget_is_used_up() {
    let day = [("DAILY_SMS_BUDGET_USD", "1"), ("MONTHLY_SMS_BUDGET_USD", "100")];
    let month = [("DAILY_SMS_BUDGET_USD", "100"), ("MONTHLY_SMS_BUDGET_USD", "1")];
    for (budgets, next_day) in [(day, 200), (month, 503)] {
        let mut variables = vec![("SMS_CREDIT", "1000"), ("SMS_PRICE_USD", "0.10,+44=0.25")];
        variables.extend(budgets);
        let (app, mut streams) = (production(&variables).await, Streams::default());
        for n in 0..4 {
            app.anonymous().requests_code(&format!("+4477001{n:05}")).await.expect(200);
        }
        streams.deliver(&app).await;
        for phone in [PHONE, "+4915112345678"] {
            let response = app.anonymous().requests_code(phone).await;
            response.expect_error(503, "sms_unavailable");
        }
        assert_eq!(app.sns.messages().len(), 4);
        app.clock.advance(TimeDelta::days(1));
        app.anonymous().requests_code(PHONE).await.expect(next_day);
        app.clock.advance(TimeDelta::days(20));
        app.anonymous().requests_code(PHONE).await.expect(200);
    }
}

#[tokio::test]
async fn messages_that_are_not_sent_use_up_no_trial_and_no_allowance() {
    let (app, mut streams) = (production(&[]).await, Streams::default());
    let number = |n: u32| format!("+2348000{n:05}");
    app.sns.reject();
    for n in 0..5 {
        app.anonymous().requests_code(&number(n)).await.expect_error(503, "sms_unavailable");
    }
    app.sns.accept();
    log_in(&app, &number(0), HOME).await;
    streams.deliver(&app).await;
    app.sns.reject();
    for n in 10..20 {
        app.anonymous().requests_code(&number(n)).await.expect_error(503, "sms_unavailable");
    }
    app.sns.accept();
    for n in 20..25 {
        app.anonymous().requests_code(&number(n)).await.expect(200);
    }
    app.anonymous().requests_code(&number(26)).await.expect_error(429, "rate_limited");
}
