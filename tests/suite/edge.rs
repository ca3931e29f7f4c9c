//! CloudFront and WAF in front of the API: what `infra/edge.yaml` sets up, and how the functions treat requests from
//! CloudFront and from elsewhere.

mod web_acl;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lambda_http::http::Method;
use serde_json::{Value, json};
use touchline::api::{self, Caller as _, Homeserver, SignedIn};
use touchline::config::secret_id;
use touchline::http::{ORIGIN_SECRET_HEADER, VIEWER_ADDRESS_HEADER};
use touchline_local::HTTP_FUNCTIONS;
use touchline_stack::{TEMPLATE, Template, yaml};
use touchline_testing::{Builder, Fault, TestApp};

use self::web_acl::{Visit, WebAcl};

const EDGE: &str = include_str!("../../infra/edge.yaml");

const SECRETS: [&str; 2] = ["the-first-origin-secret", "the-second-origin-secret"];
const CLOUDFRONT: &str = "64.252.0.1";
const VIEWERS: [&str; 2] = ["203.0.113.9", "198.51.100.7"];

fn edge() -> Value {
    yaml::parse(EDGE).unwrap()
}

fn app() -> Builder {
    TestApp::serving(&HTTP_FUNCTIONS.map(|(_, router)| router))
}

fn behind_cloudfront() -> Builder {
    let secrets = json!({ "a": SECRETS[0], "b": SECRETS[1] });
    app().variable("ORIGIN_SECRETS", &secrets.to_string())
}

/// Counts the calls to the store from now on.
fn count_calls(app: &TestApp) -> Arc<AtomicU32> {
    let calls = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&calls);
    app.faults.set(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        Fault::None
    });
    calls
}

#[tokio::test]
async fn requests_without_the_secret_are_404_and_make_no_call_to_the_store() {
    let app = behind_cloudfront().start().await;
    let alice = app.user("alice").await;
    let calls = count_calls(&app);
    let cut_off = &SECRETS[0][..SECRETS[0].len() - 1];
    for route in api::ALL {
        for secret in [None, Some(""), Some("a-guess-of-the-secret"), Some(cut_off)] {
            let request = alice.request(route.method.clone(), route.path);
            let request = match secret {
                Some(secret) => request.header(ORIGIN_SECRET_HEADER, secret),
                None => request,
            };
            let response = request.await;
            response.expect_error(404, "not_found");
            assert_eq!(response.header("cache-control"), Some("no-store"));
        }
    }
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    for secret in SECRETS {
        alice.views_profile().header(ORIGIN_SECRET_HEADER, secret).await.expect(200);
    }
}

/// Both values are valid at any time, so that CloudFront can change from one to the other.
#[tokio::test]
async fn the_limit_of_an_address_counts_the_clients_of_cloudfront() {
    for direct_requests in ["rejected", "allowed"] {
        let app = behind_cloudfront()
            .variable("DIRECT_REQUESTS", direct_requests)
            .variable("CODES_PER_ADDRESS_PER_HOUR", "1")
            .start()
            .await;
        let request = |phone: &str, secret: &str, viewer: &str| {
            let request = app.anonymous().requests_code(phone).from_address(CLOUDFRONT);
            request.header(ORIGIN_SECRET_HEADER, secret).header(VIEWER_ADDRESS_HEADER, viewer)
        };
        request("+447700900001", SECRETS[0], VIEWERS[0]).await.expect(200);
        request("+447700900002", SECRETS[1], VIEWERS[0]).await.expect_error(429, "rate_limited");
        request("+447700900003", SECRETS[0], VIEWERS[1]).await.expect(200);
        let dump = app.dump().await;
        assert!(VIEWERS.iter().all(|viewer| dump.contains(&format!("address#{viewer}"))), "{dump}");
        assert!(!dump.contains(CLOUDFRONT), "{dump}");
    }
}

