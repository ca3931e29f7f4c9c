//! What must hold at the end of a world, when faults have stopped and everything has settled.
//!
//! The checks compare the tables with what the API acknowledged and with what really happened in the matches.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use touchline::config::Tables;
use touchline::domain::prediction::Pick;
use touchline::domain::room::{Member, RoomId};
use touchline::domain::tally::{EventCounts, RoomCounts, UserStats};
use touchline::domain::{UserId, catalog::Score};
use touchline::storage::Store;
use touchline_testing::{Persona, SignIn};

use crate::dynamodb::DynamoDb;
use crate::person::{History, Outcome, PredictionAttempt, Shared, rows};
use crate::season::TrueMatch;

/// A settled world.
#[derive(Debug)]
pub struct Settled<'a> {
    pub shared: &'a Shared,
    pub histories: &'a [History],
    pub dynamodb: &'a DynamoDb,
    pub tables: &'a Tables,
    /// A store without faults.
    pub store: Store,
}

/// A stored prediction.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    pick: Pick,
    score: Option<Score>,
    confidence: u32,
    points: Option<u32>,
}

fn number(item: &Value, name: &str) -> Option<i64> {
    item[name]["N"].as_str().and_then(|text| text.parse().ok())
}

fn text<'a>(item: &'a Value, name: &str) -> &'a str {
    item[name]["S"].as_str().unwrap_or_default()
}

fn small(item: &Value, name: &str) -> Option<u32> {
    number(item, name).and_then(|number| u32::try_from(number).ok())
}

