//! Web pages in the developer's browser reach neither the API, the console, the invoke API nor the store, unless the
//! developer allows their host or origin.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_dynamodb::error::ProvideErrorMetadata as _;

use crate::running::Running;

/// One request of each kind: the pages of the console, the API, the invoke API.
const ON_THE_API: [(&str, &str); 7] = [
    ("GET", "/"),
    ("GET", "/docs"),
    ("GET", "/docs/ui/swagger-ui.css"),
    ("GET", "/_console/traffic"),
    ("GET", "/api/logs/sms"),
    ("GET", "/no/such/path"),
    ("POST", "/2015-03-31/functions/login/invocations"),
];

/// Sends a request with exactly these headers. Returns the response in lower case.
fn send(url: &str, method: &str, path: &str, headers: &str) -> String {
    let mut socket = TcpStream::connect(url.trim_start_matches("http://")).unwrap();
    write!(socket, "{method} {path} HTTP/1.1\r\n{headers}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
        .unwrap();
    let mut response = String::new();
    socket.read_to_string(&mut response).unwrap();
    response.to_ascii_lowercase()
}

fn status(response: &str) -> &str {
    response.split(' ').nth(1).unwrap_or_default()
}

#[test]
fn other_host_names_are_403_on_every_port_and_path() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start_with(folder.path(), &["--allow-host", "my-laptop.local"]);
    let rebound = "host: evil.example:3000\r\norigin: http://evil.example:3000";
    for (method, path) in ON_THE_API {
        let response = send(&running.api, method, path, rebound);
        assert_eq!(status(&response), "403", "{method} {path}: {response}");
        assert!(response.contains("--allow-host evil.example"), "{response}");
    }
    let target = "x-amz-target: DynamoDB_20120810.ListTables";
    for (method, headers) in
        [("POST", format!("{rebound}\r\n{target}")), ("GET", "host: evil.example".into())]
    {
        let response = send(&running.dynamodb, method, "/", &headers);
        assert_eq!(status(&response), "403", "{response}");
        assert!(response.contains("--allow-host evil.example"), "{response}");
    }
    for host in ["localhost", "[::1]:3000", "my-laptop.local:3000"] {
        assert_eq!(
            status(&send(&running.api, "GET", "/api/health", &format!("host: {host}"))),
            "200",
            "{host}"
        );
        assert_eq!(status(&send(&running.dynamodb, "GET", "/", &format!("host: {host}"))), "200", "{host}");
    }
}

#[test]
fn pages_of_other_origins_are_403_and_cannot_read_the_response() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start(folder.path());
    let page = "host: localhost\r\norigin: http://evil.example";
    let embedded = "host: localhost\r\nsec-fetch-site: cross-site";
    let preflight = format!("{page}\r\naccess-control-request-method: POST");
    for headers in [page, embedded, &preflight] {
        for (method, path) in ON_THE_API.into_iter().chain([("OPTIONS", "/api/logs/sms")]) {
            let response = send(&running.api, method, path, headers);
            assert_eq!(status(&response), "403", "{method} {path}: {response}");
            assert!(!response.contains("access-control-allow-origin"), "{response}");
        }
        for method in ["GET", "POST", "OPTIONS"] {
            let target = "x-amz-target: DynamoDB_20120810.ListTables";
            let response = send(&running.dynamodb, method, "/", &format!("{headers}\r\n{target}"));
            assert_eq!(status(&response), "403", "{method}: {response}");
            assert!(!response.contains("access-control-allow-origin"), "{response}");
        }
    }
}

#[test]
fn an_allowed_origin_can_use_the_api_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--allow-origin", "http://localhost:5173", "--allow-origin", "https://app.example.org"];
    let running = Running::start_with(folder.path(), &flags);
    let page = "host: localhost\r\norigin: http://localhost:5173\r\nsec-fetch-site: same-site";
    let preflight = format!(
        "{page}\r\naccess-control-request-method: POST\r\naccess-control-request-headers: authorization,content-type"
    );
    let response = send(&running.api, "OPTIONS", "/api/auth/predictions", &preflight);
    assert_eq!(status(&response), "204", "{response}");
    for header in [
        "access-control-allow-origin: http://localhost:5173\r\n",
        "access-control-allow-methods: get,post,delete\r\n",
        "access-control-allow-headers: authorization,content-type,idempotency-key,if-none-match\r\n",
        "access-control-max-age: 600\r\n",
        "vary: origin\r\n",
    ] {
        assert!(response.contains(header), "{header}: {response}");
    }
    for (method, path, expected) in [("GET", "/api/health", "200"), ("POST", "/api/auth/predictions", "401")]
    {
        let response = send(&running.api, method, path, page);
        assert_eq!(status(&response), expected, "{response}");
        assert!(response.contains("access-control-allow-origin: http://localhost:5173\r\n"), "{response}");
        assert!(
            response.contains("access-control-expose-headers: etag,retry-after,idempotency-replayed\r\n")
        );
    }
    // The function has a `Vary` of its own.
    let document = send(&running.api, "GET", "/api/openapi.json", page);
    for header in ["vary: accept-encoding\r\n", "vary: origin\r\n"] {
        assert!(document.contains(header), "{header}");
    }
    for (method, path) in
        [("GET", "/"), ("GET", "/_console/traffic"), ("POST", "/2015-03-31/functions/login/invocations")]
    {
        assert_eq!(status(&send(&running.api, method, path, page)), "403", "{path}");
    }
    assert_eq!(status(&send(&running.dynamodb, "POST", "/", page)), "403");
    let other = "host: localhost\r\norigin: http://localhost:5174";
    assert_eq!(status(&send(&running.api, "GET", "/api/health", other)), "403");
}

