//! What the console learns of each request: who sent it, what it did when, and what it costs.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::match_play::with_a_match;

#[test]
fn the_console_gets_the_timeline_and_the_price_of_a_request() {
    let (_folder, running, token) = with_a_match();
    let mut socket = TcpStream::connect(running.api.trim_start_matches("http://")).unwrap();
    write!(socket, "GET /_console/traffic HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut lines = BufReader::new(socket).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == ": watching"));
    let mut exchanges =
        lines.filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());

    let forecast = json!({ "event_id": 9, "prediction": "home" });
    assert_eq!(running.post("/api/auth/predictions", &token, &forecast).0, 201);
    running.get("/api/auth/me", "wrong");
    let predicted = exchanges.next().unwrap();
    assert_eq!(predicted["path"], "/api/auth/predictions");
    assert_eq!(predicted["user_id"], 1);
    let spans = predicted["spans"].as_array().unwrap();
    let number = |span: &Value, field: &str| span[field].as_f64().unwrap();
    let of_kind = |kind: &str| spans.iter().filter(|span| span["kind"] == kind).collect::<Vec<_>>();
    let [gateway] = of_kind("gateway")[..] else { panic!("{spans:?}") };
    assert_eq!(gateway["start_us"], 0);
    let [function] = of_kind("function")[..] else { panic!("{spans:?}") };
    assert_eq!(function["name"], "predictions");
    assert!(number(function, "us") > 0.0 && number(function, "us") <= number(gateway, "us"));
    // The prediction is counted by `tally`, which reads the stream.
    assert!(of_kind("stream").iter().any(|span| span["name"] == "tally"), "{spans:?}");

    let calls = of_kind("store");
    let ends = |span: &Value| number(span, "start_us") + number(span, "us");
    // The delivery begins with the write, which is the last call of the function. The delivery may end first.
    let delivered = of_kind("stream").iter().map(|span| number(span, "start_us")).fold(f64::MAX, f64::min);
    let own: Vec<_> = calls.iter().filter(|call| number(call, "start_us") < delivered).collect();
    assert_eq!(
        predicted["cost"]["calls"].as_f64(),
        u32::try_from(own.len()).ok().map(f64::from),
        "{calls:?}"
    );
    for (field, cost) in [("rcu", "rcu"), ("wcu", "wcu")] {
        let units: f64 = own.iter().map(|call| number(call, field)).sum();
        assert_eq!(json!(units), predicted["cost"][cost], "{field}: {own:?}");
    }
    assert!(own.iter().any(|call| call["name"] == "UpdateItem touchline-predictions"), "{own:?}");
    assert!(calls.len() > own.len(), "the deliveries have calls, too");
    assert!(spans.iter().all(|span| ends(span) <= ends(gateway)), "{spans:?}");
    // At least a request to the API, an invocation and a written unit.
    let usd = predicted["usd"].as_f64().unwrap();
    assert!((1.11e-6 + 0.2e-6 + 0.7e-6..1e-3).contains(&usd), "{usd}");

    let rejected = exchanges.next().unwrap();
    assert_eq!((&rejected["status"], &rejected["user_id"]), (&json!(401), &Value::Null));
    assert_eq!(rejected["id"].as_u64().unwrap(), predicted["id"].as_u64().unwrap() + 1);
}