impl Settled<'_> {
    /// Returns a description of everything that is wrong.
    pub async fn check(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let predictions = self.dynamodb.items(&self.tables.predictions);
        let rooms = self.dynamodb.items(&self.tables.rooms);
        let users = self.dynamodb.items(&self.tables.users);
        let rows = stored_predictions(&predictions, &mut wrong);
        self.check_acknowledged_predictions(&rows, &mut wrong);
        self.check_points(&rows, &mut wrong);
        self.check_counts(&rows, &mut wrong).await;
        self.check_memberships(&rooms, &users, &mut wrong);
        self.check_copies(&rooms, &users, &rows, &mut wrong).await;
        check_owners(&users, &mut wrong);
        self.check_sessions(&mut wrong);
        self.check_coins(&mut wrong).await;
        self.check_search(&rooms, &mut wrong).await;
        if predictions.iter().any(|item| text(item, "pk") == "unreadable") {
            wrong.push("tally could not read a stream record".into());
        }
        wrong
    }

    fn check_acknowledged_predictions(&self, stored: &BTreeMap<(u32, u32), Row>, wrong: &mut Vec<String>) {
        for history in self.histories {
            let Some(user) = history.user_id else { continue };
            for (event, attempts) in &history.predictions {
                let row = stored.get(&(*event, user));
                if !is_explained(row, attempts) {
                    wrong.push(format!("user {user} match {event}: stored {row:?}, sent {attempts:?}"));
                }
            }
        }
    }

    fn check_points(&self, stored: &BTreeMap<(u32, u32), Row>, wrong: &mut Vec<String>) {
        let matches: BTreeMap<u32, TrueMatch> =
            self.shared.season.matches().into_iter().map(|one| (one.id, one)).collect();
        for ((event, user), row) in stored {
            let result = matches.get(event).and_then(TrueMatch::result);
            let expected = result.map(|result| points(row, result));
            if row.points != expected {
                wrong.push(format!(
                    "user {user} match {event}: {:?} points instead of {expected:?} for {row:?}, result {result:?}",
                    row.points
                ));
            }
        }
    }

    async fn check_counts(&self, stored: &BTreeMap<(u32, u32), Row>, wrong: &mut Vec<String>) {
        let mut events = BTreeMap::<u32, EventCounts>::new();
        let mut users = BTreeMap::<u32, UserStats>::new();
        for ((event, user), row) in stored {
            *events.entry(*event).or_default() += EventCounts {
                predictions: 1,
                home: i64::from(row.pick == Pick::Home),
                draw: i64::from(row.pick == Pick::Draw),
                away: i64::from(row.pick == Pick::Away),
                confidence: i64::from(row.confidence),
            };
            let stats = users.entry(*user).or_default();
            if let Some(points) = row.points {
                *stats += UserStats { settled: 1, correct: i64::from(points > 0), points: i64::from(points) };
            }
        }
        for one in self.shared.season.matches() {
            let counts = self.store.event_counts(one.id).await.expect("the store has no faults");
            let recount = events.get(&one.id).copied().unwrap_or_default();
            if counts != recount {
                wrong.push(format!("match {}: {counts:?}, recount {recount:?}", one.id));
            }
        }
        for (user, recount) in users {
            let stats = self.store.user_stats(UserId(user)).await.expect("the store has no faults");
            if stats != recount {
                wrong.push(format!("user {user}: {stats:?}, recount {recount:?}"));
            }
        }
    }

    fn check_memberships(&self, rooms: &[Value], users: &[Value], wrong: &mut Vec<String>) {
        let names = usernames(users);
        let truth = self.shared.homeserver.memberships();
        let known: BTreeSet<&str> = rooms
            .iter()
            .filter(|item| text(item, "sk") == "room")
            .map(|item| text(item, "room_id"))
            .collect();
        let mut stored = BTreeMap::new();
        for item in rooms.iter().filter(|item| text(item, "sk").starts_with("member#")) {
            let Some(name) = small(item, "user_id").and_then(|id| names.get(&id)) else { continue };
            stored.insert(
                (text(item, "room_id").to_owned(), name.clone()),
                text(item, "membership").to_owned(),
            );
        }
        for (key, membership) in &truth {
            let is = stored.get(key).map_or("leave", String::as_str);
            if is != *membership && known.contains(key.0.as_str()) {
                wrong.push(format!("{key:?} is {is}, on the homeserver {membership}"));
            }
        }
        for (key, is) in &stored {
            if is != "leave" && !truth.contains_key(key) {
                wrong.push(format!("{key:?} is {is}, unknown on the homeserver"));
            }
        }
    }

    async fn check_copies(
        &self,
        rooms: &[Value],
        users: &[Value],
        stored: &BTreeMap<(u32, u32), Row>,
        wrong: &mut Vec<String>,
    ) {
        let teams: BTreeMap<u32, Option<u32>> = users
            .iter()
            .filter(|item| text(item, "sk") == "profile")
            .filter_map(|item| {
                let id = text(item, "pk").strip_prefix("user#")?.parse().ok()?;
                Some((id, small(item, "primary_team")))
            })
            .collect();
        let mut recounts = BTreeMap::<String, RoomCounts>::new();
        for item in rooms.iter().filter(|item| text(item, "sk").starts_with("member#")) {
            let parsed: serde_dynamo::Item =
                serde_json::from_value(item.clone()).expect("an item is an item");
            let Ok(member) = serde_dynamo::from_item::<_, Member>(parsed) else {
                wrong.push(format!("a membership cannot be read: {item}"));
                continue;
            };
            let room = member.room_id.as_str().to_owned();
            *recounts.entry(room.clone()).or_default() += RoomCounts::of(&member);
            if !member.has_joined() {
                continue;
            }
            let user = member.user_id.0;
            let team = teams.get(&user).copied().flatten();
            if member.team != team {
                wrong.push(format!("user {user} in {room}: team {:?} instead of {team:?}", member.team));
            }
            let pick = member.event_id.and_then(|event| stored.get(&(event, user))).map(|row| row.pick);
            if member.pick != pick {
                wrong.push(format!("user {user} in {room}: pick {:?} instead of {pick:?}", member.pick));
            }
            let stats = self.store.user_stats(UserId(user)).await.expect("the store has no faults");
            let copied = (number(item, "settled").unwrap_or(0), number(item, "correct").unwrap_or(0));
            if copied != (stats.settled, stats.correct) || number(item, "standing") != stats.ranking_key() {
                wrong.push(format!("user {user} in {room}: ranked by {copied:?} instead of {stats:?}"));
            }
        }
        for (room, recount) in recounts {
            let id = RoomId::parse(&room).expect("a stored room id is valid");
            let counts = self.store.room_counts(&id).await.expect("the store has no faults");
            let teams = |counts: &RoomCounts| -> BTreeMap<u32, i64> {
                counts
                    .teams
                    .iter()
                    .filter(|(_, count)| **count != 0)
                    .map(|(team, count)| (*team, *count))
                    .collect()
            };
            if counts.totals != recount.totals || teams(&counts) != teams(&recount) {
                wrong.push(format!("room {room}: {counts:?}, recount {recount:?}"));
            }
        }
    }

    fn check_sessions(&self, wrong: &mut Vec<String>) {
        for history in self.histories {
            for (code, sessions) in history.sessions.iter().filter(|(_, sessions)| **sessions > 1) {
                wrong.push(format!("the code {code} opened {sessions} sessions"));
            }
        }
    }

    async fn check_coins(&self, wrong: &mut Vec<String>) {
        let audited = self.shared.gateway.lambda.invoke("treasury", json!({ "audit": {} })).await;
        match audited {
            Ok(report) if report["faulty"] == 0 => {}
            other => wrong.push(format!("the audit of the wallets: {other:?}")),
        }
        let items = self.dynamodb.items(&self.tables.wallets);
        for history in self.histories {
            let Some(user) = history.user_id else { continue };
            let entries: BTreeMap<&str, i64> = items
                .iter()
                .filter(|item| text(item, "pk") == format!("user#{user}"))
                .filter_map(|item| Some((text(item, "sk").strip_prefix("entry#")?, number(item, "amount")?)))
                .collect();
            for deduction in &history.deductions {
                let entry = entries.get(format!("reference#{}", deduction.reference).as_str()).copied();
                let expected = -i64::from(deduction.amount);
                let is_right = match deduction.outcome {
                    Outcome::Acknowledged => entry == Some(expected),
                    Outcome::Rejected | Outcome::Unknown => entry.is_none_or(|amount| amount == expected),
                };
                if !is_right {
                    wrong.push(format!("user {user}: {deduction:?}, in the ledger {entry:?}"));
                }
            }
            let claimed: i64 =
                entries.iter().filter(|(key, _)| key.starts_with("day#")).map(|(_, coins)| coins).sum();
            let acknowledged: i64 = history.claims.iter().sum();
            if claimed < acknowledged || (claimed > acknowledged && !history.has_unknown_claims) {
                wrong.push(format!("user {user}: claimed {acknowledged}, in the ledger {claimed}"));
            }
        }
    }

    /// Checks that a search finds every public room by its name.
    async fn check_search(&self, rooms: &[Value], wrong: &mut Vec<String>) {
        let auditor = SignIn::new(&self.shared.gateway, "+447700999999").await;
        let persona: &Persona<_> = &auditor;
        for item in
            rooms.iter().filter(|item| text(item, "sk") == "room" && item["is_private"]["BOOL"] != true)
        {
            let (id, name) = (text(item, "room_id"), text(item, "name"));
            let search = persona.lists_rooms().search(name).per_page(100);
            let mut page = search.clone().await;
            let mut is_found = false;
            loop {
                if page.status != 200 {
                    break;
                }
                is_found |= rows(&page).iter().any(|row| row["room_id"] == id);
                match page.body["meta"]["next_cursor"].as_str() {
                    Some(cursor) if !is_found => page = search.clone().cursor(cursor).await,
                    _ => break,
                }
            }
            if !is_found {
                wrong
                    .push(format!("a search for {name:?} does not find {id}: {} {}", page.status, page.body));
            }
        }
    }
}

