use std::collections::HashSet;

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};

use super::listed_match::{ListPosition, ListedMatch, list_order};
use super::{Catalog, Match, ShownStatus, Sport, Team, Tournament, fold};

/// Which page of a list to return, and how many rows a page has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paging {
    /// The page number, from 1.
    pub page: usize,
    /// The maximum number of rows on a page, at least 1.
    pub per_page: usize,
}

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    pub rows: Vec<T>,
    pub paging: Paging,
    /// The number of rows on all pages together.
    pub total: usize,
}

impl<T> Page<T> {
    /// Returns the number of the last page. It is at least 1: an empty list has one empty page.
    #[must_use]
    pub fn last_page(&self) -> usize {
        self.total.div_ceil(self.paging.per_page).max(1)
    }

    /// Counts all rows and keeps those of the requested page.
    fn of(all: impl Iterator<Item = T>, paging: Paging) -> Self {
        let first = (paging.page - 1).saturating_mul(paging.per_page);
        let mut page = Self { rows: Vec::with_capacity(paging.per_page), paging, total: 0 };
        for row in all {
            if page.total >= first && page.rows.len() < paging.per_page {
                page.rows.push(row);
            }
            page.total += 1;
        }
        page
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventFilter {
    pub tournament_id: Option<u32>,
    pub sport_id: Option<u32>,
    /// The id of the home team or the away team.
    pub team_id: Option<u32>,
    /// The day of kick-off, in UTC.
    pub date: Option<NaiveDate>,
    /// Only matches with kick-off at this time or later.
    pub from: Option<DateTime<Utc>>,
    /// Only matches with kick-off before this time.
    pub to: Option<DateTime<Utc>>,
    pub status: Option<ShownStatus>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TeamFilter {
    pub sport_id: Option<u32>,
    /// A part of the team's name. The search ignores case and accents.
    pub search: Option<String>,
}

impl Catalog {
    #[must_use]
    pub fn list_events(&self, filter: &EventFilter, paging: Paging) -> Page<&Match> {
        let day = filter.date.and_then(|date| {
            let start = date.and_hms_opt(0, 0, 0)?.and_utc().timestamp();
            Some(start..start + 86_400)
        });
        let (from, to) = (filter.from.map(rounded_up), filter.to.map(rounded_up));
        let rows = self.matches.iter().filter(|row| {
            filter.tournament_id.is_none_or(|id| row.tournament == id)
                && filter.sport_id.is_none_or(|id| row.sport == id)
                && filter.team_id.is_none_or(|id| row.home == id || row.away == id)
                && filter.status.is_none_or(|status| row.status == status)
                && day.as_ref().is_none_or(|day| day.contains(&row.start))
                && from.is_none_or(|from| row.start >= from)
                && to.is_none_or(|to| row.start < to)
        });
        self.page_of(rows, paging)
    }

    /// Lists the matches that are live, and those that kick off within seven days.
    #[must_use]
    pub fn list_upcoming(&self, now: DateTime<Utc>, paging: Paging) -> Page<&Match> {
        let week = rounded_up(now)..rounded_up(now + TimeDelta::days(7));
        let is_upcoming = |row: &&ListedMatch| row.status == ShownStatus::Live || week.contains(&row.start);
        self.page_of(self.matches.iter().filter(is_upcoming), paging)
    }

    fn page_of<'a>(&'a self, rows: impl Iterator<Item = &'a ListedMatch>, paging: Paging) -> Page<&'a Match> {
        let page = Page::of(rows, paging);
        let rows = page.rows.iter().filter_map(|row| self.at(row)).collect();
        Page { rows, paging, total: page.total }
    }

    /// Lists tournaments, featured ones first, sorted by name.
    #[must_use]
    pub fn list_tournaments(&self, paging: Paging) -> Page<&Tournament> {
        let mut tournaments: Vec<&Tournament> = self.tournaments().collect();
        tournaments
            .sort_by_cached_key(|tournament| (!tournament.featured, fold(&tournament.name), tournament.id));
        Page::of(tournaments.into_iter(), paging)
    }

    /// Lists sports, sorted by name.
    #[must_use]
    pub fn list_sports(&self, paging: Paging) -> Page<&Sport> {
        let mut sports: Vec<&Sport> = self.sports().collect();
        sports.sort_by_cached_key(|sport| (fold(&sport.name), sport.id));
        Page::of(sports.into_iter(), paging)
    }

    /// Lists teams, sorted by name.
    #[must_use]
    pub fn list_teams(&self, filter: &TeamFilter, paging: Paging) -> Page<&Team> {
        let search = filter.search.as_deref().map(fold);
        let teams = self
            .team_names
            .iter()
            .filter(|(name, _)| search.as_deref().is_none_or(|search| name.contains(search)))
            .filter_map(|(_, id)| self.team(*id))
            .filter(|team| filter.sport_id.is_none_or(|id| team.sport_id == id));
        Page::of(teams, paging)
    }
}

/// Returns the first whole second at or after a time. Kick-offs are stored in whole seconds.
fn rounded_up(at: DateTime<Utc>) -> i64 {
    at.timestamp() + i64::from(at.timestamp_subsec_nanos() > 0)
}

/// The ids of the teams that a search found.
type TeamIds = HashSet<u32>;

impl Catalog {
    /// Finds the matches whose room has `text` in its name, in the order of match lists, after a position. The name
    /// of a room is `<home team> – <away team>`. `text` must be folded and trimmed.
    pub fn matches_named(
        &self,
        text: &str,
        after: Option<ListPosition>,
    ) -> impl Iterator<Item = (ListPosition, &Match)> {
        let named = self.teams_where(|name| name.contains(text));
        // `fold` turns the dash between the two names into a hyphen, with a space on both sides. A text with a
        // hyphen can begin in the home team's name and end in the away team's name.
        let across: Vec<(TeamIds, TeamIds)> = text
            .match_indices('-')
            .map(|(at, hyphen)| {
                let (before, after) = (&text[..at], &text[at + hyphen.len()..]);
                let homes = self.teams_where(|name| {
                    before.is_empty() || before.strip_suffix(' ').is_some_and(|end| name.ends_with(end))
                });
                let aways = self.teams_where(|name| {
                    after.is_empty() || after.strip_prefix(' ').is_some_and(|start| name.starts_with(start))
                });
                (homes, aways)
            })
            .filter(|(homes, aways)| !homes.is_empty() && !aways.is_empty())
            .collect();
        let is_named = move |row: &&ListedMatch| {
            named.contains(&row.home)
                || named.contains(&row.away)
                || across.iter().any(|(homes, aways)| homes.contains(&row.home) && aways.contains(&row.away))
        };
        let from = self.matches.partition_point(|row| after.is_some_and(|after| list_order(row) <= after));
        let rows = self.matches[from..].iter().filter(is_named);
        rows.filter_map(|row| Some((list_order(row), self.at(row)?)))
    }

    /// Returns the matches that are not finished: the live ones, then the scheduled ones by kick-off.
    pub fn coming(&self) -> impl Iterator<Item = (ListPosition, &Match)> {
        let rows = self.matches.iter().take_while(|row| row.status != ShownStatus::Finished);
        rows.filter_map(|row| Some((list_order(row), self.at(row)?)))
    }

    fn teams_where(&self, matches: impl Fn(&str) -> bool) -> TeamIds {
        self.team_names.iter().filter(|(name, _)| matches(name)).map(|(_, id)| *id).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use chrono::DateTime;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::{Chunk, Key, Status, match_room_name, testing};
    use super::*;

    const MIDNIGHT: i64 = 1_794_700_800; // 2026-11-15T00:00:00Z

    prop_compose! {
        fn any_match()(
            tournament_id in 1_u32..4,
            home in 1_u32..6,
            away in 1_u32..6,
            // Most kick-offs are at midnight or one second before, to test the date filter's boundaries.
            start in prop_oneof![
                Just(MIDNIGHT), Just(MIDNIGHT - 1), Just(MIDNIGHT + 86_399), Just(MIDNIGHT + 86_400),
                MIDNIGHT - 300_000..MIDNIGHT + 5_000_000,
            ],
            status in prop_oneof![
                Just(Status::Scheduled), Just(Status::Postponed), Just(Status::Interrupted), Just(Status::Live), Just(Status::Finished),
                Just(Status::Cancelled), Just(Status::Suspended),
            ],
        ) -> Match {
            Match {
                id: 0,
                tournament_id,
                home_team_id: home,
                away_team_id: away,
                start: DateTime::from_timestamp(start, 0).unwrap(),
                status,
                venue: None,
                score: None,
                room: "!r:s".into(),
                room_name_hash: 0,
                shards: 4,
                pause: None,
                revision: 0,
                key: Key(0),
                as_of: DateTime::UNIX_EPOCH,
            }
        }
    }

    /// Times around midnight, also between two seconds.
    fn any_time() -> impl Strategy<Value = DateTime<Utc>> {
        let millis = (MIDNIGHT * 1_000 - 1_500..MIDNIGHT * 1_000 + 1_500)
            .prop_union(MIDNIGHT * 1_000 - 300_000_000..MIDNIGHT * 1_000 + 500_000_000);
        millis.prop_map(|millis| DateTime::from_timestamp_millis(millis).unwrap())
    }

    prop_compose! {
        fn any_filter()(
            tournament_id in proptest::option::of(1_u32..5),
            sport_id in proptest::option::of(1_u32..5),
            team_id in proptest::option::of(1_u32..7),
            date in proptest::option::of(0_i64..3),
            from in proptest::option::of(any_time()),
            to in proptest::option::of(any_time()),
            status in proptest::option::of(prop_oneof![
                Just(ShownStatus::Live), Just(ShownStatus::Scheduled), Just(ShownStatus::Finished),
            ]),
        ) -> EventFilter {
            let date = date.map(|days| DateTime::from_timestamp(MIDNIGHT + (days - 1) * 86_400, 0).unwrap().date_naive());
            EventFilter { tournament_id, sport_id, team_id, date, from, to, status }
        }
    }

    fn sport_of_team(team: u32) -> u32 {
        1 + team % 3
    }

    fn catalog(matches: Vec<Match>) -> Catalog {
        let teams = (1..6).map(|id| team(id, "A team", sport_of_team(id))).collect();
        let mut chunks =
            BTreeMap::from([(super::super::ChunkName::Base, Chunk { teams, ..Chunk::default() })]);
        for (id, mut found) in (1..).zip(matches) {
            found.id = id;
            chunks.entry(found.chunk()).or_default().matches.push(found);
        }
        Catalog::new(chunks.into_iter().map(|(name, chunk)| (name, Arc::new(chunk))).collect())
    }

    /// Lists matches in the simplest way, to compare with `list_events`: filters, sorts, and cuts out one
    /// page. Returns the ids on the page, the number of matches on all pages, and the number of the last
    /// page.
    fn model(matches: &[Match], filter: &EventFilter, paging: Paging) -> (Vec<u32>, usize, usize) {
        let mut wanted: Vec<&Match> = matches
            .iter()
            .filter(|m| filter.tournament_id.is_none() || Some(m.tournament_id) == filter.tournament_id)
            .filter(|m| filter.sport_id.is_none_or(|id| sport_of_team(m.home_team_id) == id))
            .filter(|m| filter.team_id.is_none_or(|id| [m.home_team_id, m.away_team_id].contains(&id)))
            .filter(|m| filter.date.is_none_or(|date| m.start.date_naive() == date))
            .filter(|m| filter.from.is_none_or(|from| m.start >= from))
            .filter(|m| filter.to.is_none_or(|to| m.start < to))
            .filter(|m| filter.status.is_none_or(|status| m.status.shown() == status))
            .collect();
        wanted.sort_by(|a, b| {
            let rank = |m: &Match| match m.status {
                Status::Live | Status::Suspended => 0,
                Status::Scheduled | Status::Postponed | Status::Interrupted => 1,
                _ => 2,
            };
            let times = if rank(a) == 2 { b.start.cmp(&a.start) } else { a.start.cmp(&b.start) };
            rank(a).cmp(&rank(b)).then(times).then(a.id.cmp(&b.id))
        });
        let total = wanted.len();
        let ids: Vec<u32> = wanted.iter().map(|m| m.id).collect();
        let page = ids.chunks(paging.per_page).nth(paging.page - 1).unwrap_or_default().to_vec();
        (page, total, ids.chunks(paging.per_page).count().max(1))
    }

    proptest! {
        #[test]
        fn matches_are_found_by_any_part_of_the_name_of_their_room(
            matches in vec(any_match(), 1..60),
            names in vec("[ab-][ab -]{0,3}[ab-]", 5),
            text in "[ab-]([ab -]{0,5}[ab-])?",
        ) {
            let teams: Vec<Team> = (1..).zip(&names).map(|(id, name)| team(id, name, 1)).collect();
            let base = Chunk { teams: teams.clone(), ..Chunk::default() };
            let mut chunks = catalog(matches).chunks().clone();
            chunks.insert(super::super::ChunkName::Base, Arc::new(base));
            let catalog = Catalog::new(chunks);
            let team = |id: u32| teams.iter().find(|team| team.id == id).unwrap();
            let has_text = |event: &&Match| {
                fold(&match_room_name(team(event.home_team_id), team(event.away_team_id))).contains(&text)
            };
            let all = catalog.list_events(&EventFilter::default(), Paging { page: 1, per_page: 100 });
            let expected: Vec<u32> = all.rows.into_iter().filter(has_text).map(|event| event.id).collect();
            let found: Vec<_> = catalog.matches_named(&text, None).collect();
            prop_assert_eq!(found.iter().map(|(_, event)| event.id).collect::<Vec<_>>(), expected);
            for (at, (position, _)) in found.iter().enumerate() {
                prop_assert_eq!(ListPosition::parse(&position.to_string()), Some(*position));
                let rest = catalog.matches_named(&text, Some(*position)).map(|(_, event)| event.id);
                let expected: Vec<u32> = found[at + 1..].iter().map(|(_, event)| event.id).collect();
                prop_assert_eq!(rest.collect::<Vec<_>>(), expected);
            }
        }

        #[test]
        fn match_lists_agree_with_a_simple_model(
            matches in vec(any_match(), 0..80),
            filter in any_filter(),
            page in 1_usize..12,
            per_page in prop_oneof![Just(1_usize), Just(100), 1_usize..20],
        ) {
            let catalog = catalog(matches);
            let all: Vec<Match> = catalog.events().cloned().collect();
            let paging = Paging { page, per_page };
            let (ids, total, last_page) = model(&all, &filter, paging);
            let listed = catalog.list_events(&filter, paging);
            prop_assert_eq!(listed.rows.iter().map(|m| m.id).collect::<Vec<_>>(), ids);
            prop_assert_eq!((listed.total, listed.last_page()), (total, last_page));
        }

        #[test]
        fn the_upcoming_matches_are_those_of_the_list_that_are_live_or_kick_off_within_seven_days(
            matches in vec(any_match(), 0..80),
            now in any_time(),
        ) {
            let catalog = catalog(matches);
            let all = Paging { page: 1, per_page: 100 };
            let mut expected = catalog.list_events(&EventFilter::default(), all).rows;
            expected.retain(|m| m.status.shown() == ShownStatus::Live || (m.start >= now && m.start < now + TimeDelta::days(7)));
            let page = catalog.list_upcoming(now, all);
            prop_assert_eq!(page.total, expected.len());
            prop_assert_eq!(page.rows, expected);
        }

        #[test]
        fn team_lists_agree_with_a_simple_model(
            names in vec("[A-CÄÉa-c ]{1,6}", 0..40),
            sport_id in proptest::option::of(1_u32..4),
            search in proptest::option::of("[A-Cäéa-c]{1,2}"),
            page in 1_usize..8,
            per_page in prop_oneof![Just(1_usize), Just(100), 1_usize..10],
        ) {
            let teams: Vec<Team> = (1_u32..).zip(&names).map(|(id, name)| team(id, name, 1 + id % 3)).collect();
            let plain = |text: &str| {
                text.to_lowercase().replace('ä', "a").replace('é', "e")
            };
            let mut wanted: Vec<&Team> = teams
                .iter()
                .filter(|team| sport_id.is_none_or(|id| team.sport_id == id))
                .filter(|team| search.as_ref().is_none_or(|search| plain(&team.name).contains(&plain(search))))
                .collect();
            wanted.sort_by_key(|team| (plain(&team.name), team.id));
            let ids: Vec<u32> = wanted.iter().map(|team| team.id).collect();

            let base = Chunk { teams: teams.clone(), ..Chunk::default() };
            let catalog = Catalog::new([(super::super::ChunkName::Base, Arc::new(base))].into());
            let listed = catalog.list_teams(&TeamFilter { sport_id, search }, Paging { page, per_page });
            prop_assert_eq!(
                listed.rows.iter().map(|team| team.id).collect::<Vec<_>>(),
                ids.chunks(per_page).nth(page - 1).unwrap_or_default().to_vec()
            );
            prop_assert_eq!((listed.total, listed.last_page()), (ids.len(), ids.chunks(per_page).count().max(1)));
        }

        #[test]
        fn a_match_that_goes_live_moves_up_without_reordering_the_others(matches in vec(any_match(), 5..40), which in 0_usize..5) {
            let before = catalog(matches.clone());
            let mut later = matches;
            later[which].status = Status::Live;
            let id = u32::try_from(which).unwrap() + 1;
            let after = catalog(later);
            let all = Paging { page: 1, per_page: 100 };
            let was: Vec<_> = before.list_events(&EventFilter::default(), all).rows.iter().map(|m| m.id).filter(|other| *other != id).collect();
            let page = after.list_events(&EventFilter::default(), all);
            let is: Vec<_> = page.rows.iter().map(|m| m.id).filter(|other| *other != id).collect();
            prop_assert_eq!(was, is, "the others keep their order");
            let live = page.rows.iter().take_while(|m| m.status.shown() == ShownStatus::Live).any(|m| m.id == id);
            prop_assert!(live);
        }
    }

    fn team(id: u32, name: &str, sport_id: u32) -> Team {
        Team { sport_id, ..testing::team(id, name) }
    }

    #[test]
    fn team_search_ignores_case_and_accents() {
        let teams = vec![
            team(1, "Ñuñoa Unido", 1),
            team(2, "Bayern", 1),
            team(3, "1. FC Köln", 1),
            team(4, "Köln Haie", 2),
        ];
        let base = Chunk { teams, ..Chunk::default() };
        let catalog = Catalog::new([(super::super::ChunkName::Base, Arc::new(base))].into());
        let ids = |sport_id, search: Option<&str>| -> Vec<u32> {
            let filter = TeamFilter { sport_id, search: search.map(str::to_owned) };
            catalog.list_teams(&filter, Paging { page: 1, per_page: 10 }).rows.iter().map(|t| t.id).collect()
        };
        assert_eq!(ids(None, None), [3, 2, 4, 1], "sorted by name");
        assert_eq!(ids(None, Some("KOLN")), [3, 4]);
        assert_eq!(ids(Some(2), Some("köln")), [4]);
        assert_eq!(ids(None, Some("nunoa")), [1]);
        assert_eq!(ids(None, Some("nothing")), [0_u32; 0]);
    }
}