#[tokio::test]
async fn a_client_cannot_choose_its_address() {
    let transition = || behind_cloudfront().variable("DIRECT_REQUESTS", "allowed");
    for (case, app) in [("without CloudFront", app()), ("during a transition", transition())] {
        let app = app.variable("CODES_PER_ADDRESS_PER_HOUR", "1").start().await;
        let request = |phone: &str, address: &str, viewer: &str| {
            let request = app.anonymous().requests_code(phone).from_address(address);
            request.header(VIEWER_ADDRESS_HEADER, viewer).header("x-forwarded-for", viewer)
        };
        let guess = "a-guess-of-the-secret";
        request("+447700900001", "192.0.2.1", VIEWERS[0]).await.expect(200);
        let response = request("+447700900002", "192.0.2.1", VIEWERS[1]).await;
        assert_eq!(response.status, 429, "{case}");
        let response =
            request("+447700900003", "192.0.2.1", VIEWERS[1]).header(ORIGIN_SECRET_HEADER, guess).await;
        assert_eq!(response.status, 429, "{case}, with a wrong secret");
        request("+447700900004", "192.0.2.2", VIEWERS[0]).await.expect(200);
        let dump = app.dump().await;
        assert!(!VIEWERS.iter().any(|viewer| dump.contains(viewer)), "{case}: {dump}");
    }
}

/// Otherwise a client without a known address would have no limit.
#[tokio::test]
async fn without_a_valid_viewer_address_the_limit_counts_cloudfront() {
    let app = behind_cloudfront().variable("CODES_PER_ADDRESS_PER_HOUR", "1").start().await;
    let request = |phone: &str| {
        let request = app.anonymous().requests_code(phone).from_address(CLOUDFRONT);
        request.header(ORIGIN_SECRET_HEADER, SECRETS[0])
    };
    request("+447700900001").await.expect(200);
    request("+447700900002").await.expect_error(429, "rate_limited");
    for address in ["", "unknown", "203.0.113.9,198.51.100.7", "203.0.113.9:443"] {
        let response = request("+447700900003").header(VIEWER_ADDRESS_HEADER, address).await;
        response.expect_error(429, "rate_limited");
    }
}

/// With mutual TLS, API Gateway reports the address together with the port.
#[tokio::test]
async fn the_port_of_a_client_does_not_change_its_address() {
    let app = app().variable("CODES_PER_ADDRESS_PER_HOUR", "1").start().await;
    let request = |phone: &str, address: &str| app.anonymous().requests_code(phone).from_address(address);
    request("+447700900001", "192.0.2.1:50001").await.expect(200);
    request("+447700900002", "192.0.2.1:50002").await.expect_error(429, "rate_limited");
    request("+447700900003", "192.0.2.1").await.expect_error(429, "rate_limited");
}

#[test]
fn the_template_gives_the_secrets_to_the_functions() {
    let parameters = BTreeMap::from([("OriginSecret".to_owned(), "touchline-origin".to_owned())]);
    let stack = Template::parse(TEMPLATE).unwrap().resolve(&parameters).unwrap();
    for function in stack.functions.iter().filter(|function| !function.routes.is_empty()) {
        let value = &function.environment["ORIGIN_SECRETS"];
        assert_eq!(secret_id(value), Some("touchline-origin"), "{}", function.name);
    }
}