fn stored_predictions(items: &[Value], wrong: &mut Vec<String>) -> BTreeMap<(u32, u32), Row> {
    let mut rows = BTreeMap::new();
    for item in items {
        if !text(item, "pk").starts_with("event#") || !text(item, "sk").starts_with("user#") {
            continue;
        }
        let goals = |name: &str| small(item, name).and_then(|goals| u16::try_from(goals).ok());
        let row = Pick::parse(text(item, "pick")).ok().map(|pick| Row {
            pick,
            score: goals("home").zip(goals("away")).map(|(home, away)| Score { home, away }),
            confidence: small(item, "confidence").unwrap_or(u32::MAX),
            points: small(item, "points"),
        });
        match (small(item, "event_id"), small(item, "user_id"), row) {
            (Some(event), Some(user), Some(row)) => {
                if rows.insert((event, user), row).is_some() {
                    wrong.push(format!("user {user} has two predictions for match {event}"));
                }
            }
            _ => wrong.push(format!("a prediction cannot be read: {item}")),
        }
    }
    rows
}

/// Returns the points that docs/points.md promises: 4 for the exact score, 3 for the winner and the goal difference, 2 for
/// the outcome. The check does not use the product's own function, because it would have the same bug.
fn points(row: &Row, result: Score) -> u32 {
    let difference = |score: Score| i32::from(score.home) - i32::from(score.away);
    let outcome = match difference(result) {
        0 => Pick::Draw,
        1.. => Pick::Home,
        _ => Pick::Away,
    };
    match row.score {
        _ if row.pick != outcome => 0,
        Some(score) if score == result => 4,
        Some(score) if outcome != Pick::Draw && difference(score) == difference(result) => 3,
        _ => 2,
    }
}

