use std::collections::{HashMap, HashSet};

use touchline::domain::catalog::{Key, Kind};
use touchline::storage::StoreError;

use super::Import;
use super::slug::slug;
use crate::document::{NewEvent, NewSport, NewTeam, NewTournament, OWN_SOURCE, Reference};

/// This id and all higher ids are reserved for documents in our own format, which contain our ids. The import
/// ignores reserved ids when it looks for the last assigned id.
const FIRST_OWN_ID: u32 = 1_000_000;

/// The id of each row that the document refers to.
pub struct Ids {
    source: String,
    by_key: HashMap<(Kind, Key), u32>,
}

impl Ids {
    /// Returns whether the document is in our own format.
    pub fn is_own_format(&self) -> bool {
        self.source == OWN_SOURCE
    }

    pub fn of(&self, kind: Kind, reference: &Reference) -> (u32, Key) {
        let key = reference.key(&self.source, kind);
        match reference {
            Reference::Given(id) => (*id, key),
            Reference::External(_) => (self.by_key.get(&(kind, key)).copied().unwrap_or(0), key),
        }
    }
}

impl Import<'_> {
    /// Assigns a catalog id to each sport, team, tournament and match that has only an id of its source. If
    /// the catalog has a different sport with the same slug, the sport gets the id of that sport and is not
    /// imported. Returns the ids, and the sports that remain to be imported.
    pub async fn assign_ids(
        &self,
        source: &str,
        sports: Vec<NewSport>,
        teams: &[NewTeam],
        tournaments: &[NewTournament],
        events: &[NewEvent],
    ) -> Result<(Ids, Vec<NewSport>), StoreError> {
        let mut ids = Ids { source: source.to_owned(), by_key: HashMap::new() };
        let catalog = &self.catalog;
        let mut new_sports = Vec::new();
        for sport in sports {
            let key = sport.reference.key(source, Kind::Sport);
            let wanted = sport.slug.clone().unwrap_or_else(|| slug(&sport.name));
            let known = catalog.sports().find(|other| other.slug == wanted && other.key != key);
            match (&sport.reference, known) {
                (Reference::External(_), Some(known)) => {
                    ids.by_key.insert((Kind::Sport, key), known.id);
                }
                _ => new_sports.push(sport),
            }
        }
        for (kind, references, known) in [
            (
                Kind::Sport,
                new_sports.iter().map(|row| &row.reference).collect::<Vec<_>>(),
                catalog.sports().map(|row| (row.key, row.id)).collect::<HashMap<_, _>>(),
            ),
            (
                Kind::Tournament,
                tournaments.iter().map(|row| &row.reference).collect(),
                catalog.tournaments().map(|row| (row.key, row.id)).collect(),
            ),
            (
                Kind::Team,
                teams.iter().map(|row| &row.reference).collect(),
                catalog.teams().map(|row| (row.key, row.id)).collect(),
            ),
            (
                Kind::Event,
                events.iter().map(|row| &row.reference).collect(),
                catalog.events().map(|row| (row.key, row.id)).collect(),
            ),
        ] {
            let last = known.values().copied().filter(|id| *id < FIRST_OWN_ID).max().unwrap_or(0);
            let (mut missing, mut seen) = (Vec::new(), HashSet::new());
            for reference in
                references.into_iter().filter(|reference| matches!(reference, Reference::External(_)))
            {
                let key = reference.key(source, kind);
                match known.get(&key) {
                    Some(id) => {
                        ids.by_key.insert((kind, key), *id);
                    }
                    None if seen.insert(key) => missing.push(key),
                    None => {}
                }
            }
            for (key, id) in self.app.store.assign_ids(kind, &missing, last).await? {
                ids.by_key.insert((kind, key), id);
            }
        }
        Ok((ids, new_sports))
    }
}
