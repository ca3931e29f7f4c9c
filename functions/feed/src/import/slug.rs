use std::collections::HashMap;

use touchline::domain::catalog::fold;

/// A name as part of an address: `1. FC Köln` becomes `1-fc-koln`.
pub fn slug(name: &str) -> String {
    let mut slug = String::new();
    for c in fold(name).chars() {
        if c.is_ascii_alphanumeric() {
            slug.push(c);
        } else if !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let slug = slug.trim_matches('-');
    if slug.is_empty() { "team".into() } else { slug.to_owned() }
}

/// Slugs that are taken, each with the id of its owner.
pub struct Slugs(HashMap<String, u32>);

impl Slugs {
    pub fn of(taken: impl Iterator<Item = (String, u32)>) -> Self {
        Self(taken.collect())
    }

    /// Takes `wanted` for `id`, or, if another row has it, `wanted` with the id appended.
    pub fn claim(&mut self, id: u32, wanted: &str) -> String {
        let is_free = |slug: &String| self.0.get(slug).is_none_or(|owner| *owner == id);
        let alternatives =
            (1..).map(|n| if n == 1 { format!("{wanted}-{id}") } else { format!("{wanted}-{id}-{n}") });
        let slug = std::iter::once(wanted.to_owned()).chain(alternatives).find(is_free).unwrap_or_default();
        self.0.insert(slug.clone(), id);
        slug
    }
}