#[test]
fn cloudfront_sends_the_headers_that_the_functions_read() {
    let edge = edge();
    let distribution = &edge["Resources"]["Distribution"]["Properties"]["DistributionConfig"];
    let headers = distribution["Origins"][0]["OriginCustomHeaders"].as_array().unwrap();
    assert_eq!(headers.len(), 1);
    assert_eq!(headers[0]["HeaderName"], ORIGIN_SECRET_HEADER);
    assert_eq!(
        headers[0]["HeaderValue"]["Fn::Sub"],
        "{{resolve:secretsmanager:${OriginSecret}:SecretString:${OriginSecretKey}}}"
    );
    assert_eq!(edge["Parameters"]["OriginSecretKey"]["AllowedValues"], json!(["a", "b"]));
    assert!(!EDGE.contains("NoEcho"), "a secret must not be a parameter");

    let behavior = &distribution["DefaultCacheBehavior"];
    let association = &behavior["FunctionAssociations"][0];
    assert_eq!(association["EventType"], "viewer-request");
    assert_eq!(
        association["FunctionARN"]["Fn::GetAtt"],
        json!(["ViewerAddress", "FunctionMetadata.FunctionARN"])
    );
    let code = edge["Resources"]["ViewerAddress"]["Properties"]["FunctionCode"].as_str().unwrap();
    let assignment =
        format!("event.request.headers[\"{VIEWER_ADDRESS_HEADER}\"] = {{ value: event.viewer.ip }};");
    assert!(code.contains(&assignment), "{code}");
    assert!(distribution["CacheBehaviors"].is_null(), "another behavior would not send the address");
}

#[test]
fn cloudfront_passes_every_request_on_and_stores_nothing() {
    let edge = edge();
    let distribution = &edge["Resources"]["Distribution"]["Properties"]["DistributionConfig"];
    let behavior = &distribution["DefaultCacheBehavior"];
    // The ids of the managed policies CachingDisabled and AllViewerExceptHostHeader.
    assert_eq!(behavior["CachePolicyId"], "4135ea2d-6df8-44a3-9df3-4b5a84be39ad");
    assert_eq!(behavior["OriginRequestPolicyId"], "b689b0a8-53d0-40ab-baf2-68738e2966ac");
    let methods = behavior["AllowedMethods"].as_array().unwrap();
    for route in api::ALL {
        assert!(methods.iter().any(|method| *method == *route.method.as_str()), "{}", route.method);
    }
    assert_eq!(behavior["ViewerProtocolPolicy"], "https-only");
    assert_eq!(distribution["HttpVersion"], "http2and3");
    assert_eq!(distribution["ViewerCertificate"]["Fn::If"][1]["MinimumProtocolVersion"], "TLSv1.2_2021");
    let origin = &distribution["Origins"][0]["CustomOriginConfig"];
    assert_eq!(origin["OriginProtocolPolicy"], "https-only");
    assert_eq!(distribution["IPV6Enabled"], false, "WAF counts each IPv6 address for itself");
    assert_eq!(distribution["WebACLId"]["Fn::GetAtt"], json!(["WebAcl", "Arn"]));
    let longest = Template::parse(TEMPLATE).unwrap().resolve(&BTreeMap::new()).unwrap();
    let longest = longest.functions.iter().filter(|function| !function.routes.is_empty());
    let longest = longest.map(|function| function.timeout_seconds).max();
    assert!(origin["OriginReadTimeout"].as_u64() > longest, "CloudFront gives up before the functions");
}

fn web_acl() -> WebAcl {
    WebAcl::parse(&edge()["Resources"]["WebAcl"]["Properties"])
}

/// Returns the paths of the API, with a value for each parameter.
fn paths() -> BTreeSet<String> {
    let fill = |segment: &str| if segment.starts_with('{') { "1".to_owned() } else { segment.to_owned() };
    api::ALL.iter().map(|route| route.path.split('/').map(fill).collect::<Vec<_>>().join("/")).collect()
}

/// Returns the paths that a rate rule counts.
fn counted_by(rule: &str) -> BTreeSet<String> {
    paths().into_iter().filter(|path| web_acl().counts(rule, &Visit::to(path))).collect()
}