fn usernames(users: &[Value]) -> BTreeMap<u32, String> {
    let profiles = users.iter().filter(|item| text(item, "sk") == "profile");
    profiles
        .filter_map(|item| {
            Some((text(item, "pk").strip_prefix("user#")?.parse().ok()?, text(item, "username").to_owned()))
        })
        .collect()
}

/// Returns whether a stored prediction is the one of the last acknowledged request, or of a later request whose outcome
/// is unknown. `attempts` are the requests of a user, in order.
fn is_explained(row: Option<&Row>, attempts: &[PredictionAttempt]) -> bool {
    let last = attempts.iter().rposition(|attempt| attempt.outcome == Outcome::Acknowledged);
    let possible = &attempts[last.unwrap_or(0)..];
    match row {
        None => last.is_none(),
        Some(row) => possible.iter().any(|attempt| {
            attempt.outcome != Outcome::Rejected
                && (attempt.pick, attempt.score, attempt.confidence) == (row.pick, row.score, row.confidence)
        }),
    }
}

/// Checks that each phone and each username has one owner, whose profile has the same phone or username. A user also
/// stays the owner of earlier usernames.
fn check_owners(users: &[Value], wrong: &mut Vec<String>) {
    let profiles: BTreeMap<u32, &Value> = users
        .iter()
        .filter(|item| text(item, "sk") == "profile")
        .filter_map(|item| Some((text(item, "pk").strip_prefix("user#")?.parse().ok()?, item)))
        .collect();
    let mut owned = BTreeSet::new();
    for item in users.iter().filter(|item| text(item, "sk") == "owner") {
        let Some((kind, value)) = text(item, "pk").split_once('#') else { continue };
        let attribute = if kind == "phone" { "phone" } else { "username" };
        let Some(user) = small(item, "user_id") else { continue };
        let profile = profiles.get(&user).map_or("", |profile| text(profile, attribute));
        if profile == value {
            owned.insert((user, attribute));
        } else if kind == "phone" {
            wrong.push(format!(
                "{attribute} {value} belongs to user {user}, whose {attribute} is {profile:?}"
            ));
        }
    }
    for user in profiles.keys() {
        for attribute in ["phone", "username"] {
            if !owned.contains(&(*user, attribute)) {
                wrong.push(format!("user {user} has no owner row for their {attribute}"));
            }
        }
    }
}
