//! One place for each fact: what is said twice must agree.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use touchline::api;
use touchline::config::Config;
use touchline_local::HTTP_FUNCTIONS;
use touchline_stack::{Stack, TEMPLATE, Template};
use touchline_testing::TestApp;

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace")
}

fn stack() -> Stack {
    Template::parse(TEMPLATE).unwrap().resolve(&BTreeMap::new()).unwrap()
}

type Row = (String, String, String);

fn table() -> BTreeSet<Row> {
    api::ALL
        .iter()
        .map(|route| (route.function.to_owned(), route.method.to_string(), route.path.to_owned()))
        .collect()
}

#[test]
fn the_template_routes_what_the_table_lists_and_nothing_else() {
    let template: BTreeSet<Row> = stack()
        .functions
        .iter()
        .flat_map(|function| {
            function
                .routes
                .iter()
                .map(|route| (function.name.clone(), route.method.clone(), route.path.clone()))
        })
        .collect();
    assert_eq!(template, table());
    assert_eq!(table().len(), api::ALL.len(), "an endpoint is listed twice");
}

#[tokio::test]
async fn the_functions_serve_what_the_table_lists_and_nothing_else() {
    let app = TestApp::serving(&[]).start().await;
    let served: BTreeSet<Row> = HTTP_FUNCTIONS
        .iter()
        .flat_map(|(name, router)| {
            let router = router(app.app.clone());
            router
                .routes()
                .map(|route| ((*name).to_owned(), route.method.to_string(), route.path.to_owned()))
                .collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(served, table());
}

#[test]
fn only_these_under_auth_need_no_token() {
    let open: Vec<&str> = api::ALL
        .iter()
        .filter(|route| route.path.starts_with("/api/auth/") && !route.needs_token)
        .map(|route| route.path)
        .collect();
    assert_eq!(open, OPEN);
    let closed = api::ALL.iter().filter(|route| !route.path.starts_with("/api/auth/") && route.needs_token);
    assert_eq!(closed.count(), 0);
}

/// What needs no token although it is under `/api/auth/`, as the interface has it.
const OPEN: [&str; 3] = ["/api/auth/login", "/api/auth/username/check", "/api/auth/username/generate"];

/// Asks each endpoint, rather than the table, whether it lets a stranger in.
#[tokio::test]
async fn every_endpoint_that_needs_a_token_refuses_without() {
    let routers = HTTP_FUNCTIONS.map(|(_, router)| router);
    let app = TestApp::serving(&routers).start().await;
    for route in api::ALL {
        let answer = app.send(route.method.as_str(), route.path, &[], b"{}").await;
        let refused = answer.body["code"] == "token_missing";
        let open = !route.path.starts_with("/api/auth/") || OPEN.contains(&route.path);
        assert_eq!(refused, !open, "{} {}: {}", route.method, route.path, answer.body);
    }
}

#[test]
fn every_function_has_a_folder_a_binary_and_a_place_in_the_template() {
    let in_template: BTreeSet<String> =
        stack().functions.iter().map(|function| function.name.clone()).collect();
    let folders: BTreeSet<String> = std::fs::read_dir(root().join("functions"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(in_template, folders);
    for name in folders {
        let manifest =
            std::fs::read_to_string(root().join("functions").join(&name).join("Cargo.toml")).unwrap();
        assert!(manifest.contains(&format!("[[bin]]\nname = \"{name}\"")), "{name} has its own binary");
    }
}

/// A crate that is missing there would log nothing but errors, and nobody would notice.
#[test]
fn every_function_may_log() {
    for function in stack().functions {
        let target = function.name.replace('-', "_");
        assert!(touchline::telemetry::OURS.contains(&target.as_str()), "{target} is not in telemetry::OURS");
    }
}

/// What the template tells a function is all that it needs, with what Lambda itself adds.
#[test]
fn the_template_gives_each_function_its_configuration() {
    let lambda = BTreeMap::from([
        ("AWS_REGION", "eu-west-1"),
        ("AWS_ACCESS_KEY_ID", "x"),
        ("AWS_SECRET_ACCESS_KEY", "x"),
        // Empty by default, and then the other settings of the feed do not matter.
        ("FEED_URL", "https://example.org"),
        // And so with the homeserver.
        ("CHAT_HOMESERVER_URL", "https://example.org"),
    ]);
    for function in stack().functions {
        let asked = std::cell::RefCell::new(BTreeSet::new());
        let config = Config::read(|name| {
            asked.borrow_mut().insert(name.to_owned());
            let told = function.environment.get(name).filter(|value| !value.is_empty()).cloned();
            // What is not meant for a function is not given to it by Lambda either.
            let is_meant = name.starts_with("AWS_") || function.environment.contains_key(name);
            told.or_else(|| lambda.get(name).filter(|_| is_meant).map(|&value| value.to_owned()))
        })
        .unwrap_or_else(|error| panic!("{}: {error}", function.name));
        assert!(!config.environment.shows_codes(), "the default is production");
        // Another one makes a new version of a function; that is all it does.
        let read = function.environment.keys().filter(|variable| *variable != "REVISION");
        for variable in read {
            assert!(
                asked.borrow().contains(variable),
                "{} is told {variable}, which nobody reads",
                function.name
            );
        }
    }
}

#[test]
fn every_table_has_keys_recovery_protection_and_time_to_live() {
    for table in stack().tables {
        let properties = &table.properties;
        assert_eq!(properties["KeySchema"][0]["AttributeName"], "pk", "{}", table.name);
        assert_eq!(properties["KeySchema"][1]["AttributeName"], "sk", "{}", table.name);
        assert_eq!(properties["BillingMode"], "PAY_PER_REQUEST");
        assert_eq!(properties["DeletionProtectionEnabled"], true);
        assert_eq!(properties["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"], true);
        // Nothing of a wallet may disappear by itself.
        let expires = table.logical_id != "WalletsTable";
        let attribute = &properties["TimeToLiveSpecification"]["AttributeName"];
        assert_eq!(attribute.as_str(), expires.then_some("expires_at"), "{}", table.name);
    }
}

/// Compares the table of error codes in `docs/api.md` with the codes in the source.
#[test]
fn the_table_of_error_codes_is_fresh() {
    const START: &str = "<!-- error-codes -->\n";
    const END: &str = "<!-- /error-codes -->";
    let path = root().join("docs/api.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(START).expect("the start of the table");
    let (table, after) = rest.split_once(END).expect("the end of the table");
    let mut fresh = "| status | `code` | when |\n|---|---|---|\n".to_owned();
    for code in api::ErrorCode::ALL {
        writeln!(fresh, "| {} | `{code}` | {} |", code.status(), code.meaning()).unwrap();
    }
    if std::env::var_os("UPDATE_ERROR_CODES").is_some() {
        std::fs::write(path, format!("{before}{START}{fresh}{END}{after}")).unwrap();
        return;
    }
    assert!(
        table == fresh,
        "the error codes in docs/api.md are not fresh: UPDATE_ERROR_CODES=1 cargo test -p touchline-tests error_codes"
    );
}

#[test]
fn the_documents_name_every_endpoint() {
    let text = std::fs::read_to_string(root().join("docs/api.md")).unwrap();
    for route in api::ALL {
        let row = format!("`{} {}`", route.method, route.path);
        assert!(text.contains(&row), "docs/api.md does not mention {row}");
    }
}
