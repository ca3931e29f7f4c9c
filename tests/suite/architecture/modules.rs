//! The modules of a crate and their imports of each other.

use std::collections::{BTreeMap, VecDeque};

use super::Files;
use super::source::{NameKind, Named, Source};

/// How many re-exports are followed to find an item. A longer chain must be a loop.
const MAX_REEXPORTS: usize = 16;

#[derive(Debug)]
struct Module {
    file: String,
    /// The segments of the module's path, such as `["storage", "keys"]`; empty for the root of a crate.
    path: Vec<String>,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    source: Source,
}

/// An import of one module by another.
#[derive(Debug)]
pub struct Edge {
    pub from: usize,
    pub to: usize,
    line: usize,
    path: Vec<String>,
    is_reexport_of_child: bool,
}

impl Edge {
    /// Returns the top-level module that the path names: `storage` for `crate::storage::Store`.
    pub fn written_top_level(&self) -> Option<String> {
        match self.path.as_slice() {
            [first, module, _, ..] if first == "crate" => Some(module.clone()),
            _ => None,
        }
    }
}

/// The modules of all crates in a `src` folder. The crates are the library, `main.rs`, and the programs in `bin`: each
/// file there, and each folder there that contains a `main.rs`.
#[derive(Debug)]
pub struct Modules {
    src: String,
    all: Vec<Module>,
    edges: Vec<Edge>,
}

impl Modules {
    pub fn parse(src: &str, files: &Files) -> Self {
        let mut modules = Self { src: src.to_owned(), all: Vec::new(), edges: Vec::new() };
        for file in files.keys() {
            let is_root = match file.strip_prefix("bin/") {
                Some(program) => !program.contains('/') || program.ends_with("/main.rs"),
                None => file == "lib.rs" || file == "main.rs",
            };
            if is_root {
                modules.add(files, file, &[], None);
            }
        }
        for from in 0..modules.all.len() {
            for named in &modules.all[from].source.names {
                let Some(to) = modules.resolve(from, &named.path, MAX_REEXPORTS).filter(|to| *to != from)
                else {
                    continue;
                };
                let is_public = matches!(named.kind, NameKind::Use { is_public: true, .. });
                let is_reexport_of_child = is_public && modules.is_inside(to, from);
                let Named { line, path, .. } = named.clone();
                modules.edges.push(Edge { from, to, line, path, is_reexport_of_child });
            }
        }
        modules
    }

    fn add(&mut self, files: &Files, file: &str, path: &[String], parent: Option<usize>) -> usize {
        let source = Source::parse(file, &files[file]);
        let children = source.children.clone();
        let index = self.all.len();
        let module =
            Module { file: file.to_owned(), path: path.to_vec(), parent, children: BTreeMap::new(), source };
        self.all.push(module);
        let root = &self.all[self.root(index)].file;
        let base = root.strip_suffix("main.rs").filter(|base| base.starts_with("bin/")).unwrap_or_default();
        let folder = path.iter().fold(base.to_owned(), |folder, part| folder + part.as_str() + "/");
        for name in children {
            let candidates = [format!("{folder}{name}.rs"), format!("{folder}{name}/mod.rs")];
            let child = candidates.iter().find(|candidate| files.contains_key(*candidate));
            let child = child.unwrap_or_else(|| panic!("{file}: there is no file for mod {name}"));
            let child = self.add(files, child, &[path, std::slice::from_ref(&name)].concat(), Some(index));
            self.all[index].children.insert(name, child);
        }
        index
    }

    /// Returns the module that defines the item at `path`. Returns `None` for a path to another crate. Also
    /// returns `None` for a path whose first name comes from a `use`, because the `use` is counted separately.
    fn resolve(&self, from: usize, path: &[String], reexports: usize) -> Option<usize> {
        let (first, mut rest) = path.split_first()?;
        let mut module = match first.as_str() {
            "crate" => self.root(from),
            "self" => from,
            "super" => self.all[from].parent?,
            child => *self.all[from].children.get(child)?,
        };
        while let Some((segment, after)) = rest.split_first() {
            if segment == "super" {
                module = self.all[module].parent?;
            } else if let Some(child) = self.all[module].children.get(segment) {
                module = *child;
            } else {
                return self.definition(module, rest, reexports);
            }
            rest = after;
        }
        Some(module)
    }

    /// Returns the module that defines the first name of `rest`: `module`, or the module from which
    /// `module` imports that name.
    fn definition(&self, module: usize, rest: &[String], reexports: usize) -> Option<usize> {
        let source = &self.all[module].source;
        if source.items.contains(&rest[0]) || reexports == 0 {
            return Some(module);
        }
        for named in &source.names {
            let NameKind::Use { name, .. } = &named.kind else { continue };
            match name {
                Some(name) if *name == rest[0] => {
                    let path = [named.path.as_slice(), &rest[1..]].concat();
                    return self.resolve(module, &path, reexports - 1);
                }
                None => {
                    let glob = self.resolve(module, &named.path, reexports - 1);
                    if let Some(glob) = glob.filter(|glob| self.all[*glob].source.items.contains(&rest[0])) {
                        return Some(glob);
                    }
                }
                Some(_) => {}
            }
        }
        Some(module)
    }

    fn root(&self, mut module: usize) -> usize {
        while let Some(parent) = self.all[module].parent {
            module = parent;
        }
        module
    }

    fn is_inside(&self, mut module: usize, ancestor: usize) -> bool {
        while let Some(parent) = self.all[module].parent {
            if parent == ancestor {
                return true;
            }
            module = parent;
        }
        false
    }

    /// Returns the top-level module: `storage` for `storage::keys`, `None` for the root of the crate.
    pub fn top_level(&self, module: usize) -> Option<&str> {
        self.all[module].path.first().map(String::as_str)
    }

    pub fn imports(&self) -> impl Iterator<Item = &Edge> {
        self.edges.iter()
    }

    pub fn describe(&self, edge: &Edge) -> String {
        format!("{}/{}:{} imports {}", self.src, self.all[edge.from].file, edge.line, edge.path.join("::"))
    }

    /// Returns cycles that together contain every module that is part of a cycle.
    pub fn cycles(&self) -> Vec<Vec<&Edge>> {
        let mut cycles: Vec<Vec<&Edge>> = Vec::new();
        for module in 0..self.all.len() {
            let is_known = cycles.iter().flatten().any(|edge| edge.from == module);
            if let Some(cycle) = self.cycle_through(module).filter(|_| !is_known) {
                cycles.push(cycle);
            }
        }
        cycles
    }

    /// Returns the shortest cycle through a module, found by breadth-first search.
    fn cycle_through(&self, start: usize) -> Option<Vec<&Edge>> {
        let mut reached_by: BTreeMap<usize, &Edge> = BTreeMap::new();
        let mut queue = VecDeque::from([start]);
        while let Some(module) = queue.pop_front() {
            for edge in self.edges.iter().filter(|edge| edge.from == module && !edge.is_reexport_of_child) {
                if reached_by.contains_key(&edge.to) {
                    continue;
                }
                reached_by.insert(edge.to, edge);
                if edge.to == start {
                    let mut cycle = vec![edge];
                    while cycle[cycle.len() - 1].from != start {
                        cycle.push(reached_by[&cycle[cycle.len() - 1].from]);
                    }
                    cycle.reverse();
                    return Some(cycle);
                }
                queue.push_back(edge.to);
            }
        }
        None
    }
}
