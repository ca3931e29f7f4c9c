//! What one file declares and which paths it names.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A path that a file names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    pub line: usize,
    /// The segments of the path, such as `["super", "keys", "Key"]`. The path of a glob ends before its `*`.
    pub path: Vec<String>,
    pub kind: NameKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameKind {
    /// A path in an expression, in a type, or in a `use` inside an inline module.
    Path,
    /// A `use` of the path. `name` is the name that the `use` declares, or `None` for a glob.
    Use { name: Option<String>, is_public: bool },
}

#[derive(Debug, Default)]
pub struct Source {
    /// The child modules that have files of their own.
    pub children: Vec<String>,
    /// The names of items that the file defines.
    pub items: BTreeSet<String>,
    pub names: Vec<Named>,
}

impl Source {
    pub fn parse(file: &str, text: &str) -> Self {
        let tokens: TokenStream = text.parse().unwrap_or_else(|error| panic!("{file}: {error}"));
        let mut source = Self::default();
        source.scan(&tokens.into_iter().collect::<Vec<_>>(), 0);
        source
    }

    /// Reads the tokens of a file or of a part of it. `depth` is the number of inline modules around the
    /// tokens.
    fn scan(&mut self, tokens: &[TokenTree], depth: usize) {
        let mut at = 0;
        while at < tokens.len() {
            if let Some(attribute) = attribute(&tokens[at..]) {
                at += 2;
                if is_cfg_test(&attribute) {
                    at += item_length(&tokens[at..]);
                }
                continue;
            }
            match (&tokens[at], tokens.get(at + 1)) {
                (TokenTree::Ident(word), Some(next)) if *word == "use" && !is_punct(next, '<') => {
                    let end = tokens[at..].iter().position(|token| is_punct(token, ';'));
                    let end = end.map_or(tokens.len(), |end| at + end);
                    let is_public = is_public(&tokens[..at]);
                    self.use_tree(&tokens[at + 1..end], &[], depth, is_public);
                    at = end;
                }
                (TokenTree::Ident(word), Some(TokenTree::Ident(name))) if is_item(&word.to_string()) => {
                    let is_module = *word == "mod";
                    match tokens.get(at + 2) {
                        Some(TokenTree::Group(body)) if is_module => {
                            self.scan(&body.stream().into_iter().collect::<Vec<_>>(), depth + 1);
                            at += 1;
                        }
                        Some(end) if is_module && depth == 0 && is_punct(end, ';') => {
                            self.children.push(name.to_string());
                        }
                        _ => {}
                    }
                    if depth == 0 {
                        self.items.insert(name.to_string());
                    }
                    at += 1;
                }
                (TokenTree::Ident(first), Some(_)) => {
                    let (path, length) = path(&tokens[at..]);
                    let is_start =
                        at == 0 || !is_punct(&tokens[at - 1], '.') && !follows_colons(&tokens[..at]);
                    if path.len() > 1 && is_start {
                        self.name(first.span().start().line, path, depth, NameKind::Path);
                    }
                    at += length - 1;
                }
                (TokenTree::Group(group), _) => {
                    self.scan(&group.stream().into_iter().collect::<Vec<_>>(), depth);
                }
                _ => {}
            }
            at += 1;
        }
    }

