//! Applies a document: ids, rows, snapshot. Each step can be stopped after any write and repeated.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use touchline::App;
use touchline::domain::catalog::{Catalog, Key, Kind, Match, Score, Sport, Status, Team, Tournament, fold};
use touchline::domain::{Room, RoomId};
use touchline::storage::catalog::{Head, Index, Loaded, Replacement, Row, Written};
use touchline::storage::settlements::Due;
use touchline::storage::{Reads, StoreError};

use crate::document::{Document, NewEvent, NewSport, NewTeam, NewTournament, Reference, Rejected};
use crate::merge::{Rows, changed_chunks};
use crate::{FeedError, Report};

/// A featured match takes 64,000 predictions a second, any other 4,000.
const SHARDS: (u8, u8) = (64, 4);

/// How long a replaced chunk stays for those who are still reading it.
const GRACE: TimeDelta = TimeDelta::hours(1);

/// Ids from here on are never given out: they are for documents that bring their own.
const OWN_IDS: u32 = 1_000_000;

/// Clocks differ, but not by more than this.
const SKEW: TimeDelta = TimeDelta::minutes(5);

pub async fn import(app: &App, document: Document) -> Result<Report, FeedError> {
    let now = app.clock.now();
    if document.as_of.is_some_and(|as_of| as_of > now + SKEW) {
        return Err(FeedError::BadAsOf);
    }
    let loaded = load(app).await?;
    let mut import = Import {
        app,
        now,
        as_of: document.as_of.unwrap_or(now),
        is_dated: document.as_of.is_some(),
        catalog: loaded.known(),
        rows: Rows::default(),
        refused: HashSet::new(),
        report: Report::default(),
    };
    for rejected in document.rejected {
        import.reject(rejected.row, rejected.reason);
    }
    let (ids, sports) = import
        .ids(&document.source, document.sports, &document.teams, &document.tournaments, &document.events)
        .await?;
    import.sports(&ids, sports).await?;
    import.tournaments(&ids, document.tournaments).await?;
    import.teams(&ids, document.teams).await?;
    import.events(&ids, document.events).await?;

    let Import { rows, report, .. } = import;
    publish(app, loaded, rows).await?;
    Ok(report)
}

/// Publishes a snapshot of every row there is.
pub async fn rebuild(app: &App) -> Result<Report, FeedError> {
    let base = from_rows(app).await?;
    let known = base.known();
    let unchanged =
        known.sports().count() + known.teams().count() + known.tournaments().count() + known.events().count();
    publish(app, base, Rows::default()).await?;
    Ok(Report { unchanged, ..Report::default() })
}

/// What the next snapshot is made from.
enum Base {
    /// Nothing has been published yet.
    Nothing,
    Snapshot(Loaded),
    /// There is a snapshot that cannot be read, say of another version of this program: the rows then.
    Rows {
        head: Option<Head>,
        catalog: Arc<Catalog>,
    },
}

impl Base {
    /// What an import can refer to.
    fn known(&self) -> Arc<Catalog> {
        match self {
            Self::Nothing => Arc::default(),
            Self::Snapshot(loaded) => Arc::clone(&loaded.catalog),
            Self::Rows { catalog, .. } => Arc::clone(catalog),
        }
    }

    /// What is published, as far as it can be read.
    fn published(&self) -> Arc<Catalog> {
        match self {
            Self::Snapshot(loaded) => Arc::clone(&loaded.catalog),
            Self::Nothing | Self::Rows { .. } => Arc::default(),
        }
    }

    fn head(&self) -> Option<&Head> {
        match self {
            Self::Nothing => None,
            Self::Snapshot(loaded) => Some(&loaded.head),
            Self::Rows { head, .. } => head.as_ref(),
        }
    }
}

async fn load(app: &App) -> Result<Base, StoreError> {
    match app.latest_catalog().await {
        Ok(Some(loaded)) => Ok(Base::Snapshot(loaded)),
        Ok(None) => Ok(Base::Nothing),
        Err(StoreError::Unreadable(what)) => {
            tracing::warn!(what, "the snapshot cannot be read; it is built anew from the rows");
            from_rows(app).await
        }
        Err(error) => Err(error),
    }
}

async fn from_rows(app: &App) -> Result<Base, StoreError> {
    let head = app.store.catalog_head(Reads::Consistent).await?;
    let chunks = changed_chunks(&Catalog::default(), &all_rows(app).await?);
    let chunks = chunks.into_iter().filter_map(|(name, chunk)| Some((name, Arc::new(chunk?)))).collect();
    Ok(Base::Rows { head, catalog: Arc::new(Catalog::new(chunks)) })
}

async fn all_rows(app: &App) -> Result<Rows, StoreError> {
    Ok(Rows {
        sports: app.store.all_rows().await?,
        teams: app.store.all_rows().await?,
        tournaments: app.store.all_rows().await?,
        events: app.store.all_rows().await?,
    })
}

struct Import<'a> {
    app: &'a App,
    now: DateTime<Utc>,
    as_of: DateTime<Utc>,
    /// Whether the document says itself of when it is.
    is_dated: bool,
    catalog: Arc<Catalog>,
    /// What the snapshot must show, of what the document names.
    rows: Rows,
    /// Rows of the document that were not taken: nothing of the same document may point to them.
    refused: HashSet<(Kind, u32)>,
    report: Report,
}

/// What each reference of the document means.
struct Ids {
    source: String,
    by_key: HashMap<(Kind, Key), u32>,
}

impl Ids {
    fn of(&self, kind: Kind, reference: &Reference) -> (u32, Key) {
        let key = reference.key(&self.source, kind);
        match reference {
            Reference::Given(id) => (*id, key),
            Reference::External(_) => (self.by_key.get(&(kind, key)).copied().unwrap_or(0), key),
        }
    }
}

/// What to do with a row.
enum Decision<T> {
    /// `changed` is false where only its date is new.
    Write {
        row: T,
        changed: bool,
    },
    Keep(T),
    Refuse(String),
}