#[test]
fn the_sdk_reads_and_writes_the_store_through_its_port() {
    use aws_sdk_dynamodb::types::AttributeValue;
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start(folder.path());
    let client = aws_sdk_dynamodb::Client::from_conf(
        aws_sdk_dynamodb::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("eu-west-1"))
            .credentials_provider(Credentials::new("local", "local", None, None, "test"))
            .endpoint_url(&running.dynamodb)
            .http_client(touchline::ports::aws_http::client())
            .build(),
    );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let tables = client.list_tables().send().await.unwrap().table_names.unwrap();
        assert!(tables.contains(&"touchline-users".to_owned()), "{tables:?}");
        let key = AttributeValue::S("note".into());
        let put = || {
            client.put_item().table_name("touchline-users").item("pk", key.clone()).item("sk", key.clone())
        };
        put().send().await.unwrap();
        let item =
            client.get_item().table_name("touchline-users").key("pk", key.clone()).key("sk", key.clone());
        assert_eq!(item.send().await.unwrap().item.unwrap()["pk"], key);
        let failed = put().condition_expression("attribute_not_exists(pk)").send().await.unwrap_err();
        assert_eq!(failed.code(), Some("ConditionalCheckFailedException"));
    });
}

#[test]
fn the_files_of_pages_are_compressed_and_unchanged_ones_are_304() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start(folder.path());
    let get = |path: &str, headers: &str| {
        let mut socket = TcpStream::connect(running.api.trim_start_matches("http://")).unwrap();
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\naccept-encoding: gzip\r\n"
        );
        write!(socket, "{request}{headers}\r\n").unwrap();
        let mut response = Vec::new();
        socket.read_to_end(&mut response).unwrap();
        let end = response.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
        (String::from_utf8_lossy(&response[..end]).to_ascii_lowercase(), response.len() - end - 4)
    };
    let mut sizes = Vec::new();
    for path in [
        "/",
        "/console.js",
        "/app.js",
        "/tools.js",
        "/docs",
        "/docs/explorer.js",
        "/docs/ui/swagger-ui-bundle.js",
        "/docs/ui/swagger-ui.css",
        "/api/openapi.json",
    ] {
        let (head, size) = get(path, "");
        assert!(head.contains("content-encoding: gzip"), "{path}: {head}");
        let tag = head.lines().find_map(|line| line.strip_prefix("etag: ")).expect(path);
        let (known, nothing) = get(path, &format!("if-none-match: {tag}\r\n"));
        assert_eq!((status(&known), nothing), ("304", 0), "{path}: {known}");
        sizes.push(size);
    }
    assert!(sizes[..4].iter().sum::<usize>() < 40_000, "the console: {sizes:?}");
}

#[test]
fn the_console_shows_compressed_responses_as_text() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start(folder.path());
    let connect = |request: &str| {
        let mut socket = TcpStream::connect(running.api.trim_start_matches("http://")).unwrap();
        write!(socket, "GET {request}\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
        BufReader::new(socket)
    };
    let mut console = connect("/_console/traffic HTTP/1.1").lines().map(Result::unwrap);
    assert!(console.any(|line| line.is_empty()), "the head of the response has an end");
    let mut response = Vec::new();
    connect("/api/openapi.json HTTP/1.1\r\naccept-encoding: gzip").read_to_end(&mut response).unwrap();
    assert!(String::from_utf8_lossy(&response).contains("content-encoding: gzip"));
    let event = console.find(|line| line.contains("/api/openapi.json")).unwrap();
    assert!(event.contains(r#"\"components\":"#), "{event}");
}
