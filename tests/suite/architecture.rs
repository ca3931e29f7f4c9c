//! The structure of the code: layers, cycles between modules, and dependencies between crates.
//!
//! A module is a file. It imports another module if it names an item of that module: in a `use`, or with a path such
//! as `crate::domain::UserId` or `child::handle`. A path is followed through re-exports to the file that defines the
//! item, so `crate::App` imports `app.rs` and not `lib.rs`. Three kinds of code do not count: tests (`#[cfg(test)]`), a
//! parent's `pub use` of its own children, and macros called by their bare name.

mod modules;
mod source;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use modules::{Edge, Modules};

use crate::contract::root;

/// The layers of `shared/src`, from top to bottom. A module imports only from layers below its own.
const LAYERS: [&[&str]; 8] = [
    &["lambda", "telemetry"],
    &["http"],
    &["flows"],
    &["app", "error"],
    &["storage", "ports"],
    &["api"],
    &["config"],
    &["domain"],
];

/// The allowed imports between modules of the same layer. All other such imports are violations.
const PEERS: [(&str, &str); 2] = [
    // The entry point of the process sets up the logs.
    ("lambda", "telemetry"),
    // Methods of `App` return errors.
    ("app", "error"),
];

/// The text of each file of a crate, by its path within `src`.
type Files = BTreeMap<String, String>;

/// Describes each import that violates the order of the layers.
fn layer_violations(modules: &Modules) -> Vec<String> {
    let mut violations = Vec::new();
    for edge in modules.imports() {
        let Some(from) = modules.top_level(edge.from) else { continue };
        // A path can name an upper layer that re-exports an item of a lower layer. So both are checked: the
        // layer that the path names, and the layer that defines the item.
        for to in
            [edge.written_top_level(), modules.top_level(edge.to).map(str::to_owned)].into_iter().flatten()
        {
            if let Some(rule) = broken_rule(from, &to) {
                violations.push(format!("{}: {rule}", modules.describe(edge)));
                break;
            }
        }
    }
    violations
}

fn broken_rule(from: &str, to: &str) -> Option<String> {
    let layer = |module: &str| LAYERS.iter().position(|layer| layer.contains(&module));
    if from == to || PEERS.contains(&(from, to)) {
        return None;
    }
    let (Some(above), Some(below)) = (layer(from), layer(to)) else {
        let unknown = if layer(from).is_none() { from } else { to };
        return Some(format!("`{unknown}` has no layer. Add it to LAYERS in tests/suite/architecture.rs."));
    };
    match above.cmp(&below) {
        std::cmp::Ordering::Less => None,
        std::cmp::Ordering::Equal => Some(format!(
            "`{from}` and `{to}` are peers and must not import each other. Move what both need to a layer below."
        )),
        std::cmp::Ordering::Greater => Some(format!(
            "`{from}` is below `{to}`. Pass the value as an argument, or move the item down to `{from}` or below."
        )),
    }
}

/// Describes each cycle between modules.
fn cycles(modules: &Modules) -> Vec<String> {
    let describe = |cycle: Vec<&Edge>| {
        let mut text = "a cycle between modules:".to_owned();
        for edge in cycle {
            let _ = write!(text, "\n    {}", modules.describe(edge));
        }
        text + "\n  Move what they share to a module of its own that imports none of them."
    };
    modules.cycles().into_iter().map(describe).collect()
}

/// The kind of a crate. The top-level folder of the crate determines the kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Shared,
    Function,
    Infra,
}

/// Describes each dependency that the kind of the crate does not allow. Tests (`dev-dependencies`) may depend
/// on anything.
fn dependency_violations(
    manifest: &str,
    text: &str,
    kind: Kind,
    crates: &BTreeMap<String, Kind>,
) -> Vec<String> {
    let mut violations = Vec::new();
    let mut counts = false;
    for (number, line) in (1..).zip(text.lines()) {
        let dependency = match line.trim().strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            Some(section) => {
                // For example `[dependencies]`, `[target.'cfg(unix)'.dependencies]` or `[dependencies.touchline]`.
                let (section, name) = match section.rsplit_once("dependencies.") {
                    Some((before, name)) => (format!("{before}dependencies"), Some(name)),
                    None => (section.to_owned(), None),
                };
                counts = section.ends_with("dependencies") && !section.ends_with("dev-dependencies");
                name
            }
            None => line.split_once(['.', '=', ' ']).map(|(name, _)| name),
        };
        let Some((dependency, other)) =
            dependency.filter(|_| counts).and_then(|name| crates.get_key_value(name.trim_matches('"')))
        else {
            continue;
        };
        let rule = match (kind, other) {
            (Kind::Shared, Kind::Function | Kind::Infra) => "shared code depends on no function and no tool",
            (Kind::Function, Kind::Function) => "functions do not depend on each other outside tests",
            (Kind::Function, Kind::Infra) => "functions depend on tools only in tests",
            _ => continue,
        };
        violations.push(format!(
            "{manifest}:{number} depends on `{dependency}`: {rule}. Move what both need to shared."
        ));
    }
    violations
}