impl Import<'_> {
    fn reject(&mut self, row: String, reason: String) {
        self.report.rejected += 1;
        if self.report.reasons.len() < 100 {
            self.report.reasons.push(Rejected { row, reason });
        }
    }

    /// Ids for everything that the document names by ids of its own; and the sports that are new. A sport
    /// that another source brought already is the same sport.
    async fn ids(
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
            let last = known.values().copied().filter(|id| *id < OWN_IDS).max().unwrap_or(0);
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

    async fn sports(&mut self, ids: &Ids, sports: Vec<NewSport>) -> Result<(), StoreError> {
        let mut slugs = Slugs::of(self.catalog.sports().map(|sport| (sport.slug.clone(), sport.id)));
        let wanted: Vec<_> = sports
            .into_iter()
            .map(|new| {
                let (id, key) = ids.of(Kind::Sport, &new.reference);
                let slug = slugs.claim(id, &new.slug.unwrap_or_else(|| slug(&new.name)));
                (new.name.clone(), Sport { id, name: new.name, slug, key, as_of: self.as_of })
            })
            .collect();
        self.rows.sports = self.apply(wanted, |_, wanted| wanted).await?;
        Ok(())
    }

    async fn tournaments(&mut self, ids: &Ids, tournaments: Vec<NewTournament>) -> Result<(), StoreError> {
        let wanted: Vec<_> = tournaments
            .into_iter()
            .map(|new| {
                let (id, key) = ids.of(Kind::Tournament, &new.reference);
                let row = Tournament {
                    id,
                    name: new.name.clone(),
                    logo: new.logo,
                    featured: new.featured,
                    key,
                    as_of: self.as_of,
                };
                (new.name, row)
            })
            .collect();
        self.rows.tournaments = self.apply(wanted, |_, wanted| wanted).await?;
        Ok(())
    }

    async fn teams(&mut self, ids: &Ids, teams: Vec<NewTeam>) -> Result<(), StoreError> {
        let mut slugs = Slugs::of(self.catalog.teams().map(|team| (team.slug.clone(), team.id)));
        let mut wanted = Vec::with_capacity(teams.len());
        for new in teams {
            let (id, key) = ids.of(Kind::Team, &new.reference);
            let (sport_id, _) = ids.of(Kind::Sport, &new.sport);
            let known = self.rows.sports.contains_key(&sport_id) || self.catalog.sport(sport_id).is_some();
            if !known || self.refused.contains(&(Kind::Sport, sport_id)) {
                self.refused.insert((Kind::Team, id));
                self.reject(new.name, format!("sport {sport_id} is not known"));
                continue;
            }
            // A slug, once given, stays, unless the source itself names another.
            let kept = self.catalog.team(id).filter(|team| team.key == key).map(|team| team.slug.clone());
            let row = Team {
                id,
                slug: slugs.claim(id, &new.slug.or(kept).unwrap_or_else(|| slug(&new.name))),
                name: new.name.clone(),
                sport_id,
                logo: new.logo,
                country: new.country,
                founded: new.founded,
                key,
                as_of: self.as_of,
            };
            wanted.push((new.name, row));
        }
        self.rows.teams = self.apply(wanted, |_, wanted| wanted).await?;
        Ok(())
    }

    /// The team that a match of the document means. One of a foreign source must be that source's own:
    /// ours by its number is another team.
    fn team(&self, ids: &Ids, reference: &Reference) -> Option<u32> {
        let (id, key) = ids.of(Kind::Team, reference);
        let team = self.rows.teams.get(&id).or_else(|| self.catalog.team(id))?;
        let meant = matches!(reference, Reference::Given(_)) || team.key == key;
        (meant && !self.refused.contains(&(Kind::Team, id))).then_some(id)
    }

    fn tournament(&self, ids: &Ids, reference: &Reference) -> Option<&Tournament> {
        let (id, key) = ids.of(Kind::Tournament, reference);
        let tournament = self.rows.tournaments.get(&id).or_else(|| self.catalog.tournament(id))?;
        let meant = matches!(reference, Reference::Given(_)) || tournament.key == key;
        (meant && !self.refused.contains(&(Kind::Tournament, id))).then_some(tournament)
    }

    async fn events(&mut self, ids: &Ids, events: Vec<NewEvent>) -> Result<(), StoreError> {
        let rooms: HashMap<(u32, Key), Box<str>> =
            self.catalog.events().map(|event| ((event.id, event.key), event.room.clone())).collect();
        let mut wanted = Vec::with_capacity(events.len());
        for new in events {
            let (id, key) = ids.of(Kind::Event, &new.reference);
            let tournament = self.tournament(ids, &new.tournament).map(|found| (found.id, found.featured));
            let Some((tournament_id, featured)) = tournament else {
                self.reject(new.label, format!("tournament {} is not known", name(&new.tournament)));
                continue;
            };
            let (home, away) = (self.team(ids, &new.home), self.team(ids, &new.away));
            let (Some(home_team_id), Some(away_team_id)) = (home, away) else {
                let unknown = if home.is_none() { &new.home } else { &new.away };
                self.reject(new.label, format!("team {} is not known", name(unknown)));
                continue;
            };
            // Made on first use, and the same each time it is asked for.
            let room = match rooms.get(&(id, key)) {
                Some(room) => room.clone(),
                None => match self.app.chat.match_room(id, &new.label).await {
                    Ok(room) => {
                        let shards = if featured { SHARDS.0 } else { SHARDS.1 };
                        let name = room.as_str().into();
                        self.keep_room(room, &new.label, id, shards).await?;
                        name
                    }
                    Err(error) => {
                        let reason = format!("its chat room could not be made ({error}); import again");
                        self.reject(new.label, reason);
                        continue;
                    }
                },
            };
            let row = Match {
                id,
                tournament_id,
                home_team_id,
                away_team_id,
                start: new.start,
                status: new.status,
                venue: new.venue.map(Into::into),
                score: new.score,
                room,
                shards: if featured { SHARDS.0 } else { SHARDS.1 },
                revision: 0,
                key,
                as_of: new.as_of.map_or(self.as_of, |as_of| as_of.min(self.now)),
            };
            wanted.push((new.label, row));
        }
        self.rows.events = self
            .apply(wanted, |before, mut wanted: Match| {
                if let Some(before) = before {
                    wanted.shards = before.shards;
                    wanted.room = before.room.clone();
                }
                let revised = Outcome::of(&wanted) != before.map_or(Outcome::Open, Outcome::of);
                wanted.revision = before.map_or(0, |before| before.revision) + u32::from(revised);
                wanted
            })
            .await?;
        Ok(())
    }

    /// Keeps a match's room, for those who ask for it by its id.
    async fn keep_room(&self, id: RoomId, name: &str, event: u32, shards: u8) -> Result<(), StoreError> {
        let room = Room {
            room_id: id,
            name: name.to_owned(),
            topic: String::new(),
            event_id: Some(event),
            creator_id: None,
            is_private: false,
            shards,
            created_at: self.now,
            last_activity: self.now,
        };
        self.app.store.put_room(&room).await
    }

    /// Compares rows with those stored, writes those that differ, and counts. Returns the rows as they
    /// are afterwards. `settle` fills in what depends on the stored one.
    async fn apply<T: Row>(
        &mut self,
        wanted: Vec<(String, T)>,
        settle: impl Fn(Option<&T>, T) -> T,
    ) -> Result<BTreeMap<u32, T>, StoreError> {
        let ids: BTreeSet<u32> = wanted.iter().map(|(_, row)| row.id()).collect();
        let mut stored = self.app.store.catalog_rows::<T>(&ids.into_iter().collect::<Vec<_>>()).await?;
        let mut rows: BTreeMap<u32, T> = BTreeMap::new();
        let mut seen = HashSet::new();
        let mut open = Vec::new();
        for (label, row) in wanted {
            if seen.insert(row.id()) {
                open.push((label, row));
            } else {
                self.reject(label, format!("id {} stands in the document twice", row.id()));
            }
        }
        // Another import may write a row between our look at it and our write: then look again.
        for _ in 0..10 {
            let mut writes = Vec::new();
            for (label, row) in std::mem::take(&mut open) {
                let id = row.id();
                match decide(stored.get(&id), &row, self.is_dated, &settle) {
                    Decision::Keep(row) => {
                        self.report.unchanged += 1;
                        rows.insert(id, row);
                    }
                    Decision::Write { row: settled, changed } => {
                        let replacement = Replacement { row: settled, read: stored.get(&id).cloned() };
                        writes.push((label, row, replacement, changed));
                    }
                    Decision::Refuse(reason) => {
                        self.refused.insert((T::KIND, id));
                        // A number that was drawn and is somebody else's would stand in the way for ever.
                        self.app.store.release_id(T::KIND, row.key(), id).await?;
                        self.reject(label, reason);
                    }
                }
            }
            if writes.is_empty() {
                return Ok(rows);
            }
            let replacements: Vec<_> =
                writes.iter().map(|(_, _, replacement, _)| replacement.clone()).collect();
            self.note_results(&replacements).await?;
            let written = self.app.store.put_rows(&replacements).await?;
            for ((label, row, replacement, changed), outcome) in writes.into_iter().zip(written) {
                match outcome {
                    Written::Now => {
                        match (&replacement.read, changed) {
                            (None, _) => self.report.created += 1,
                            (Some(_), true) => self.report.updated += 1,
                            (Some(_), false) => self.report.unchanged += 1,
                        }
                        rows.insert(row.id(), replacement.row);
                    }
                    Written::Changed(found) => {
                        stored.insert(row.id(), found);
                        open.push((label, row));
                    }
                }
            }
        }
        Err(StoreError::Busy { operation: "PutItem", code: "RowContended".into() })
    }

    /// Notes results that wait for their points. Before the rows are written: an import that dies between
    /// the two leaves a note too many, which is harmless, and not a result without points.
    async fn note_results<T: Row>(&self, replacements: &[Replacement<T>]) -> Result<(), StoreError> {
        for Replacement { row, read } in replacements {
            // A match that is new has no predictions.
            let Some(read) = read else { continue };
            if row.revision() > read.revision() {
                let since = self.app.clock.now();
                let due = Due { event_id: row.id(), revision: row.revision(), since };
                self.app.store.put_due(&due).await?;
            }
        }
        Ok(())
    }
}

