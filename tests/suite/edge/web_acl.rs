//! Evaluates the rules of a WAF web ACL, as far as `infra/edge.yaml` uses them. Everything else panics.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;
use serde_json::Value;

/// A request, as far as the rules look at it.
#[derive(Debug, Clone, Copy)]
pub struct Visit<'a> {
    /// The path as the client sent it.
    pub path: &'a str,
    /// The size of the body, which is also its `Content-Length`.
    pub body: usize,
    /// Whether the address is one of the homeserver's. `None` if the homeserver's addresses are not configured.
    pub is_homeserver: Option<bool>,
}

impl<'a> Visit<'a> {
    pub fn to(path: &'a str) -> Self {
        Self { path, body: 0, is_homeserver: None }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    pub name: String,
    properties: Value,
    /// The condition of the stack that the rule depends on.
    condition: Option<String>,
}

/// The rules in the order of their priorities, and the bodies of their responses.
#[derive(Debug)]
pub struct WebAcl {
    rules: Vec<Rule>,
    bodies: Value,
    inspected: usize,
}

impl WebAcl {
    pub fn parse(properties: &Value) -> Self {
        let mut rules: Vec<Rule> = properties["Rules"].as_array().unwrap().iter().map(Rule::parse).collect();
        rules.sort_by_key(|rule| rule.properties["Priority"].as_u64().unwrap());
        let priorities: BTreeSet<_> = rules.iter().map(|rule| rule.properties["Priority"].as_u64()).collect();
        assert_eq!(priorities.len(), rules.len(), "two rules have the same priority");
        let limit =
            &properties["AssociationConfig"]["RequestBody"]["CLOUDFRONT"]["DefaultSizeInspectionLimit"];
        assert_eq!(limit, "KB_64");
        assert!(properties["DefaultAction"]["Allow"].is_object());
        assert_eq!(properties["Scope"], "CLOUDFRONT");
        Self { rules, bodies: properties["CustomResponseBodies"].clone(), inspected: 64 * 1024 }
    }

    fn rule(&self, name: &str) -> &Rule {
        self.rules.iter().find(|rule| rule.name == name).unwrap_or_else(|| panic!("there is no rule {name}"))
    }

    /// Returns the first rule that blocks a request. No limit per address is reached, and the address has a good
    /// reputation.
    pub fn blocks(&self, visit: &Visit<'_>) -> Option<&Rule> {
        self.rules.iter().find(|rule| {
            let is_active = match rule.condition.as_deref() {
                None => true,
                Some("HasHomeserverAddresses") => visit.is_homeserver.is_some(),
                Some("BlocksBadReputation") => false,
                Some(other) => panic!("unknown condition {other}"),
            };
            let statement = &rule.properties["Statement"];
            is_active && statement["RateBasedStatement"].is_null() && self.matches(statement, visit)
        })
    }

    pub fn rate_statement(&self, rule: &str) -> Value {
        let statement = &self.rule(rule).properties["Statement"]["RateBasedStatement"];
        assert!(statement.is_object(), "{rule} has no limit");
        statement.clone()
    }

    /// Returns whether a rate rule counts a request.
    pub fn counts(&self, rule: &str, visit: &Visit<'_>) -> bool {
        self.matches(&self.rate_statement(rule)["ScopeDownStatement"], visit)
    }

    /// Returns the paths that a rate rule lists.
    pub fn paths(&self, rule: &str) -> BTreeSet<String> {
        let statement = &self.rate_statement(rule)["ScopeDownStatement"]["OrStatement"]["Statements"];
        let path = |one: &Value| one["ByteMatchStatement"]["SearchString"].as_str().unwrap().to_owned();
        statement.as_array().unwrap().iter().map(path).collect()
    }

