use std::collections::HashMap;

use touchline::domain::catalog::{Kind, Sport, Team, Tournament};
use touchline::storage::StoreError;

use super::Import;
use super::ids::Ids;
use super::slug::{Slugs, slug};
use crate::document::{NewSport, NewTeam, NewTournament, Reference};

impl Import<'_> {
    pub async fn import_sports(&mut self, ids: &Ids, sports: Vec<NewSport>) -> Result<(), StoreError> {
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

    pub async fn import_tournaments(
        &mut self,
        ids: &Ids,
        tournaments: Vec<NewTournament>,
    ) -> Result<(), StoreError> {
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
        for name in self.unknown_featured_tournaments() {
            tracing::warn!(name, "FeaturedTournaments contains a name that no tournament has");
        }
        Ok(())
    }

    /// Returns whether a tournament is featured: its feed or the operator says so.
    pub fn is_featured(&self, tournament: &Tournament) -> bool {
        tournament.featured || self.app.config.featured_tournaments.include(&tournament.name)
    }

    /// Returns the names in the operator's list that match no tournament of the document and of the catalog.
    pub fn unknown_featured_tournaments(&self) -> Vec<&str> {
        let tournaments = self.catalog.tournaments().chain(self.rows.tournaments.values());
        self.app.config.featured_tournaments.without_match(tournaments.map(|row| row.name.as_str()))
    }

    pub async fn import_teams(&mut self, ids: &Ids, teams: Vec<NewTeam>) -> Result<(), StoreError> {
        let mut slugs = Slugs::of(self.catalog.teams().map(|team| (team.slug.clone(), team.id)));
        let mut wanted = Vec::with_capacity(teams.len());
        let mut league_countries = HashMap::new();
        for new in teams {
            let (id, key) = ids.of(Kind::Team, &new.reference);
            let (sport_id, _) = ids.of(Kind::Sport, &new.sport);
            let known = self.rows.sports.contains_key(&sport_id) || self.catalog.sport(sport_id).is_some();
            if !known || self.rejected.contains(&(Kind::Sport, sport_id)) {
                self.rejected.insert((Kind::Team, id));
                self.reject(new.name, format!("sport {sport_id} is unknown"));
                continue;
            }
            // A slug stays when the name changes, unless the source sends another slug.
            let kept = self.catalog.team(id).filter(|team| team.key == key).map(|team| team.slug.clone());
            if let Some(country) = new.league_country {
                league_countries.insert(id, country);
            }
            let row = Team {
                id,
                slug: slugs.claim(id, &new.slug.or(kept).unwrap_or_else(|| slug(&new.name))),
                name: new.name.clone(),
                sport_id,
                logo: new.logo,
                country: new.country,
                founded: new.founded,
                venue: new.venue,
                short_name: new.short_name,
                key,
                as_of: self.as_of,
            };
            wanted.push((new.name, row));
        }
        let has_all_details = ids.is_own_format();
        self.rows.teams = self
            .apply(wanted, |before, mut wanted: Team| {
                // A document that is not in our own format may contain only the names of the teams. Details
                // that it omits keep their stored values.
                if let Some(before) = before.filter(|_| !has_all_details) {
                    wanted.logo = wanted.logo.or_else(|| before.logo.clone());
                    wanted.country = wanted.country.or_else(|| before.country.clone());
                    wanted.founded = wanted.founded.or(before.founded);
                    wanted.venue = wanted.venue.or_else(|| before.venue.clone());
                    wanted.short_name = wanted.short_name.or_else(|| before.short_name.clone());
                }
                wanted.country = wanted.country.or_else(|| league_countries.get(&wanted.id).cloned());
                wanted
            })
            .await?;
        Ok(())
    }

    /// Returns the team that a match refers to. Teams of different sources can have the same id, so the key of an
    /// external reference must also equal the key of the team.
    pub fn find_team(&self, ids: &Ids, reference: &Reference) -> Option<&Team> {
        let (id, key) = ids.of(Kind::Team, reference);
        let team = self.rows.teams.get(&id).or_else(|| self.catalog.team(id))?;
        let same_source = matches!(reference, Reference::Given(_)) || team.key == key;
        (same_source && !self.rejected.contains(&(Kind::Team, id))).then_some(team)
    }

    /// Returns the tournament that a match refers to. Checks the key as [`Self::find_team`] does.
    pub fn find_tournament(&self, ids: &Ids, reference: &Reference) -> Option<&Tournament> {
        let (id, key) = ids.of(Kind::Tournament, reference);
        let tournament = self.rows.tournaments.get(&id).or_else(|| self.catalog.tournament(id))?;
        let same_source = matches!(reference, Reference::Given(_)) || tournament.key == key;
        (same_source && !self.rejected.contains(&(Kind::Tournament, id))).then_some(tournament)
    }
}