    /// Reads the tree of a `use`, such as `a::{b, c as d, e::*}`.
    fn use_tree(&mut self, tokens: &[TokenTree], prefix: &[String], depth: usize, is_public: bool) {
        for tree in tokens.split(|token| is_punct(token, ',')).filter(|tree| !tree.is_empty()) {
            let line = tree[0].span().start().line;
            let start = tree.iter().position(|token| !is_punct(token, ':')).unwrap_or(0);
            let tree = &tree[start..];
            let (mut path, length) = match tree.first() {
                Some(TokenTree::Ident(_)) => path(tree),
                _ => (Vec::new(), 0),
            };
            path.splice(0..0, prefix.iter().cloned());
            let rest: Vec<_> = tree[length..].iter().filter(|token| !is_punct(token, ':')).collect();
            let name = match rest.as_slice() {
                [TokenTree::Group(group)] => {
                    let inner: Vec<_> = group.stream().into_iter().collect();
                    self.use_tree(&inner, &path, depth, is_public);
                    continue;
                }
                [TokenTree::Punct(_)] => None,
                [TokenTree::Ident(_), TokenTree::Ident(renamed)] => Some(renamed.to_string()),
                _ => {
                    // `use a::{self}` imports `a`.
                    if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
                        path.pop();
                    }
                    path.last().cloned()
                }
            };
            self.name(line, path, depth, NameKind::Use { name, is_public });
        }
    }

    fn name(&mut self, line: usize, mut path: Vec<String>, depth: usize, kind: NameKind) {
        // Make the path relative to the file's own module. In an inline module at nesting depth `depth`, up to
        // `depth` leading `super` segments stay inside this file, so remove them.
        let inline = path.iter().take_while(|segment| *segment == "super").count().min(depth);
        path.drain(..inline);
        if inline > 0 && path.first().is_none_or(|first| first != "super") {
            path.insert(0, "self".into());
        }
        let is_alias = depth == 0 || matches!(kind, NameKind::Path);
        let kind = if is_alias { kind } else { NameKind::Path };
        self.names.push(Named { line, path, kind });
    }
}

fn is_item(word: &str) -> bool {
    ["mod", "fn", "struct", "enum", "union", "trait", "type", "const", "static"].contains(&word)
}

fn is_punct(token: &TokenTree, character: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == character)
}

fn follows_colons(before: &[TokenTree]) -> bool {
    matches!(before, [.., first, second] if is_punct(first, ':') && is_punct(second, ':'))
}

/// Returns whether the tokens before an item end with `pub` or `pub(…)`.
fn is_public(before: &[TokenTree]) -> bool {
    let is_pub = |token: &TokenTree| matches!(token, TokenTree::Ident(word) if *word == "pub");
    match before {
        [.., keyword, TokenTree::Group(_)] if is_pub(keyword) => true,
        [.., keyword] => is_pub(keyword),
        [] => false,
    }
}

/// Returns the path at the start of these tokens, and how many tokens the path has.
fn path(tokens: &[TokenTree]) -> (Vec<String>, usize) {
    let mut path = vec![tokens[0].to_string()];
    let mut length = 1;
    while let [first, second, TokenTree::Ident(segment), ..] = &tokens[length..]
        && is_punct(first, ':')
        && is_punct(second, ':')
    {
        path.push(segment.to_string());
        length += 3;
    }
    (path, length)
}

/// Returns the attribute at the start of these tokens, if there is one. Doc comments are attributes too.
fn attribute(tokens: &[TokenTree]) -> Option<TokenStream> {
    match tokens {
        [hash, TokenTree::Group(group), ..]
            if is_punct(hash, '#') && group.delimiter() == Delimiter::Bracket =>
        {
            Some(group.stream())
        }
        _ => None,
    }
}

/// Returns whether the attribute is `cfg(test)` or `cfg(all(test, …))`.
fn is_cfg_test(attribute: &TokenStream) -> bool {
    let text = attribute.to_string().replace(' ', "");
    text == "cfg(test)" || text.starts_with("cfg(all(test,")
}

/// Counts the tokens of the item at the start of `tokens`.
fn item_length(tokens: &[TokenTree]) -> usize {
    let mut at = 0;
    while attribute(&tokens[at..]).is_some() {
        at += 2;
    }
    let is_use = |token: &TokenTree| matches!(token, TokenTree::Ident(word) if *word == "use");
    let is_import = tokens[at..].iter().take(3).any(is_use);
    let is_end = |token: &TokenTree| {
        let is_body = matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
        is_punct(token, ';') || is_body && !is_import
    };
    tokens[at..].iter().position(is_end).map_or(tokens.len(), |end| at + end + 1)
}
