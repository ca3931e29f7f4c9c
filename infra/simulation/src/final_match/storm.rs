//! Many environments of `predictions` start at the same moment and load a catalog of three years.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, Months, Utc};
use tokio::time::Instant;
use touchline::domain::catalog::{Chunk, ChunkName, Key, Kind, Match, Sport, Status, Team, Tournament};
use touchline::domain::promotion::FEATURED_SHARDS;
use touchline::storage::catalog::Index;
use touchline_testing::Persona;

use super::{Arrivals, EVENT, Final, LASTS, Outcome, Seen, Setup, predict};
use crate::dice::Dice;
use crate::limits::Settings;
use crate::runtime;

/// A storm of cold starts.
#[derive(Debug, Clone)]
pub struct Storm {
    pub seed: u64,
    /// The number of environments that start. Each handles the prediction of one fan.
    pub environments: u32,
    /// The matches in each of the [`MONTHS`] months of the catalog.
    pub matches: u32,
    pub settings: Settings,
}

/// How many months the catalog has.
pub const MONTHS: u32 = 36;

/// How many of these months are over.
const PAST_MONTHS: u32 = 30;

const TEAMS: u32 = 1_000;

/// What happened.
#[derive(Debug, Clone)]
pub struct StormOutcome {
    /// The fields about fans and limits are set. The others keep their defaults.
    pub outcome: Outcome,
    /// From the start until the last fan's prediction was accepted.
    pub lasted: Duration,
}

/// Plays a storm.
///
/// # Panics
///
/// If the runtime or the engine does not start.
#[must_use]
pub fn play(storm: &Storm) -> StormOutcome {
    fastrand::seed(storm.seed);
    let setup = Setup {
        seed: storm.seed,
        fans: storm.environments,
        shards: FEATURED_SHARDS,
        arrivals: Arrivals::Late,
        settings: storm.settings.clone(),
    };
    runtime::new().block_on(async { Final::new(setup).await.play_storm(storm.matches).await })
}

impl Final {
    async fn play_storm(self, matches: u32) -> StormOutcome {
        let tokens = self.sign_in().await;
        self.publish_catalog(matches).await;
        // Until indexes and replicas have everything.
        tokio::time::sleep(crate::dynamodb::LONGEST_DELAY).await;
        let (began, seen) = (Instant::now(), Arc::new(Mutex::new(Seen::default())));
        let fans: Vec<_> = tokens
            .iter()
            .map(|token| {
                let fan = Persona::with_token(&self.gateway, token.as_str());
                let dice = Dice::new(self.setup.seed, token.as_str());
                tokio::spawn(predict(fan, dice, began + LASTS, Arc::clone(&seen)))
            })
            .collect();
        for fan in fans {
            fan.await.expect("no fan panics");
        }
        let mut seen = std::mem::take(&mut *seen.lock().expect("no holder of the lock panics"));
        StormOutcome {
            lasted: seen.last_accepted.take().map_or(Duration::ZERO, |last| last.duration_since(began)),
            outcome: self.outcome(seen),
        }
    }

    /// Stores a snapshot of [`MONTHS`] months. The final is one of the matches.
    async fn publish_catalog(&self, matches: u32) {
        let now = self.gateway.clock.time();
        let mut chunks = vec![(ChunkName::Base, base(now))];
        for month in 0..MONTHS {
            let start = now - Months::new(PAST_MONTHS) + Months::new(month);
            let first = EVENT + 1 + month * matches;
            let mut chunk = Chunk::default();
            if month == PAST_MONTHS {
                chunk.matches.push(event(EVENT, self.kick_off, 64));
            }
            chunk.matches.extend((first..first + matches).map(|id| event(id, start, 4)));
            chunks.push((chunk.matches[0].chunk(), chunk));
        }
        let mut index = Index::default();
        for (name, chunk) in chunks {
            let bytes = chunk.encode().expect("a chunk can be encoded");
            let stored = self.store.put_chunk("1.storm", name, &bytes).await;
            index.set(name, stored.expect("no limits apply outside of a function"));
        }
        let published = self.store.publish_index(None, "1.storm", &index).await;
        assert!(published.expect("no limits apply outside of a function"));
    }
}

/// A text that does not compress, such as an id of a homeserver.
fn random_text(kind: &str, id: u32) -> String {
    format!("{:016x}", Key::of(kind, Kind::Event, &id.to_string()).0)
}

fn base(now: DateTime<Utc>) -> Chunk {
    let teams = (1..=TEAMS).map(|id| Team {
        id,
        name: format!("FC {}", random_text("name", id)),
        slug: format!("fc-{}", random_text("name", id)),
        sport_id: 1,
        logo: None,
        country: Some("Dania".into()),
        founded: Some(1951),
        venue: Some(random_text("venue", id)),
        short_name: None,
        key: Key::of("storm", Kind::Team, &id.to_string()),
        as_of: now,
    });
    Chunk {
        sports: vec![Sport {
            id: 1,
            name: "Football".into(),
            slug: "football".into(),
            key: Key(1),
            as_of: now,
        }],
        tournaments: vec![Tournament {
            id: 1,
            name: "World Cup".into(),
            logo: None,
            featured: true,
            key: Key(2),
            as_of: now,
        }],
        teams: teams.collect(),
        matches: Vec::new(),
    }
}

fn event(id: u32, start: DateTime<Utc>, shards: u8) -> Match {
    Match {
        id,
        tournament_id: 1,
        home_team_id: 1 + id % TEAMS,
        away_team_id: 1 + (id + 1) % TEAMS,
        start,
        status: Status::Scheduled,
        venue: None,
        score: None,
        room: format!("!{}:touchline.local", random_text("room", id)).into(),
        room_name_hash: id.wrapping_mul(0x9e37_79b9),
        shards,
        pause: None,
        revision: 0,
        key: Key::of("storm", Kind::Event, &id.to_string()),
        as_of: start,
    }
}