fn rust_files(folder: &Path) -> Files {
    let mut files = Files::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|extension| extension == "rs") {
                let name = entry.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
                files.insert(name, std::fs::read_to_string(&entry).unwrap());
            }
        }
    }
    files
}

/// Returns the folder and the kind of every crate of the product.
fn crates() -> Vec<(PathBuf, Kind)> {
    let mut crates = vec![(PathBuf::from("shared"), Kind::Shared)];
    for (folder, kind) in [("functions", Kind::Function), ("infra", Kind::Infra)] {
        let entries = std::fs::read_dir(root().join(folder)).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        crates.extend(names.into_iter().map(|name| (Path::new(folder).join(name), kind)));
    }
    // `infra` also contains a folder of scripts, which is not a crate.
    crates.retain(|(folder, _)| root().join(folder).join("Cargo.toml").exists());
    crates
}

#[track_caller]
fn assert_none(violations: &[String]) {
    assert!(violations.is_empty(), "{} violations:\n- {}", violations.len(), violations.join("\n- "));
}

#[test]
fn shared_code_imports_only_from_layers_below() {
    let modules = Modules::parse("shared/src", &rust_files(&root().join("shared/src")));
    assert_none(&layer_violations(&modules));
}

#[test]
fn no_crate_has_a_cycle_between_modules() {
    let mut violations = Vec::new();
    for (folder, _) in crates() {
        let src = folder.join("src");
        let modules = Modules::parse(src.to_str().unwrap(), &rust_files(&root().join(&src)));
        violations.extend(cycles(&modules));
    }
    assert_none(&violations);
}

#[test]
fn every_crate_has_only_dependencies_that_its_kind_allows() {
    let read = |folder: &Path| std::fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap();
    let name = |manifest: &str| {
        manifest.lines().find_map(|line| line.strip_prefix("name = ")).unwrap().trim_matches('"').to_owned()
    };
    let kinds = crates().into_iter().map(|(folder, kind)| (name(&read(&folder)), kind)).collect();
    let mut violations = Vec::new();
    for (folder, kind) in crates() {
        let manifest = folder.join("Cargo.toml");
        violations.extend(dependency_violations(manifest.to_str().unwrap(), &read(&folder), kind, &kinds));
    }
    assert_none(&violations);
}

/// Tests the rules themselves, on made-up crates.
mod examples {
    use super::*;

    fn modules(files: &[(&str, &str)]) -> Modules {
        let files = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        Modules::parse("example/src", &files)
    }

    #[test]
    fn an_import_from_a_layer_above_is_a_violation() {
        let example = modules(&[
            ("lib.rs", "pub mod domain;\npub mod storage;"),
            ("storage.rs", "use crate::domain::UserId;\n\npub struct Store;"),
            ("domain.rs", "//! Rules.\n\nuse crate::storage::Store;\n\npub struct UserId(u32);"),
        ]);
        assert_eq!(
            layer_violations(&example),
            ["example/src/domain.rs:3 imports crate::storage::Store: `domain` is below `storage`. \
              Pass the value as an argument, or move the item down to `domain` or below."]
        );
    }

    #[test]
    fn an_upward_import_through_the_crate_root_or_in_a_macro_is_a_violation() {
        let example = modules(&[
            ("lib.rs", "pub mod app;\npub mod domain;\npub use app::App;"),
            ("app.rs", "pub struct App;"),
            ("domain.rs", "mod time;\nfn f() { vec![super::App]; }"),
            ("domain/time.rs", "use crate::{App as A, domain};"),
        ]);
        let violations = layer_violations(&example);
        assert_eq!(violations.len(), 2, "{violations:?}");
        assert!(violations[0].starts_with("example/src/domain.rs:2 imports super::App: "), "{violations:?}");
        assert!(
            violations[1].starts_with("example/src/domain/time.rs:1 imports crate::App: "),
            "{violations:?}"
        );
    }

