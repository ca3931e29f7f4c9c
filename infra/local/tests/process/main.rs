//! The local stack as a process: it starts, keeps its data after a crash, stops, and reports why it cannot start.

mod crowd;
#[cfg(unix)]
mod kill;
mod match_play;
mod running;
mod timeline;
mod web_pages;

use std::process::Output;

use running::{Running, touchline};
use serde_json::{Value, json};

const PHONE: &str = "+447700900123";

#[test]
fn logins_and_pending_codes_survive_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let first = Running::start(folder.path());
    let code = first.request_code(PHONE);
    let (status, login) = first.post("/api/code/verify", "", &json!({ "phone": PHONE, "code": code }));
    assert_eq!(status, 200, "{login}");
    let token = login["data"]["token"].as_str().unwrap();
    let pending = first.request_code(PHONE);
    drop(first);

    let second = Running::start(folder.path());
    let (status, me) = second.get("/api/auth/me", token);
    assert_eq!((status, &me["data"]["phone"]), (200, &json!(PHONE)));
    let (status, again) = second.post("/api/code/verify", "", &json!({ "phone": PHONE, "code": pending }));
    assert_eq!(status, 200, "{again}");
    assert_eq!(again["data"]["user"], login["data"]["user"]);
}

#[cfg(target_os = "linux")]
#[test]
fn the_stack_uses_less_than_60_mb_of_memory() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start(folder.path());
    for _ in 0..5 {
        running.request_code(PHONE);
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", running.process.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kilobytes: u32 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kilobytes < 60_000, "{kilobytes} kB");
}

#[cfg(unix)]
#[test]
fn sigterm_stops_the_stack_without_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let mut running = Running::start(folder.path());
    running.signal("-TERM");
    assert!(running.process.wait().unwrap().success());
}

#[cfg(unix)]
#[test]
fn a_second_ctrl_c_stops_the_stack_while_a_request_is_stuck() {
    use std::io::{Read as _, Write as _};
    let folder = tempfile::tempdir().unwrap();
    let mut running = Running::start(folder.path());
    let mut stuck = std::net::TcpStream::connect(running.api.trim_start_matches("http://")).unwrap();
    stuck
        .write_all(b"POST /api/code/request HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{")
        .unwrap();
    // The response to a later request shows that the stuck request has arrived.
    running.get("/api/health", "");
    running.signal("-INT");
    // The first signal makes the stack stop listening. The second signal ends the process without waiting for
    // the stuck request.
    while std::net::TcpStream::connect(running.api.trim_start_matches("http://")).is_ok() {
        std::thread::yield_now();
    }
    running.signal("-INT");
    assert!(running.process.wait().unwrap().success());
    let _ = stuck.read(&mut [0; 1]);
}

#[test]
fn invalid_headers_do_not_crash_the_stack() {
    use std::io::{Read as _, Write as _};
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start(folder.path());
    for (header, status) in [("host: [", "400"), ("host: localhost\r\nx-forwarded-proto: 1 2", "200")] {
        let mut socket = std::net::TcpStream::connect(running.api.trim_start_matches("http://")).unwrap();
        write!(socket, "GET /api/health HTTP/1.1\r\n{header}\r\nconnection: close\r\n\r\n").unwrap();
        let mut response = String::new();
        socket.read_to_string(&mut response).unwrap();
        assert!(response.starts_with(&format!("HTTP/1.1 {status}")), "{header}: {response}");
    }
}

/// Checks that the process failed and printed one line that contains `word`.
fn assert_fails_with(output: &Output, word: &str) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{text}");
    assert_eq!(text.trim_end().lines().count(), 1, "{text}");
    assert!(text.contains(word), "{text}");
    assert!(output.stdout.is_empty());
}