#[test]
fn the_rule_for_codes_counts_the_routes_that_the_template_throttles() {
    let template = yaml::parse(TEMPLATE).unwrap();
    let settings = template["Resources"]["Api"]["Properties"]["RouteSettings"].as_object().unwrap();
    let throttled: BTreeSet<String> =
        settings.keys().map(|route| route.trim_start_matches("POST ").to_owned()).collect();
    assert_eq!(counted_by("CodeRequests"), throttled);
    assert_eq!(web_acl().paths("CodeRequests"), throttled, "a path of the rule is no endpoint");
    // All paths that take a code without a token.
    let logins = ["/api/code/verify", "/api/auth/login", "/api/account/delete", "/api/phone/undo"];
    let logins: BTreeSet<String> = logins.map(str::to_owned).into();
    assert_eq!(counted_by("Logins"), logins);
    assert_eq!(web_acl().paths("Logins"), logins, "a path of the rule is no endpoint");
}

#[test]
fn only_the_paths_of_the_homeserver_have_no_limit() {
    let of_homeserver: BTreeSet<String> =
        paths().into_iter().filter(|path| path.starts_with("/_matrix/")).collect();
    assert_eq!(of_homeserver.len(), 4);
    let limited: BTreeSet<String> = paths().difference(&of_homeserver).cloned().collect();
    assert_eq!(counted_by("Requests"), limited);
    for rule in ["CodeRequests", "Logins", "Requests"] {
        assert!(counted_by(rule).is_disjoint(&of_homeserver), "{rule}");
    }
    for path in ["/", "/nothing", "/api/", "/_matrix", "/_matrix/client/v3/login", "/_matrix/application"] {
        assert!(web_acl().counts("Requests", &Visit::to(path)), "{path}");
    }
}

#[test]
fn no_spelling_of_a_path_avoids_its_limit() {
    for path in ["/api/code/reques%74", "/api//code/request", "/api/./code/request", "/api/x/../code/request"]
    {
        assert!(web_acl().counts("CodeRequests", &Visit::to(path)), "{path}");
    }
    assert!(web_acl().counts("Logins", &Visit::to("/api/auth/%6cogin")));
    // The router takes these segments as the id of a room. Decoded and normalized, the path is one of the homeserver.
    let path = "/api/auth/chat-rooms/..%2f..%2f..%2f_matrix%2fapp%2fx/join";
    assert!(web_acl().counts("Requests", &Visit::to(path)));
    assert!(web_acl().counts("CodeRequests", &Visit::to("/_matrix/app/../../api/code/request")));
}

#[test]
fn every_limit_per_address_is_a_parameter() {
    let edge = edge();
    for (rule, parameter) in [
        ("CodeRequests", "CodeRequestsPerMinute"),
        ("Logins", "LoginsPerMinute"),
        ("Requests", "RequestsPerMinute"),
    ] {
        let statement = web_acl().rate_statement(rule);
        assert_eq!(statement["Limit"]["Ref"], parameter);
        assert_eq!(statement["EvaluationWindowSec"], 60, "the parameter's name says a minute");
        assert_eq!(statement["AggregateKeyType"], "IP");
        // WAF accepts no smaller limit.
        assert_eq!(edge["Parameters"][parameter]["MinValue"], 10);
    }
}

#[test]
fn bodies_are_limited_as_in_the_functions() {
    let acl = web_acl();
    let with_body = |path: &str, size: usize| acl.blocks(&Visit { body: size, ..Visit::to(path) });
    for path in ["/api/code/request", "/api/auth/predictions"] {
        assert_eq!(with_body(path, SignedIn::MAX_BODY), None);
        assert_eq!(with_body(path, SignedIn::MAX_BODY + 1).unwrap().name, "BodySize");
    }
    let path = "/_matrix/app/v1/transactions/1";
    for size in [0, 1, SignedIn::MAX_BODY + 1, Homeserver::MAX_BODY - 1, Homeserver::MAX_BODY] {
        assert_eq!(with_body(path, size), None, "{size}");
    }
    for more in [1, 4, 5, 44, 544, 545, 8_544, 708_544, 3_708_544, 100_000_000] {
        let size = Homeserver::MAX_BODY + more;
        assert_eq!(with_body(path, size).unwrap().name, "HomeserverBodySize", "{size}");
    }
}

