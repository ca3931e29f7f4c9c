//! Finds the Lambda function for a method and a path.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};
use touchline::api;
use touchline_stack::Stack;

/// A route of the template with its Lambda function.
#[derive(Debug)]
pub(super) struct Target {
    method: String,
    /// The path as declared in the template: `/api/events/{event}`.
    pub path: String,
    pub function: String,
}

#[derive(Debug)]
pub(super) struct Routes(matchit::Router<Vec<Target>>);

impl Routes {
    pub fn new(stack: &Stack) -> Self {
        let mut by_path: BTreeMap<String, Vec<Target>> = BTreeMap::new();
        for function in &stack.functions {
            for route in &function.routes {
                by_path.entry(api::shape(&route.path)).or_default().push(Target {
                    method: route.method.clone(),
                    path: route.path.clone(),
                    function: function.name.clone(),
                });
            }
        }
        let mut router = matchit::Router::new();
        for (path, targets) in by_path {
            router.insert(path, targets).expect("the map has each path once");
        }
        Self(router)
    }

    /// Returns whether the API has the path, with any method.
    pub fn contains(&self, path: &str) -> bool {
        self.0.at(path).is_ok()
    }

    /// Returns the target of a request, with the decoded path parameters.
    pub fn find(&self, method: &str, path: &str) -> Option<(&Target, Map<String, Value>)> {
        let found = self.0.at(path).ok()?;
        let target = found.value.iter().find(|target| target.method == method)?;
        let decoded = |value| percent_decode_str(value).decode_utf8_lossy().into_owned().into();
        let values = found.params.iter().map(|(_, value)| decoded(value));
        let parameters = api::parameter_names(&target.path).map(str::to_owned).zip(values).collect();
        Some((target, parameters))
    }
}