#[test]
fn a_stack_that_cannot_start_prints_the_reason_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().port().to_string();
    let run = |arguments: &[&str]| touchline().current_dir(folder.path()).args(arguments).output().unwrap();

    assert_fails_with(&run(&["--port", &taken, "--dynamodb-port", "0"]), "--port");
    assert_fails_with(&run(&["--port", "0", "--dynamodb-port", &taken]), "--dynamodb-port");
    assert_fails_with(
        &run(&["--memory", "--port", "0", "--dynamodb-port", "0", "--parameter", "Unknown=1"]),
        "Unknown",
    );
    assert_fails_with(
        &run(&["--memory", "--port", "0", "--dynamodb-port", "0", "--parameter", "CodesPerDay=0"]),
        "CODES_PER_DAY",
    );
    assert_fails_with(
        &run(&["--memory", "--port", "0", "--dynamodb-port", "0", "--template", "missing.yaml"]),
        "missing.yaml",
    );
    std::fs::write(folder.path().join("broken.yaml"), "a: [").unwrap();
    assert_fails_with(
        &run(&["--memory", "--port", "0", "--dynamodb-port", "0", "--template", "broken.yaml"]),
        "YAML",
    );

    // First the data folder is a file. Then it is a folder that contains an invalid database.
    std::fs::write(folder.path().join("file"), "").unwrap();
    assert_fails_with(&run(&["--port", "0", "--dynamodb-port", "0", "--data", "file"]), "file");
    std::fs::create_dir(folder.path().join("odd")).unwrap();
    std::fs::write(folder.path().join("odd/dynamodb.sqlite"), "not a database, but long enough to be read")
        .unwrap();
    assert_fails_with(&run(&["--port", "0", "--dynamodb-port", "0", "--data", "odd"]), "odd");

    assert_fails_with(&run(&["--prot", "1"]), "--prot");
    assert_fails_with(&run(&["--port", "many"]), "--port");
    assert_fails_with(&run(&["--allow-origin", "*"]), "http://localhost:5173");
    assert_fails_with(&run(&["--allow-host", "my-laptop:3000"]), "my-laptop.local");
    assert_fails_with(&run(&["--port", "0", "--dynamodb", "http://127.0.0.1:1"]), "http://127.0.0.1:1");
}

#[test]
fn two_stacks_cannot_share_a_data_folder() {
    let folder = tempfile::tempdir().unwrap();
    let _running = Running::start(folder.path());
    let second = touchline()
        .args(["--port", "0", "--dynamodb-port", "0", "--data"])
        .arg(folder.path())
        .output()
        .unwrap();
    assert_fails_with(&second, "in use");
}

#[test]
fn the_invoke_api_responds_like_lambda() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start(folder.path());
    let invoke = |name: &str, kind: &str, body: &str| {
        let response = running
            .client
            .post(format!("{}/2015-03-31/functions/{name}/invocations", running.api))
            .header("x-amz-invocation-type", kind)
            .body(body.to_owned())
            .send()
            .unwrap();
        let headers = response.headers().clone();
        (response.status().as_u16(), headers, response.text().unwrap())
    };
    let sample = include_str!("../../../../events/login/code-request.json");
    for name in ["login", "login:live", "arn:aws:lambda:eu-west-1:000000000000:function:login"] {
        let (status, headers, body) = invoke(name, "RequestResponse", sample);
        let payload: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((status, payload["statusCode"].as_u64()), (200, Some(200)), "{body}");
        assert!(!headers.contains_key("x-amz-function-error"));
    }
    assert_eq!(invoke("login", "Event", sample).0, 202);
    assert_eq!(invoke("login", "DryRun", sample).0, 204);

    let (status, headers, body) = invoke("unknown", "RequestResponse", "{}");
    assert_eq!((status, headers["x-amzn-errortype"].to_str().unwrap()), (404, "ResourceNotFoundException"));
    assert!(body.contains("function:unknown"), "{body}");
    let (status, headers, _) = invoke("login", "RequestResponse", "{");
    assert_eq!(
        (status, headers["x-amzn-errortype"].to_str().unwrap()),
        (400, "InvalidRequestContentException")
    );
    let (status, headers, _) = invoke("feed", "RequestResponse", &format!("\"{}\"", "x".repeat(20 << 20)));
    assert_eq!((status, headers["x-amzn-errortype"].to_str().unwrap()), (413, "RequestTooLargeException"));
    let (status, headers, _) = invoke("login", "Sometime", "{}");
    assert_eq!(
        (status, headers["x-amzn-errortype"].to_str().unwrap()),
        (400, "InvalidParameterValueException")
    );
    // If a function fails, for example on an invalid event, Lambda still responds with status 200.
    let (status, headers, body) = invoke("login", "RequestResponse", "{\"no\": \"event\"}");
    assert_eq!((status, headers["x-amz-function-error"].to_str().unwrap()), (200, "Unhandled"));
    assert!(body.contains("errorType") && body.contains("errorMessage"), "{body}");
}