#[test]
fn with_its_addresses_only_the_homeserver_reaches_its_paths() {
    let acl = web_acl();
    let visit =
        |path, is_homeserver| acl.blocks(&Visit { is_homeserver: Some(is_homeserver), ..Visit::to(path) });
    assert_eq!(visit("/_matrix/app/v1/ping", true), None);
    assert_eq!(visit("/_matrix/app/v1/ping", false).unwrap().name, "OnlyHomeserver");
    assert_eq!(visit("/api/health", false), None);
}

/// Sends the requests that the functions reject for the same reason.
#[tokio::test]
async fn the_responses_of_waf_are_those_of_the_functions() {
    let app = app().start().await;
    let alice = app.user("alice").await;
    for _ in 0..10 {
        alice.claims_daily_coins().await;
    }
    let limited = alice.claims_daily_coins().await;
    let large = |size: usize| format!("\"{}\"", "x".repeat(size));
    let too_large = app
        .anonymous()
        .request(Method::POST, "/api/code/request")
        .bytes("application/json", large(SignedIn::MAX_BODY))
        .await;
    let too_large_for_matrix = app
        .homeserver()
        .request(Method::PUT, "/_matrix/app/v1/transactions/1")
        .bytes("application/json", large(Homeserver::MAX_BODY))
        .await;
    let acl = web_acl();
    for (rule, response) in [
        ("CodeRequests", &limited),
        ("Logins", &limited),
        ("Requests", &limited),
        ("BodySize", &too_large),
        ("HomeserverBodySize", &too_large_for_matrix),
    ] {
        let (status, headers, body) = acl.response(rule);
        assert_eq!(status, response.status.as_u16(), "{rule}");
        assert_eq!(body, response.body, "{rule}");
        assert_eq!(headers.get("retry-after").map(String::as_str), response.header("retry-after"), "{rule}");
    }
    // The functions have no error with exactly these messages.
    for (rule, fields) in [("OnlyHomeserver", ["errcode", "error"]), ("BadReputation", ["code", "message"])] {
        let (status, _, body) = acl.response(rule);
        assert_eq!(status, 403, "{rule}");
        assert_eq!(body.as_object().unwrap().keys().collect::<Vec<_>>(), fields, "{rule}");
    }
    let forbidden = app.with_token("not-the-homeservers").pings().await;
    assert_eq!(acl.response("OnlyHomeserver").2["errcode"], forbidden.body["errcode"]);
}

#[test]
fn every_alarm_watches_a_rule_or_the_distribution_and_notifies_the_topic() {
    let edge = edge();
    let resources = edge["Resources"].as_object().unwrap();
    let alarms: Vec<_> =
        resources.iter().filter(|(_, resource)| resource["Type"] == "AWS::CloudWatch::Alarm").collect();
    assert_eq!(alarms.len(), 3);
    for (id, alarm) in alarms {
        let properties = &alarm["Properties"];
        assert_eq!(properties["AlarmActions"][0]["Ref"], "Alarms", "{id}");
        let dimension = |name: &str| {
            let dimensions = properties["Dimensions"].as_array().unwrap().iter();
            dimensions.clone().find(|one| one["Name"] == *name).map(|one| one["Value"].clone())
        };
        match properties["Namespace"].as_str() {
            Some("AWS/WAFV2") => {
                let rule = dimension("Rule").unwrap();
                assert_eq!(web_acl().metric(rule.as_str().unwrap()), rule, "{id}");
                let acl = &resources["WebAcl"]["Properties"]["VisibilityConfig"]["MetricName"];
                assert_eq!(dimension("WebACL").as_ref(), Some(acl), "{id}");
            }
            Some("AWS/CloudFront") => assert_eq!(dimension("DistributionId").unwrap()["Ref"], "Distribution"),
            other => panic!("{id}: {other:?}"),
        }
    }
}