    /// Returns the status, the headers and the body with which a rule blocks.
    pub fn response(&self, rule: &str) -> (u16, BTreeMap<String, String>, Value) {
        let response = &self.rule(rule).properties["Action"]["Block"]["CustomResponse"];
        let body = &self.bodies[response["CustomResponseBodyKey"].as_str().unwrap()];
        assert_eq!(body["ContentType"], "APPLICATION_JSON");
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let headers = response["ResponseHeaders"].as_array().into_iter().flatten();
        let headers = headers.map(|one| (text(&one["Name"]).to_lowercase(), text(&one["Value"]))).collect();
        let status = response["ResponseCode"].as_u64().unwrap().try_into().unwrap();
        (status, headers, serde_json::from_str(body["Content"].as_str().unwrap()).unwrap())
    }

    /// Returns the name of a rule's metric.
    pub fn metric(&self, rule: &str) -> Value {
        self.rule(rule).properties["VisibilityConfig"]["MetricName"].clone()
    }

    fn matches(&self, statement: &Value, visit: &Visit<'_>) -> bool {
        let (kind, argument) = only_entry(statement);
        let statements = || argument["Statements"].as_array().unwrap().iter();
        match kind {
            "AndStatement" => statements().all(|one| self.matches(one, visit)),
            "OrStatement" => statements().any(|one| self.matches(one, visit)),
            "NotStatement" => !self.matches(&argument["Statement"], visit),
            "IPSetReferenceStatement" => visit.is_homeserver == Some(true),
            "ByteMatchStatement" => {
                assert!(argument["FieldToMatch"]["UriPath"].is_object());
                let path = transformed(visit.path, &argument["TextTransformations"]);
                let searched = argument["SearchString"].as_str().unwrap();
                match argument["PositionalConstraint"].as_str().unwrap() {
                    "EXACTLY" => path == searched,
                    "STARTS_WITH" => path.starts_with(searched),
                    other => panic!("unknown constraint {other}"),
                }
            }
            "SizeConstraintStatement" => {
                assert_eq!(argument["FieldToMatch"]["Body"]["OversizeHandling"], "MATCH");
                assert_eq!(argument["ComparisonOperator"], "GT");
                let size = usize::try_from(argument["Size"].as_u64().unwrap()).unwrap();
                visit.body > self.inspected || visit.body > size
            }
            "RegexMatchStatement" => {
                assert_eq!(argument["FieldToMatch"]["SingleHeader"]["Name"], "content-length");
                let regex = Regex::new(argument["RegexString"].as_str().unwrap()).unwrap();
                regex.is_match(&visit.body.to_string())
            }
            other => panic!("unknown statement {other}"),
        }
    }
}

impl Rule {
    /// Reads a rule, or `!If [condition, rule, nothing]`.
    fn parse(value: &Value) -> Self {
        let (condition, properties) = match value["Fn::If"].as_array().map(Vec::as_slice) {
            Some([condition, rule, nothing]) => {
                assert_eq!(nothing["Ref"], "AWS::NoValue");
                (condition.as_str().map(str::to_owned), rule)
            }
            _ => (None, value),
        };
        let name = properties["Name"].as_str().unwrap().to_owned();
        Self { name, properties: properties.clone(), condition }
    }
}

fn only_entry(statement: &Value) -> (&str, &Value) {
    let entries = statement.as_object().unwrap_or_else(|| panic!("not a statement: {statement}"));
    assert_eq!(entries.len(), 1, "{statement}");
    let (kind, argument) = entries.iter().next().unwrap();
    (kind, argument)
}

fn transformed(path: &str, transformations: &Value) -> String {
    let mut transformations: Vec<&Value> = transformations.as_array().unwrap().iter().collect();
    transformations.sort_by_key(|one| one["Priority"].as_u64());
    transformations.iter().fold(path.to_owned(), |path, one| match one["Type"].as_str().unwrap() {
        "NONE" => path,
        "URL_DECODE" => percent_encoding::percent_decode_str(&path).decode_utf8_lossy().into_owned(),
        "NORMALIZE_PATH" => normalized(&path),
        other => panic!("unknown transformation {other}"),
    })
}

/// Removes empty segments, `.` and `..`.
fn normalized(path: &str) -> String {
    let mut segments = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            segment => segments.push(segment),
        }
    }
    format!("/{}", segments.join("/"))
}