fn decide<T: Row>(
    stored: Option<&T>,
    wanted: &T,
    is_dated: bool,
    settle: impl Fn(Option<&T>, T) -> T,
) -> Decision<T> {
    let Some(stored) = stored else {
        return Decision::Write { row: settle(None, wanted.clone()), changed: true };
    };
    if stored.key() != wanted.key() {
        return Decision::Refuse(format!("id {} belongs to another source", wanted.id()));
    }
    if wanted.as_of() < stored.as_of() {
        return Decision::Keep(stored.clone());
    }
    let settled = settle(Some(stored), wanted.clone());
    let changed = settled.clone().dated(stored.as_of()) != *stored;
    // A dated document that confirms a row dates it anew, so that an older one cannot change it. Without a
    // date of its own it would do so on every run, for nothing.
    if changed || (is_dated && wanted.as_of() > stored.as_of()) {
        Decision::Write { row: settled, changed }
    } else {
        Decision::Keep(stored.clone())
    }
}

fn name(reference: &Reference) -> String {
    match reference {
        Reference::Given(id) => id.to_string(),
        Reference::External(name) => name.clone(),
    }
}

/// What points are calculated from.
#[derive(PartialEq, Eq)]
enum Outcome {
    Open,
    Score(Option<Score>),
    Void,
}

impl Outcome {
    fn of(event: &Match) -> Self {
        match event.status {
            Status::Finished => Self::Score(event.score),
            status if status.is_void() => Self::Void,
            _ => Self::Open,
        }
    }
}

