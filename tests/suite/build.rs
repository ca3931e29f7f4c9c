//! How cargo builds the workspace.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// The features of each dependency. Cargo builds a dependency once for each set of features.
type Features = BTreeMap<String, BTreeSet<String>>;

/// Returns the dependencies that `cargo tree` lists, without the crates of this workspace.
fn dependencies(arguments: &[&str]) -> Features {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "--prefix", "none", "--format", "{p}|{f}"])
        .args(arguments)
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut features = Features::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Some((package, set)) = line.trim_end_matches(" (*)").split_once('|') else { continue };
        let package = package.trim_end_matches(" (proc-macro)");
        if !package.contains('(') {
            features.entry(package.to_owned()).or_default().insert(set.to_owned());
        }
    }
    features
}

/// With other features, `cargo test --workspace` would compile the dependency again, after `cargo build`. To mend a failure, add the feature to
/// `infra/local/Cargo.toml`.
#[test]
fn each_dependency_of_the_local_stack_has_the_same_features_in_the_test_build() {
    let stack = dependencies(&["--package", "touchline-local", "--edges", "normal,build"]);
    let tests = dependencies(&["--workspace", "--edges", "normal,build,dev"]);
    let differing: Vec<_> = stack
        .iter()
        // The macros of the dependencies use proc-macro2 without the feature that tests/suite/architecture.rs needs.
        .filter(|(package, _)| !package.starts_with("proc-macro2 "))
        .filter(|(package, features)| tests.get(*package) != Some(features))
        .map(|(package, features)| format!("{package}: {features:?}, in the tests {:?}", tests.get(package)))
        .collect();
    assert!(stack.len() > 100, "cargo tree listed only {} dependencies", stack.len());
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}
