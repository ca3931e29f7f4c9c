//! Compares the DynamoDB calls of the functions with the permissions of their roles.

use std::collections::{BTreeMap, BTreeSet};

use touchline_stack::{TEMPLATE, Template, yaml};

use super::variable;
use crate::policy::allowed;

/// The calls that a function makes only while another system is down. The HTTP suite runs with all systems up.
const DURING_OUTAGES: [(&str, &str); 2] = [
    // Stores that a chat device must be removed when the homeserver is back.
    ("ErasureFunction", "dynamodb:PutItem UsersTable"),
    // Reads the names of blocked users, if the homeserver was down when the user blocked them.
    ("ErasureFunction", "dynamodb:BatchGetItem UsersTable"),
];

/// The local stack records the calls of each function while the HTTP suite runs.
#[test]
#[ignore = "needs the recorded calls of the HTTP suite: run tests/real-components"]
fn roles_allow_exactly_the_calls_that_functions_make() {
    let stack = Template::parse(TEMPLATE).unwrap().resolve(&BTreeMap::new()).unwrap();
    let recorded = std::fs::read_to_string(variable("TOUCHLINE_TEST_CALLS"))
        .expect("the HTTP suite has recorded its calls");
    let suffix = |name: &str| name.rsplit('-').next().unwrap().to_owned();
    let logical: BTreeMap<String, &str> =
        stack.tables.iter().map(|table| (suffix(&table.name), table.logical_id.as_str())).collect();
    let mut made: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for line in recorded.lines() {
        let [function, action, resource] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let (table, index) = resource.split_once('/').unwrap_or((resource, ""));
        let slash = if index.is_empty() { "" } else { "/" };
        let resource = format!("{}{slash}{index}", logical[&suffix(table)]);
        made.entry(function).or_default().insert(format!("{action} {resource}"));
    }
    let resources = yaml::parse(TEMPLATE).unwrap()["Resources"].clone();
    let mut wrong = Vec::new();
    for (id, resource) in resources.as_object().unwrap() {
        if resource["Type"] != "AWS::Serverless::Function" {
            continue;
        }
        let name = resource["Metadata"]["BuildProperties"]["Binary"].as_str().unwrap();
        let (allowed, made) = (allowed(&resource["Properties"]), made.remove(name).unwrap_or_default());
        wrong.extend(
            made.difference(&allowed)
                .map(|call| format!("{id} makes the call {call}, which its role does not allow")),
        );
        wrong.extend(
            allowed
                .difference(&made)
                .filter(|call| !DURING_OUTAGES.contains(&(id.as_str(), call.as_str())))
                .map(|call| format!("the role of {id} allows {call}, which is never called")),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(made.is_empty(), "calls of unknown functions: {made:?}");
}