    #[test]
    fn an_undeclared_import_between_peers_is_a_violation() {
        let example = modules(&[
            ("lib.rs", "mod lambda; mod ports; mod storage; mod telemetry;"),
            ("lambda.rs", "use crate::telemetry;"),
            ("telemetry.rs", ""),
            ("ports.rs", "pub trait Chat {}"),
            ("storage.rs", "use crate::ports::Chat;"),
        ]);
        let violations = layer_violations(&example);
        assert_eq!(violations.len(), 1, "{violations:?}");
        assert!(violations[0].contains("`storage` and `ports` are peers"), "{violations:?}");
    }

    #[test]
    fn a_module_without_a_layer_is_a_violation() {
        let example = modules(&[
            ("lib.rs", "mod domain; mod utils;"),
            ("domain.rs", ""),
            ("utils.rs", "use crate::domain::UserId;"),
        ]);
        assert!(layer_violations(&example)[0].contains("`utils` has no layer"));
    }

    #[test]
    fn modules_that_import_each_other_are_a_cycle() {
        let example = modules(&[
            ("lib.rs", "mod storage;"),
            ("storage/mod.rs", "mod keys; mod members; mod stream; mod tallies;"),
            ("storage/keys.rs", "pub struct Key;"),
            ("storage/members.rs", "use super::keys::Key;\nuse super::tallies::Tally;\npub struct Member;"),
            ("storage/tallies.rs", "use super::{keys, stream::Change};\npub struct Tally;"),
            ("storage/stream.rs", "pub struct Change;\nfn f(_: crate::storage::members::Member) {}"),
        ]);
        assert_eq!(
            cycles(&example),
            ["a cycle between modules:\
              \n    example/src/storage/members.rs:2 imports super::tallies::Tally\
              \n    example/src/storage/tallies.rs:1 imports super::stream::Change\
              \n    example/src/storage/stream.rs:2 imports crate::storage::members::Member\
              \n  Move what they share to a module of its own that imports none of them."]
        );
    }

    #[test]
    fn a_parent_and_a_child_that_use_each_other_are_a_cycle() {
        let example = modules(&[
            ("lib.rs", "mod join;\nfn router() { on(join::handle) }\nfn room() {}"),
            ("join.rs", "use crate::room;\npub fn handle() {}"),
        ]);
        assert_eq!(cycles(&example).len(), 1);
    }

    #[test]
    fn a_parent_that_only_declares_and_re_exports_its_children_is_not_part_of_a_cycle() {
        let example = modules(&[
            ("lib.rs", "mod api;"),
            ("api/mod.rs", "mod coins;\npub use coins::Deduct;\npub trait Endpoint {}"),
            ("api/coins.rs", "use super::Endpoint;\npub struct Deduct;\nimpl Endpoint for Deduct {}"),
        ]);
        assert_eq!(cycles(&example), [""; 0]);
    }

    #[test]
    fn imports_in_tests_comments_and_strings_do_not_count() {
        let example = modules(&[
            ("lib.rs", "mod domain; mod storage;\n#[cfg(test)] mod testing;"),
            ("storage.rs", "use crate::domain::UserId;"),
            (
                "domain.rs",
                "// use crate::storage::Store;\n/// See [`crate::storage::Store`].\npub struct UserId;\n\
                 const TEXT: &str = \"crate::storage::Store\";\n\
                 #[cfg(test)] use crate::storage::{A, B};\n\
                 #[cfg(test)]\nmod tests { use crate::storage::Store; use super::*; }",
            ),
            ("testing.rs", "use crate::storage::Store;"),
        ]);
        assert_eq!(layer_violations(&example), [""; 0]);
        assert_eq!(cycles(&example), [""; 0]);
    }

    #[test]
    fn a_dependency_that_the_kind_does_not_allow_is_a_violation_outside_tests() {
        let crates = BTreeMap::from([
            ("touchline".to_owned(), Kind::Shared),
            ("chat".to_owned(), Kind::Function),
            ("login".to_owned(), Kind::Function),
            ("touchline-testing".to_owned(), Kind::Infra),
        ]);
        let manifest = "[package]\nname = \"chat\"\n\n[dependencies]\ntouchline.workspace = true\n\
                        login = { path = \"../login\" }\n\n[dev-dependencies]\nlogin.workspace = true\n\
                        touchline-testing.workspace = true\n";
        let violations =
            dependency_violations("functions/chat/Cargo.toml", manifest, Kind::Function, &crates);
        assert_eq!(
            violations,
            [
                "functions/chat/Cargo.toml:6 depends on `login`: functions do not depend on each other outside tests. \
              Move what both need to shared."
            ]
        );
        let manifest = "[dependencies.touchline-testing]\nworkspace = true\n";
        let violations = dependency_violations("shared/Cargo.toml", manifest, Kind::Shared, &crates);
        assert_eq!(violations.len(), 1, "{violations:?}");
    }
}
