use std::collections::HashMap;

/// The slug of a name that has no letters or digits.
const FALLBACK: &str = "team";

/// Returns the slug of a name. The slug is never empty.
pub fn slug(name: &str) -> String {
    let slug = touchline::domain::catalog::slug(name);
    if slug.is_empty() { FALLBACK.into() } else { slug }
}

/// Slugs that are taken, each with the id of its owner.
pub struct Slugs(HashMap<String, u32>);

impl Slugs {
    pub fn of(taken: impl Iterator<Item = (String, u32)>) -> Self {
        Self(taken.collect())
    }

    /// Reserves a slug for the row `id` and returns the slug: `wanted`, or `<wanted>-<id>` if another row has
    /// `wanted`, or `<wanted>-<id>-<n>` if other rows have both.
    pub fn claim(&mut self, id: u32, wanted: &str) -> String {
        let is_free = |slug: &String| self.0.get(slug).is_none_or(|owner| *owner == id);
        let alternatives =
            (1..).map(|n| if n == 1 { format!("{wanted}-{id}") } else { format!("{wanted}-{id}-{n}") });
        let slug = std::iter::once(wanted.to_owned()).chain(alternatives).find(is_free).unwrap_or_default();
        self.0.insert(slug.clone(), id);
        slug
    }
}