/// `1. FC Köln` becomes `1-fc-koln`.
fn slug(name: &str) -> String {
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

/// Whose which slug is.
struct Slugs(HashMap<String, u32>);

impl Slugs {
    fn of(taken: impl Iterator<Item = (String, u32)>) -> Self {
        Self(taken.collect())
    }

    /// `wanted`, or the like of it that nobody else has.
    fn claim(&mut self, id: u32, wanted: &str) -> String {
        let free = |slug: &String| self.0.get(slug).is_none_or(|owner| *owner == id);
        let likes =
            (1..).map(|n| if n == 1 { format!("{wanted}-{id}") } else { format!("{wanted}-{id}-{n}") });
        let slug = std::iter::once(wanted.to_owned()).chain(likes).find(free).unwrap_or_default();
        self.0.insert(slug.clone(), id);
        slug
    }
}

/// Makes the snapshot show `rows`. Whoever else publishes meanwhile is built upon, not overwritten.
async fn publish(app: &App, mut base: Base, mut rows: Rows) -> Result<(), StoreError> {
    for _ in 0..20 {
        if let Base::Rows { .. } = base {
            rows = all_rows(app).await?;
        }
        let catalog = base.published();
        part_slugs(app, &catalog, &mut rows).await?;
        let changed = changed_chunks(&catalog, &rows);
        let nothing_to_show = matches!(base, Base::Nothing) && rows.is_empty();
        if nothing_to_show || (matches!(base, Base::Snapshot(_)) && changed.is_empty()) {
            return Ok(());
        }
        let mut index = match &base {
            Base::Snapshot(loaded) => loaded.index.clone(),
            Base::Nothing | Base::Rows { .. } => Index::default(),
        };
        let head = base.head();
        // A place of our own: two who publish at once do not write over each other.
        let at = format!("{}.{}", head.map_or(0, |head| head.version) + 1, app.random.word(8));
        let (mut replaced, mut ours) = (Vec::new(), Vec::new());
        for (name, chunk) in changed {
            let before = match chunk {
                Some(chunk) => {
                    let bytes = chunk.encode().map_err(|_| StoreError::Unreadable("a chunk"))?;
                    let place = app.store.put_chunk(&at, name, &bytes).await?;
                    ours.push((name, place.clone()));
                    index.set(name, place)
                }
                None => index.remove(name),
            };
            replaced.extend(before.map(|place| (name, place)));
        }
        let end = app.clock.now() + GRACE;
        if app.store.publish_index(head, &at, &index).await? {
            app.store.expire_chunks(&replaced, head, end).await?;
            return Ok(());
        }
        // Somebody else published. Theirs is the base now, and of our rows the stored state counts.
        base = load(app).await?;
        if let Base::Snapshot(loaded) = &base {
            // Unless ours went through after all, its answer was lost, and theirs is built upon it.
            ours.retain(|(name, place)| !loaded.lists(*name, place));
        }
        app.store.expire_chunks(&ours, None, end).await?;
        rows = Rows {
            sports: app.store.catalog_rows(&ids(&rows.sports)).await?,
            teams: app.store.catalog_rows(&ids(&rows.teams)).await?,
            tournaments: app.store.catalog_rows(&ids(&rows.tournaments)).await?,
            events: app.store.catalog_rows(&ids(&rows.events)).await?,
        };
    }
    Err(StoreError::Busy { operation: "PutItem", code: "SnapshotContended".into() })
}

/// Two imports at once may have given two teams the same slug: whoever publishes second gives way.
async fn part_slugs(app: &App, catalog: &Catalog, rows: &mut Rows) -> Result<(), StoreError> {
    let mut slugs = Slugs::of(catalog.teams().map(|team| (team.slug.clone(), team.id)));
    for team in rows.teams.values_mut() {
        let slug = slugs.claim(team.id, &team.slug);
        if slug != team.slug {
            let read = team.clone();
            team.slug = slug;
            let written = app.store.put_rows(&[Replacement { row: team.clone(), read: Some(read) }]).await?;
            if let [Written::Changed(found)] = written.as_slice() {
                *team = found.clone();
            }
        }
    }
    Ok(())
}

fn ids<T>(rows: &BTreeMap<u32, T>) -> Vec<u32> {
    rows.keys().copied().collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    use aws_sdk_dynamodb::primitives::Blob;
    use aws_sdk_dynamodb::types::AttributeValue;
    use serde_json::{Value, json};
    use touchline::App;
    use touchline::domain::catalog::{Catalog, Chunk, EventFilter, Key, Kind, Match, Paging, Status, Team};
    use touchline::storage::Store;
    use touchline::storage::catalog::{Replacement, Written, load_latest};
    use touchline_testing::{Fault, TestApp, at_once};

    use crate::FeedError;

    async fn app() -> TestApp {
        TestApp::serving(&[]).start().await
    }

    async fn run(app: &TestApp, document: &Value) -> Value {
        crate::handle(app.app.clone(), document.clone()).await.unwrap()
    }

    async fn catalog(app: &TestApp) -> Arc<Catalog> {
        load_latest(&app.app.store, None).await.unwrap().unwrap().catalog
    }

    fn counts(report: &Value) -> [u64; 4] {
        ["created", "updated", "unchanged", "rejected"].map(|name| report[name].as_u64().unwrap())
    }

    fn sample() -> Value {
        serde_json::from_str(include_str!("../../../events/feed/touchline.json")).unwrap()
    }

    /// The sample with one match changed, at a later time.
    fn changed(at: &str, event: usize, field: &str, value: Value) -> Value {
        let mut document = sample();
        document["as_of"] = json!(at);
        document["events"][event][field] = value;
        document
    }

    #[tokio::test]
    async fn the_same_document_twice_changes_nothing() {
        for text in [
            include_str!("../../../events/feed/touchline.json"),
            include_str!("../../../events/feed/football-data.json"),
            include_str!("../../../events/feed/openfootball.json"),
        ] {
            let document: Value = serde_json::from_str(text).unwrap();
            let app = app().await;
            let first = counts(&run(&app, &document).await);
            assert!(first[0] > 5 && first[1] == 0 && first[2] == 0, "{first:?}");
            let version = load_latest(&app.app.store, None).await.unwrap().unwrap().head.version;
            let second = counts(&run(&app, &document).await);
            assert_eq!(second, [0, 0, first[0], first[3]]);
            assert_eq!(load_latest(&app.app.store, None).await.unwrap().unwrap().head.version, version);
        }
    }

    #[tokio::test]
    async fn every_match_is_whole() {
        let app = app().await;
        run(&app, &sample()).await;
        let catalog = catalog(&app).await;
        let event = catalog.event(3).unwrap();
        assert_eq!((event.status, event.revision, event.shards), (Status::Finished, 1, 64));
        assert_eq!(&*event.room, "!match3:touchline.local");
        assert_eq!(event.venue.as_deref(), Some("Cliff Road"));
        assert_eq!(catalog.team(2).unwrap().slug, "sao-miguel-atletico");
        assert_eq!(catalog.event(4).unwrap().status, Status::Postponed);
    }

    #[tokio::test]
    async fn an_older_document_after_a_newer_one_undoes_nothing() {
        let app = app().await;
        run(&app, &sample()).await;
        let newer = changed("2026-11-15T12:01:00Z", 1, "home_score", json!(3));
        assert_eq!(counts(&run(&app, &newer).await)[1], 1);
        let after = run(&app, &sample()).await;
        assert_eq!(counts(&after)[1], 0, "{after}");
        assert_eq!(catalog(&app).await.event(2).unwrap().score.unwrap().home, 3);

        // A newer document confirmed the score; one from in between must not bring another.
        run(&app, &changed("2026-11-15T12:03:00Z", 1, "home_score", json!(3))).await;
        run(&app, &changed("2026-11-15T12:02:00Z", 1, "home_score", json!(2))).await;
        assert_eq!(catalog(&app).await.event(2).unwrap().score.unwrap().home, 3);
    }

    /// Documents may hold one match each, and leagues one document each: an older one about something else
    /// still counts.
    #[tokio::test]
    async fn an_older_document_about_other_rows_is_applied() {
        let app = app().await;
        run(&app, &sample()).await;
        let goal = |at: &str, event: usize| {
            let mut document = sample();
            document["as_of"] = json!(at);
            document["events"] = json!([sample()["events"][event]]);
            document["events"][0]["venue"] = json!("Moved");
            for list in ["sports", "teams", "tournaments"] {
                document[list] = json!([]);
            }
            document
        };
        run(&app, &goal("2026-11-15T12:00:10Z", 0)).await;
        assert_eq!(counts(&run(&app, &goal("2026-11-15T12:00:05Z", 2)).await)[1], 1);
        assert_eq!(catalog(&app).await.event(3).unwrap().venue.as_deref(), Some("Moved"));
    }

    #[tokio::test]
    async fn a_document_from_the_future_is_refused() {
        let app = app().await;
        let document = changed("2062-11-15T12:00:00Z", 0, "venue", json!("x"));
        let refused = crate::handle(app.app.clone(), document).await.unwrap_err();
        assert!(matches!(refused, FeedError::BadAsOf));
    }

    #[tokio::test]
    async fn nothing_to_show_is_not_published() {
        let app = app().await;
        for document in [
            json!({ "format": "touchline" }),
            json!({ "format": "football-data.org/v4", "document": { "matches": [] } }),
        ] {
            run(&app, &document).await;
            assert!(load_latest(&app.app.store, None).await.unwrap().is_none());
        }
    }

    /// A match of a foreign source never shows a team of ours that has the number its own was to have.
    #[tokio::test]
    async fn a_team_that_was_refused_has_no_matches() {
        let app = app().await;
        let foreign: Value =
            serde_json::from_str(include_str!("../../../events/feed/openfootball.json")).unwrap();
        run(&app, &foreign).await;
        // Our own document claims the numbers of the foreign teams; all else in it is its own.
        let mut document = sample();
        document["tournaments"][0]["id"] = json!(900);
        for event in document["events"].as_array_mut().unwrap() {
            event["tournament_id"] = json!(900);
            event["id"] = json!(event["id"].as_u64().unwrap() + 900);
        }
        let report = run(&app, &document).await;
        assert_eq!(catalog(&app).await.events().count(), 3, "{report}");
        let reasons = report["reasons"].to_string();
        assert!(reasons.contains("another source") && reasons.contains("team 1 is not known"), "{reasons}");
    }

    #[tokio::test]
    async fn a_sport_is_one_whoever_brings_it() {
        let app = app().await;
        for text in [
            include_str!("../../../events/feed/touchline.json"),
            include_str!("../../../events/feed/football-data.json"),
            include_str!("../../../events/feed/openfootball.json"),
        ] {
            run(&app, &serde_json::from_str(text).unwrap()).await;
        }
        assert_eq!(catalog(&app).await.sports().count(), 1);
    }

    /// More rows than one batch, one transaction or one part of a chunk takes.
    #[tokio::test]
    async fn a_whole_season_is_imported_in_one_go() {
        let app = app().await;
        let team = |n: usize| format!("Club {n} {}", "of a long name ".repeat(n % 5));
        let matches: Vec<Value> = (0..20)
            .flat_map(|home| (0..20).filter(move |away| *away != home).map(move |away| (home, away)))
            .enumerate()
            .map(|(at, (home, away))| {
                json!({ "round": format!("Matchday {}", at / 10), "date": format!("2026-{:02}-{:02}", 1 + at / 40, 1 + at % 28),
                    "time": "15:00", "team1": team(home), "team2": team(away), "score": { "ft": [at % 5, at % 3] } })
            })
            .collect();
        let document = json!({ "format": "openfootball", "timezone": "Europe/London", "as_of": "2026-11-15T12:00:00Z",
            "document": { "name": "Season", "matches": matches } });
        assert_eq!(counts(&run(&app, &document).await), [402, 0, 0, 0]);
        assert_eq!(counts(&run(&app, &document).await), [0, 0, 402, 0]);
        let catalog = catalog(&app).await;
        let ids: std::collections::BTreeSet<u32> = catalog.events().map(|event| event.id).collect();
        assert_eq!(ids, (1..=380).collect(), "small and without gaps");
    }

    /// A month with more matches than one item holds is stored in parts and read back whole.
    #[tokio::test]
    async fn a_large_chunk_is_stored_in_parts() {
        let app = app().await;
        run(&app, &sample()).await;
        let one = catalog(&app).await.event(1).unwrap().clone();
        let mut chunk = Chunk::default();
        for id in 1..=40_000_u32 {
            // A digest does not compress.
            let venue = format!("{:016x}", Key::of("venue", Kind::Event, &id.to_string()).0);
            chunk.matches.push(Match { id, venue: Some(venue.into()), ..one.clone() });
        }
        let bytes = chunk.encode().unwrap();
        let part = 350 * 1024;
        assert!(bytes.len() > part, "{} bytes are one part", bytes.len());
        let (name, store) = (one.chunk(), &app.app.store);
        let loaded = load_latest(store, None).await.unwrap().unwrap();
        let mut index = loaded.index.clone();
        index.set(name, store.put_chunk("2.large", name, &bytes).await.unwrap());
        assert!(store.publish_index(Some(&loaded.head), "2.large", &index).await.unwrap());
        let parts = app.dump().await.matches(&format!("S(\"{name}#")).count();
        assert_eq!(parts, bytes.len().div_ceil(part) + 1, "and the one before");
        assert_eq!(catalog(&app).await.chunks()[&name].matches.len(), 40_000);
    }

    /// A snapshot that cannot be read is built anew from the rows, by any import or by asking for it.
    #[tokio::test]
    async fn the_snapshot_can_be_built_from_the_rows() {
        let app = app().await;
        run(&app, &sample()).await;
        let before = bytes(&app).await;
        let spoil = async || {
            let tables = &app.app.config.tables;
            let page = app.client().scan().table_name(&tables.catalog).send().await.unwrap();
            for item in page.items() {
                if item["sk"].as_s().unwrap().ends_with("#0") {
                    let mut item = item.clone();
                    item.insert("bytes".into(), AttributeValue::B(Blob::new([1, 2, 3])));
                    app.client()
                        .put_item()
                        .table_name(&tables.catalog)
                        .set_item(Some(item))
                        .send()
                        .await
                        .unwrap();
                }
            }
            assert!(load_latest(&app.app.store, None).await.is_err());
        };
        spoil().await;
        // A new process: one that has a copy would not notice.
        let fresh = App { catalog_cache: Arc::default(), ..app.app.clone() };
        crate::handle(fresh, json!({ "format": "touchline", "events": [] })).await.unwrap();
        assert_eq!(bytes(&app).await, before);
        // A document that refers to rows it does not hold itself finds them all the same.
        spoil().await;
        let fresh = App { catalog_cache: Arc::default(), ..app.app.clone() };
        let one_match = json!({ "format": "touchline", "events": [sample()["events"][0]] });
        assert_eq!(counts(&crate::handle(fresh, one_match).await.unwrap()), [0, 0, 1, 0]);
        assert_eq!(bytes(&app).await, before);
        spoil().await;
        run(&app, &json!({ "rebuild": true })).await;
        assert_eq!(bytes(&app).await, before);
    }

    #[tokio::test]
    async fn without_chat_matches_wait() {
        let app = TestApp::serving(&[]).without_chat().start().await;
        let report = run(&app, &sample()).await;
        assert_eq!(counts(&report), [5, 0, 0, 4], "{report}");
        assert!(report["reasons"][0]["reason"].as_str().unwrap().contains("import again"));
    }

    /// Results that come in at once under one date: each has a revision of its own.
    #[tokio::test(flavor = "multi_thread")]
    async fn no_two_results_share_a_revision() {
        let app = Arc::new(app().await);
        run(&app, &sample()).await;
        at_once(6, |n| {
            let app = Arc::clone(&app);
            async move { run(&app, &changed("2026-11-15T12:04:00Z", 2, "home_score", json!(n + 10))).await }
        })
        .await;
        assert_eq!(catalog(&app).await.event(3).unwrap().revision, 7, "one before, six now");
    }

    #[tokio::test]
    async fn rows_dated_by_their_source_go_by_their_own_time() {
        let app = app().await;
        let document: Value =
            serde_json::from_str(include_str!("../../../events/feed/football-data.json")).unwrap();
        run(&app, &document).await;
        let with = |updated: &str, date: &str| {
            let mut document = document.clone();
            document["document"]["matches"][0]["lastUpdated"] = json!(updated);
            document["document"]["matches"][0]["utcDate"] = json!(date);
            document
        };
        let hour = async || catalog(&app).await.event(1).unwrap().start.format("%H:%M").to_string();
        run(&app, &with("2026-11-14T10:00:00Z", "2026-11-15T20:00:00Z")).await;
        assert_eq!(hour().await, "20:00");
        run(&app, &with("2026-11-14T09:00:00Z", "2026-11-15T18:00:00Z")).await;
        assert_eq!(hour().await, "20:00");
    }

    #[tokio::test]
    async fn results_have_revisions_and_nothing_else_has() {
        let app = app().await;
        run(&app, &sample()).await;
        let revision = async || catalog(&app).await.event(3).unwrap().revision;
        assert_eq!(revision().await, 1);
        run(&app, &changed("2026-11-15T12:00:30Z", 2, "venue", json!("Elsewhere"))).await;
        assert_eq!(revision().await, 1);
        run(&app, &changed("2026-11-15T12:01:00Z", 2, "home_score", json!(1))).await;
        assert_eq!(revision().await, 2);
        run(&app, &changed("2026-11-15T12:02:00Z", 2, "status", json!("abandoned"))).await;
        assert_eq!(revision().await, 3);
    }

    #[tokio::test]
    async fn a_match_moves_to_another_month() {
        let app = app().await;
        run(&app, &sample()).await;
        // By itself: nothing else touches the month that it leaves.
        let moved = json!({ "format": "touchline", "as_of": "2026-11-15T12:01:00Z", "events": [{
            "id": 1, "tournament_id": 1, "home_team_id": 1, "away_team_id": 2,
            "start_time": "2027-02-01T15:00:00Z", "status": "scheduled",
        }] });
        assert_eq!(counts(&run(&app, &moved).await), [0, 1, 0, 0]);
        let catalog = catalog(&app).await;
        assert_eq!(catalog.events().count(), 4);
        assert_eq!(catalog.event(1).unwrap().start.to_rfc3339(), "2027-02-01T15:00:00+00:00");
    }

    #[tokio::test]
    async fn bad_rows_are_reported_and_the_others_applied() {
        let app = app().await;
        let mut document = sample();
        let bad = [
            json!({ "id": 10, "tournament_id": 1, "home_team_id": 1, "away_team_id": 1, "start_time": "2026-11-15T15:00:00Z", "status": "scheduled" }),
            json!({ "id": 11, "tournament_id": 1, "home_team_id": 1, "away_team_id": 2, "start_time": "2026-11-15T15:00:00Z", "status": "finished", "home_score": -1, "away_score": 0 }),
            json!({ "id": 12, "tournament_id": 1, "home_team_id": 1, "away_team_id": 2, "start_time": "2026-11-15T15:00:00Z", "status": "finished" }),
            json!({ "id": 13, "tournament_id": 1, "home_team_id": 1, "away_team_id": 2, "start_time": "2026-11-15T15:00:00Z", "status": "delayed" }),
            json!({ "id": 14, "tournament_id": 1, "home_team_id": 1, "away_team_id": 2, "start_time": "2026-02-30T15:00:00Z", "status": "scheduled" }),
            json!({ "id": 15, "tournament_id": 9, "home_team_id": 1, "away_team_id": 2, "start_time": "2026-11-15T15:00:00Z", "status": "scheduled" }),
            json!({ "id": 16, "tournament_id": 1, "home_team_id": 1, "away_team_id": 99, "start_time": "2026-11-15T15:00:00Z", "status": "scheduled" }),
            json!({ "id": 1, "tournament_id": 1, "home_team_id": 1, "away_team_id": 3, "start_time": "2026-11-15T15:00:00Z", "status": "scheduled" }),
            json!({ "id": "x" }),
            json!(null),
        ];
        document["events"].as_array_mut().unwrap().extend(bad.iter().cloned());
        let report = run(&app, &document).await;
        assert_eq!(counts(&report), [9, 0, 0, 10], "{report}");
        let reasons = report["reasons"].to_string();
        for word in [
            "itself",
            "-1",
            "needs a score",
            "delayed",
            "2026-02-30",
            "tournament 9",
            "team 99",
            "twice",
            "id must be",
        ] {
            assert!(reasons.contains(word), "{word} in {reasons}");
        }
        assert_eq!(catalog(&app).await.events().count(), 4);
    }

    #[tokio::test]
    async fn documents_that_are_none_are_refused_whole() {
        let app = app().await;
        let refused = async |document: Value| crate::handle(app.app.clone(), document).await.unwrap_err();
        assert!(matches!(refused(json!({ "format": "xml" })).await, FeedError::UnknownFormat(_)));
        assert!(matches!(refused(json!({ "teams": [] })).await, FeedError::UnknownFormat(_)));
        assert!(matches!(refused(json!([])).await, FeedError::UnknownFormat(_)));
        assert!(matches!(
            refused(json!({ "format": "touchline", "teams": {} })).await,
            FeedError::WrongShape(..)
        ));
        assert!(matches!(
            refused(json!({ "format": "touchline", "as_of": "soon" })).await,
            FeedError::BadAsOf
        ));
        let zone = json!({ "format": "openfootball", "timezone": "Mars/Base", "document": { "name": "x", "matches": [] } });
        assert!(matches!(refused(zone).await, FeedError::UnknownTimeZone(_)));
        assert!(matches!(
            refused(json!({ "format": "football-data.org/v4" })).await,
            FeedError::WrongShape(..)
        ));
        assert!(load_latest(&app.app.store, None).await.unwrap().is_none(), "nothing was published");
    }

    #[tokio::test]
    async fn sources_do_not_take_each_others_ids() {
        let app = app().await;
        run(&app, &sample()).await;
        let foreign: Value =
            serde_json::from_str(include_str!("../../../events/feed/openfootball.json")).unwrap();
        run(&app, &foreign).await;
        let catalog = catalog(&app).await;
        assert_eq!(catalog.events().count(), 7);
        let slugs: std::collections::HashSet<_> = catalog.teams().map(|team| team.slug.clone()).collect();
        assert_eq!(slugs.len(), catalog.teams().count(), "slugs are unique");
        // An id that a foreign row has cannot be claimed.
        let mut claim = sample();
        claim["events"][0]["id"] = json!(5);
        let report = run(&app, &claim).await;
        assert!(report["reasons"].to_string().contains("another source"), "{report}");
    }

    /// Two sources that came by the same id at the same moment: the second to write does not overwrite.
    #[tokio::test]
    async fn an_id_belongs_to_whoever_wrote_it_first() {
        let app = app().await;
        run(&app, &sample()).await;
        let mut stranger = app.app.store.catalog_rows::<Team>(&[1]).await.unwrap().remove(&1).unwrap();
        stranger.key = touchline::domain::catalog::Key(7);
        let stranger = Replacement { row: stranger, read: None };
        let written = app.app.store.put_rows(&[stranger]).await.unwrap();
        assert!(matches!(written.as_slice(), [Written::Changed(found)] if found.name == "Northgate Rovers"));
    }

    /// The bytes of every chunk, by name.
    async fn bytes(app: &TestApp) -> Vec<(String, Vec<u8>)> {
        let catalog = catalog(app).await;
        catalog.chunks().iter().map(|(name, chunk)| (name.to_string(), chunk.encode().unwrap())).collect()
    }

    /// `feed` dies after each of its writes in turn: readers see the old catalog or the new one, whole,
    /// and the next run ends as if nothing had happened.
    #[tokio::test]
    async fn dying_after_any_write_leaves_a_whole_catalog() {
        let foreign: Value =
            serde_json::from_str(include_str!("../../../events/feed/openfootball.json")).unwrap();
        let undisturbed = app().await;
        run(&undisturbed, &sample()).await;
        let before = bytes(&undisturbed).await;
        run(&undisturbed, &foreign).await;
        let after = bytes(&undisturbed).await;
        let mut steps = 0;
        loop {
            let app = app().await;
            run(&app, &sample()).await;
            let writes = AtomicU32::new(0);
            app.faults.set(move |attempt| {
                let is_write = matches!(attempt.operation, "PutItem" | "UpdateItem" | "TransactWriteItems");
                if is_write && writes.fetch_add(1, Ordering::Relaxed) >= steps {
                    Fault::LoseRequest
                } else {
                    Fault::None
                }
            });
            let finished = crate::handle(app.app.clone(), foreign.clone()).await.is_ok();
            app.faults.clear();
            let seen = bytes(&app).await;
            assert!(seen == before || seen == after, "after {steps} writes the catalog is neither");
            run(&app, &foreign).await;
            assert_eq!(bytes(&app).await, after, "after {steps} writes and another run");
            if finished {
                break;
            }
            steps += 1;
        }
        assert!(steps > 15, "{steps} writes");
    }

    /// Lost answers: the SDK sends every write twice.
    #[tokio::test]
    async fn writes_that_arrive_twice_change_nothing() {
        let calm = app().await;
        run(&calm, &sample()).await;
        let app = app().await;
        app.faults.first_attempts(Fault::LoseReply);
        let report = run(&app, &sample()).await;
        app.faults.clear();
        assert_eq!(counts(&report)[3], 0);
        assert_eq!(bytes(&app).await, bytes(&calm).await);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn imports_at_once_do_not_lose_each_others_changes() {
        let app = Arc::new(app().await);
        run(&app, &sample()).await;
        at_once(12, |n| {
            let app = Arc::clone(&app);
            async move {
                let document = json!({ "format": "touchline", "events": [{
                    "id": 100 + n, "tournament_id": 1, "home_team_id": 1, "away_team_id": 2,
                    "start_time": "2026-11-20T15:00:00Z", "status": "scheduled",
                }] });
                assert_eq!(counts(&run(&app, &document).await), [1, 0, 0, 0]);
            }
        })
        .await;
        assert_eq!(catalog(&app).await.events().count(), 16);
    }

    /// The head moved, the answer was lost, another import published on top, and only then the SDK asks
    /// again: the chunks are in use by now and must not be left to expire.
    #[tokio::test(flavor = "multi_thread")]
    async fn chunks_that_somebody_built_upon_do_not_expire() {
        let app = Arc::new(app().await);
        run(&app, &sample()).await;
        let one_match = |id: u32, month: &str| {
            json!({ "format": "touchline", "events": [{
                "id": id, "tournament_id": 1, "home_team_id": 1, "away_team_id": 2,
                "start_time": format!("2027-{month}-01T15:00:00Z"), "status": "scheduled",
            }] })
        };
        let (overtake, overtaken) = mpsc::channel::<()>();
        let mut puts = 0;
        app.faults.set(move |attempt| {
            if attempt.operation == "PutItem" && attempt.number == 1 {
                puts += 1;
                // The room, the row, the chunk, the index, the head.
                return if puts == 5 { Fault::LoseReply } else { Fault::None };
            }
            if attempt.operation == "PutItem" && attempt.number == 2 {
                // Not as a thread that others wait behind.
                let _ = tokio::task::block_in_place(|| overtaken.recv_timeout(Duration::from_secs(5)));
            }
            Fault::None
        });
        let version = async || load_latest(&app.app.store, None).await.unwrap().unwrap().head.version;
        let first = {
            let (app, document) = (Arc::clone(&app), one_match(50, "03"));
            tokio::spawn(async move { run(&app, &document).await })
        };
        let other = App {
            store: Store::new(app.client(), app.app.config.tables.clone()),
            catalog_cache: Arc::default(),
            ..app.app.clone()
        };
        while load_latest(&other.store, None).await.unwrap().unwrap().catalog.event(50).is_none() {
            assert!(!first.is_finished(), "its head's answer was not the one that was lost");
            tokio::task::yield_now().await;
        }
        crate::handle(other, one_match(51, "04")).await.unwrap();
        overtake.send(()).unwrap();
        assert_eq!(counts(&first.await.unwrap())[0], 1);
        app.faults.clear();
        assert_eq!(version().await, 3);
        // An hour and a day later, when everything that may expire has.
        let tables = &app.app.config.tables;
        let page = app.client().scan().table_name(&tables.catalog).send().await.unwrap();
        for item in page.items().iter().filter(|item| item.contains_key("expires_at")) {
            let key = [("pk", &item["pk"]), ("sk", &item["sk"])]
                .map(|(name, value)| (name.to_owned(), value.clone()));
            let delete = app.client().delete_item().table_name(&tables.catalog).set_key(Some(key.into()));
            delete.send().await.unwrap();
        }
        assert_eq!(catalog(&app).await.events().count(), 6);
    }

    /// Documents of different age, all at once: the newest one's score is what remains.
    #[tokio::test(flavor = "multi_thread")]
    async fn of_documents_at_once_the_newest_wins() {
        for _ in 0..3 {
            let app = Arc::new(app().await);
            run(&app, &sample()).await;
            at_once(8, |n| {
                let (app, at) = (Arc::clone(&app), format!("2026-11-15T12:00:0{n}Z"));
                async move { run(&app, &changed(&at, 1, "home_score", json!(n + 10))).await }
            })
            .await;
            assert_eq!(catalog(&app).await.event(2).unwrap().score.unwrap().home, 17);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn slugs_stay_unique_when_sources_are_imported_at_once() {
        let app = Arc::new(app().await);
        let foreign: Value =
            serde_json::from_str(include_str!("../../../events/feed/openfootball.json")).unwrap();
        at_once(2, |n| {
            let (app, document) = (Arc::clone(&app), if n == 0 { sample() } else { foreign.clone() });
            async move { run(&app, &document).await }
        })
        .await;
        let catalog = catalog(&app).await;
        let slugs: std::collections::HashSet<_> = catalog.teams().map(|team| &team.slug).collect();
        assert_eq!(slugs.len(), catalog.teams().count());
        for team in catalog.teams() {
            let stored = app.app.store.catalog_rows::<Team>(&[team.id]).await.unwrap();
            assert_eq!(stored[&team.id].slug, team.slug, "the snapshot shows what is stored");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_foreign_document_imported_many_times_at_once_is_imported_once() {
        let app = Arc::new(app().await);
        let document: Value =
            serde_json::from_str(include_str!("../../../events/feed/openfootball.json")).unwrap();
        at_once(6, |_| {
            let (app, document) = (Arc::clone(&app), document.clone());
            async move { run(&app, &document).await }
        })
        .await;
        let catalog = catalog(&app).await;
        assert_eq!((catalog.events().count(), catalog.teams().count()), (3, 4));
        let all = Paging { page: 1, per_page: 100 };
        assert_eq!(catalog.list_events(&EventFilter::default(), all).total, 3);
    }
}
