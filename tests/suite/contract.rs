//! Checks that facts stated in more than one place agree: endpoints, Lambda functions, configuration, tables.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use serde_json::json;
use touchline::App;
use touchline::api;
use touchline::config::{Config, secret_id};
use touchline_local::HTTP_FUNCTIONS;
use touchline_stack::{Stack, TEMPLATE, Template};
use touchline_testing::TestApp;

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of this crate has a parent")
}

fn stack() -> Stack {
    Template::parse(TEMPLATE).unwrap().resolve(&BTreeMap::new()).unwrap()
}

type Row = (String, String, String);

/// Returns the Lambda function, method and path of each endpoint of the API.
fn endpoints() -> BTreeSet<Row> {
    api::ALL
        .iter()
        .map(|route| (route.function.to_owned(), route.method.to_string(), route.path.to_owned()))
        .collect()
}

#[test]
fn the_template_routes_exactly_the_endpoints_of_the_api() {
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
    assert_eq!(template, endpoints());
    assert_eq!(endpoints().len(), api::ALL.len(), "api::ALL has an endpoint twice");
}

#[tokio::test]
async fn the_functions_serve_exactly_the_endpoints_of_the_api() {
    let app = TestApp::serving(&[]).start().await;
    let served: BTreeSet<Row> = HTTP_FUNCTIONS
        .iter()
        .flat_map(|(name, router)| {
            let router = router(App::clone(&app));
            router
                .routes()
                .map(|route| ((*name).to_owned(), route.method.to_string(), route.path.to_owned()))
                .collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(served, endpoints());
}

#[test]
fn endpoints_under_auth_need_a_token_except_login_and_usernames() {
    let open: Vec<&str> = api::ALL
        .iter()
        .filter(|route| route.path.starts_with("/api/auth/") && !route.needs_token)
        .map(|route| route.path)
        .collect();
    assert_eq!(open, OPEN);
    let closed = api::ALL.iter().filter(|route| !route.path.starts_with("/api/auth/") && route.needs_token);
    assert_eq!(closed.count(), 0);
}

/// The endpoints under `/api/auth/` that need no token.
const OPEN: [&str; 3] = ["/api/auth/login", "/api/auth/username/check", "/api/auth/username/generate"];

/// Sends requests, because what `api::ALL` declares could differ from what an endpoint does.
#[tokio::test]
async fn requests_without_a_token_are_401_at_endpoints_that_need_a_token() {
    let routers = HTTP_FUNCTIONS.map(|(_, router)| router);
    let app = TestApp::serving(&routers).start().await;
    for route in api::ALL {
        let response = app.anonymous().request(route.method.clone(), route.path).body(json!({})).await;
        if route.path.starts_with("/api/auth/") && !OPEN.contains(&route.path) {
            response.expect_error(401, "token_missing");
        } else {
            assert_ne!(response.body["code"], "token_missing", "{} {}", route.method, route.path);
        }
    }
}

#[test]
fn every_function_has_a_folder_a_binary_and_an_entry_in_the_template() {
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
        assert!(manifest.contains(&format!("[[bin]]\nname = \"{name}\"")), "{name} has no binary");
    }
}

/// A crate that is missing in `telemetry::OURS` would log only errors.
#[test]
fn every_function_logs_at_the_configured_level() {
    for function in stack().functions {
        let target = function.name.replace('-', "_");
        assert!(touchline::telemetry::OURS.contains(&target.as_str()), "{target} is not in telemetry::OURS");
    }
}

/// Each function gets all variables that it needs, from the template and from Lambda itself. It reads every
/// variable that the template gives it.
#[test]
fn the_template_gives_each_function_its_configuration() {
    let lambda: BTreeMap<String, String> = BTreeMap::from([
        ("AWS_REGION", "eu-west-1"),
        ("AWS_ACCESS_KEY_ID", "x"),
        ("AWS_SECRET_ACCESS_KEY", "x"),
    ])
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .collect();
    // In the template, both URLs are empty by default. The test sets them, because otherwise the other settings of the feed
    // and of the homeserver are not read.
    let urls =
        ["FeedUrl", "ChatHomeserverUrl"].map(|name| (name.to_owned(), "https://example.org".to_owned()));
    let stack = Template::parse(TEMPLATE).unwrap().resolve(&BTreeMap::from(urls)).unwrap();
    for function in stack.functions {
        let read = std::cell::RefCell::new(BTreeSet::new());
        let config = Config::read(|name| {
            read.borrow_mut().insert(name.to_owned());
            let value = function.environment.get(name).or_else(|| lambda.get(name))?;
            // When a function starts, it fetches the secrets that variables name.
            Some(if secret_id(value).is_some() { "a-fetched-secret".to_owned() } else { value.clone() })
        })
        .unwrap_or_else(|error| panic!("{}: {error}", function.name));
        assert!(!config.environment.shows_codes(), "the default environment is production");
        for variable in function.environment.keys() {
            // No code reads REVISION. A new value makes SAM publish a new version of the function.
            let is_read = variable == "REVISION" || read.borrow().contains(variable);
            assert!(
                is_read,
                "the template gives {} the variable {variable}, but the function does not read it",
                function.name
            );
        }
    }
}

#[test]
fn every_table_can_be_recovered_and_items_of_wallets_and_the_directory_never_expire() {
    for table in stack().tables {
        let properties = &table.properties;
        assert_eq!(properties["KeySchema"][0]["AttributeName"], "pk", "{}", table.name);
        assert_eq!(properties["KeySchema"][1]["AttributeName"], "sk", "{}", table.name);
        assert_eq!(properties["BillingMode"], "PAY_PER_REQUEST");
        assert_eq!(properties["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"], true);
        let expires =
            !["WalletsTable", "DirectoryTable", "StandingsTable"].contains(&table.logical_id.as_str());
        let attribute = &properties["TimeToLiveSpecification"]["AttributeName"];
        assert_eq!(attribute.as_str(), expires.then_some("expires_at"), "{}", table.name);
    }
}

/// Compares the table of error codes in `docs/api.md` with the codes in the source.
#[test]
fn the_table_of_error_codes_is_up_to_date() {
    const START: &str = "<!-- error-codes -->\n";
    const END: &str = "<!-- /error-codes -->";
    let path = root().join("docs/api.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(START).expect("the table has a start mark");
    let (table, after) = rest.split_once(END).expect("the table has an end mark");
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
        "docs/api.md is out of date: run UPDATE_ERROR_CODES=1 cargo test -p touchline-tests error_codes"
    );
}

#[test]
fn docs_api_md_lists_every_endpoint() {
    let text = std::fs::read_to_string(root().join("docs/api.md")).unwrap();
    for route in api::ALL {
        let row = format!("`{} {}`", route.method, route.path);
        assert!(text.contains(&row), "docs/api.md does not mention {row}");
    }
}
