//! What must hold at the end of a world, when faults have stopped and everything has settled.
//!
//! The checks compare the tables with what the API acknowledged and with what really happened in the matches.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use touchline::config::Tables;
use touchline::domain::prediction::Pick;
use touchline::domain::room::RoomId;
use touchline::domain::standings::Board;
use touchline::domain::tally::{EventCounts, EventTally, RoomCounts, ShardRows, UserStats};
use touchline::domain::{UserId, Username, catalog::Score};
use touchline::storage::{Reads, Store, keys};
use touchline_testing::{Persona, SignIn};

use crate::bank::check_ledger;
use crate::dynamodb::DynamoDb;
use crate::gateway::Gateway;
use crate::person::{Attempt, Claim, Guess, History, Outcome, Shared, WELCOME, WELCOME_COINS, rows};
use crate::season::TrueMatch;

/// No item of a world is larger than this, in bytes of DynamoDB's JSON format. The largest are those with counters: they
/// have a position for each shard of the stream.
const LARGEST_ITEM: usize = 8_000;

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
    /// The shard of the match that holds the row.
    shard: u8,
    guess: Guess,
    points: Option<u32>,
    /// When the user last changed the prediction.
    changed: DateTime<Utc>,
    /// The tournament and the kick-off of the match when it was settled.
    settled_in: Option<(u32, DateTime<Utc>)>,
}

/// Reads a prediction in a response: the match, the prediction and its points.
fn shown(row: &Value) -> Option<(u32, Guess, Option<u32>)> {
    let small = |name: &str| row[name].as_u64().and_then(|number| u32::try_from(number).ok());
    Some((small("event_id")?, Guess::read(row)?, small("points_earned")))
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
    /// Returns a description of what is wrong with the counts and with the copies in memberships. A recount would repair it.
    pub async fn check_counted(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let rows = stored_predictions(&self.dynamodb.items(&self.tables.predictions), &mut wrong);
        self.check_counts(&rows, &mut wrong).await;
        self.check_boards(&rows, &mut wrong).await;
        let (rooms, users) =
            (self.dynamodb.items(&self.tables.rooms), self.dynamodb.items(&self.tables.users));
        self.check_copies(&rooms, &users, &rows, &mut wrong).await;
        wrong
    }

    /// Returns a description of everything that is wrong.
    pub async fn check(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let predictions = self.dynamodb.items(&self.tables.predictions);
        let rooms = self.dynamodb.items(&self.tables.rooms);
        let users = self.dynamodb.items(&self.tables.users);
        let rows = stored_predictions(&predictions, &mut wrong);
        self.check_acknowledged_predictions(&rows, &mut wrong);
        self.check_acknowledged_profiles(&users, &mut wrong);
        self.check_points(&rows, &mut wrong);
        self.check_counts(&rows, &mut wrong).await;
        self.check_boards(&rows, &mut wrong).await;
        self.check_memberships(&rooms, &users, &mut wrong);
        self.check_copies(&rooms, &users, &rows, &mut wrong).await;
        check_owners(&users, &mut wrong);
        self.check_sessions(&mut wrong);
        self.check_coins(&mut wrong).await;
        self.check_search(&rooms, &mut wrong).await;
        self.check_tables(&rooms, &rows, &mut wrong).await;
        self.check_reads(&rows, &mut wrong).await;
        self.check_sizes(&mut wrong);
        wrong.extend(self.shared.gateway.suspicious.lock().expect("no holder of the lock panics").drain(..));
        for item in predictions.iter().filter(|item| text(item, "pk") == "set-aside") {
            wrong.push(format!("tally set a stream record aside: {item}"));
        }
        wrong
    }

    fn check_acknowledged_predictions(&self, stored: &BTreeMap<(u32, u32), Row>, wrong: &mut Vec<String>) {
        for history in self.histories {
            let Some(user) = history.user_id else { continue };
            for (event, attempts) in &history.predictions {
                let attempts = self.ended(attempts);
                let guess = stored.get(&(*event, user)).map(|row| row.guess);
                check_explained(&format!("user {user} match {event}"), guess.as_ref(), &attempts, wrong);
                for one in attempts.iter().filter(|one| !is_shown_right(one, &attempts)) {
                    wrong.push(format!("user {user} match {event}: {one:?} shows a different prediction"));
                }
            }
        }
    }

    fn check_acknowledged_profiles(&self, users: &[Value], wrong: &mut Vec<String>) {
        let profiles = profiles(users);
        for history in self.histories {
            let Some(user) = history.user_id else { continue };
            let Some(profile) = profiles.get(&user) else {
                wrong.push(format!("user {user} has no profile"));
                continue;
            };
            let name = profile["name"]["S"].as_str().map(str::to_owned);
            check_explained(&format!("user {user} name"), name.as_ref(), &self.ended(&history.names), wrong);
            let team = small(profile, "primary_team");
            check_explained(&format!("user {user} team"), team.as_ref(), &self.ended(&history.teams), wrong);
            let others =
                profile["other_teams"]["L"].as_array().filter(|teams| !teams.is_empty()).map(|teams| {
                    teams.iter().filter_map(|team| team["N"].as_str()?.parse().ok()).collect::<Vec<u32>>()
                });
            let attempts = self.ended(&history.other_teams);
            check_explained(&format!("user {user} other teams"), others.as_ref(), &attempts, wrong);
        }
    }

    /// Returns the requests, each with the time at which its function ended.
    fn ended<'a, T>(&self, attempts: &'a [Attempt<T>]) -> Vec<Ended<'a, T>> {
        let given_up = self.shared.gateway.given_up();
        let end = |attempt: &Attempt<T>| {
            let ended = attempt.given_up.and_then(|number| given_up.get(&number).copied().flatten());
            ended.unwrap_or(attempt.ended)
        };
        attempts.iter().map(|attempt| Ended { attempt, at: end(attempt) }).collect()
    }

    /// Checks that the API shows people what is stored.
    async fn check_reads(&self, stored: &BTreeMap<(u32, u32), Row>, wrong: &mut Vec<String>) {
        let logged_in =
            self.histories.iter().filter_map(|history| history.user.as_ref().zip(history.user_id));
        for (user, id) in logged_in {
            let predictions = user.lists_own_predictions().per_page(100).await;
            // A logout may have ended the session although its response was lost.
            if predictions.status == 401 {
                continue;
            }
            let shown: BTreeSet<String> =
                rows(&predictions).iter().filter_map(shown).map(|row| format!("{row:?}")).collect();
            let own = stored.iter().filter(|((_, user), _)| *user == id);
            let own = own.map(|((event, _), row)| format!("{:?}", (*event, row.guess, row.points))).collect();
            if shown != own {
                wrong.push(format!("user {id} sees the predictions {shown:?}, stored are {own:?}"));
            }
            for response in [
                user.views_profile().await,
                user.views_coins().await,
                user.lists_events().await,
                user.lists_rooms().await,
            ] {
                if response.status != 200 {
                    wrong.push(format!("{} is {} for user {id}", response.request, response.status));
                }
            }
        }
    }

    fn check_points(&self, stored: &BTreeMap<(u32, u32), Row>, wrong: &mut Vec<String>) {
        let matches: BTreeMap<u32, TrueMatch> =
            self.shared.season.matches().into_iter().map(|one| (one.id, one)).collect();
        for ((event, user), row) in stored {
            let result = matches.get(event).and_then(TrueMatch::result);
            let start = matches.get(event).map(|one| one.start);
            let is_late = start.is_some_and(|start| row.changed > start);
            let expected = result.filter(|_| !is_late).map(|result| points(row, result));
            // A prediction that was never acknowledged can reach the store after `points` has read the match.
            let is_missing = row.points.is_none() && expected.is_some();
            if row.points != expected && (!is_missing || self.is_acknowledged(*event, *user)) {
                wrong.push(format!(
                    "user {user} match {event}: {:?} points instead of {expected:?} for {row:?}, result {result:?}",
                    row.points
                ));
            }
        }
    }

    /// Returns whether the API acknowledged a prediction of a user for a match.
    fn is_acknowledged(&self, event: u32, user: u32) -> bool {
        let of_user = self.histories.iter().filter(|history| history.user_id == Some(user));
        of_user
            .filter_map(|history| history.predictions.get(&event))
            .flatten()
            .any(|attempt| attempt.outcome == Outcome::Acknowledged)
    }

    async fn check_counts(&self, stored: &BTreeMap<(u32, u32), Row>, wrong: &mut Vec<String>) {
        let mut events = BTreeMap::<u32, EventTally>::new();
        for ((event, _), row) in stored {
            let counts = EventCounts {
                predictions: 1,
                home: i64::from(row.guess.pick == Pick::Home),
                draw: i64::from(row.guess.pick == Pick::Draw),
                away: i64::from(row.guess.pick == Pick::Away),
                confidence: i64::from(row.guess.confidence),
            };
            *events.entry(*event).or_default() += EventTally { counts, shards: ShardRows::one(row.shard) };
        }
        for one in self.shared.season.matches() {
            let counts = self.store.event_tally(one.id).await.expect("the store has no faults");
            let recount = events.get(&one.id).cloned().unwrap_or_default();
            if counts != recount {
                wrong.push(format!("match {}: {counts:?}, recount {recount:?}", one.id));
            }
        }
        for (user, recount) in recounted_stats(stored) {
            let stats = self.store.user_stats(UserId(user)).await.expect("the store has no faults");
            if stats != recount {
                wrong.push(format!("user {user}: {stats:?}, recount {recount:?}"));
            }
        }
    }

    /// Compares each leaderboard that has not closed with a full sort, and each rank with the one that two reads give.
    async fn check_boards(&self, stored: &BTreeMap<(u32, u32), Row>, wrong: &mut Vec<String>) {
        let now = self.shared.gateway.clock.time();
        let mut boards = BTreeMap::<Board, BTreeMap<u32, UserStats>>::new();
        for ((event, user), row) in stored {
            let Some(points) = row.points else { continue };
            let Some((tournament, kick_off)) = row.settled_in else {
                wrong.push(format!("match {event}, user {user}: points without a kick-off"));
                continue;
            };
            for board in Board::of_match(tournament, kick_off).filter(|board| !board.is_closed(now)) {
                *boards.entry(board).or_default().entry(*user).or_default() += stats_of(points);
            }
        }
        for (board, users) in boards {
            let built = self.store.built_board(board, Reads::Consistent).await;
            let Some(built) = built.expect("the store has no faults") else {
                wrong.push(format!("{board} was never built"));
                continue;
            };
            let rows = self.store.board_rows(&built).await.expect("the store has no faults");
            let found: BTreeMap<u32, UserStats> =
                rows.iter().map(|ranked| (ranked.row.place.user.0, ranked.row.stats())).collect();
            if found != users {
                wrong.push(format!("{board}: {found:?}, recount {users:?}"));
            }
            if !rows.is_sorted_by_key(|ranked| ranked.row.place) {
                wrong.push(format!("{board} is not sorted: {rows:?}"));
            }
            for (user, stats) in &users {
                let points = u32::try_from(stats.points).expect("points are not negative");
                let rank = self.store.rank(board, points).await.expect("the store has no faults");
                let better = users.values().filter(|other| other.points > stats.points).count();
                if rank.map(|rank| rank as usize) != Some(better + 1) {
                    wrong.push(format!("{board}: user {user} has rank {rank:?}, {better} users are better"));
                }
            }
        }
    }

    fn check_memberships(&self, rooms: &[Value], users: &[Value], wrong: &mut Vec<String>) {
        let profiles = profiles(users);
        let truth = self.shared.homeserver.memberships();
        let known: BTreeSet<&str> = rooms
            .iter()
            .filter(|item| text(item, "sk") == "room")
            .map(|item| text(item, "room_id"))
            .collect();
        let mut stored = BTreeMap::new();
        // The rooms to which users were invited under a former username. There, the user can be invited or have declined.
        let mut invited_before = BTreeSet::new();
        for item in rooms.iter().filter(|item| text(item, "sk").starts_with("member#")) {
            let profile = small(item, "user_id").and_then(|id| profiles.get(&id));
            let Some(profile) = profile else {
                wrong.push(format!("a membership of an unknown user: {item}"));
                continue;
            };
            let room = text(item, "room_id");
            let key = |name: &str| (room.to_owned(), name.to_owned());
            let username = text(profile, "username");
            for former in former_usernames(profile).filter(|former| *former != username) {
                // Only an invitation can be left behind: a user who has joined keeps the username.
                if truth.get(&key(former)) == Some(&"invite") {
                    invited_before.insert(key(former));
                    invited_before.insert(key(username));
                }
            }
            stored.insert(key(username), text(item, "membership").to_owned());
        }
        for (key, membership) in &truth {
            let is = stored.get(key).map_or("leave", String::as_str);
            let is_left_behind = invited_before.contains(key) && is != "join" && *membership != "join";
            if is != *membership && !is_left_behind && known.contains(key.0.as_str()) {
                wrong.push(format!("{key:?} is {is}, on the homeserver {membership}"));
            }
        }
        let created = self.shared.rooms.lock().expect("no holder of the lock panics");
        for room in created.iter().filter(|room| !known.contains(room.as_str())) {
            wrong.push(format!("the room {room} was acknowledged and is missing"));
        }
        for (key, is) in &stored {
            let is_left_behind = is == "invite" && invited_before.contains(key);
            if is != "leave" && !is_left_behind && !truth.contains_key(key) {
                wrong.push(format!("{key:?} is {is}, unknown on the homeserver"));
            }
        }
    }

    /// Checks what is copied to memberships, and the counts of rooms.
    async fn check_copies(
        &self,
        rooms: &[Value],
        users: &[Value],
        stored: &BTreeMap<(u32, u32), Row>,
        wrong: &mut Vec<String>,
    ) {
        let profiles = profiles(users);
        let stats = recounted_stats(stored);
        let mut recounts = BTreeMap::<&str, RoomRecount>::new();
        let mut ranked = BTreeMap::<&str, Vec<(i64, UserStats)>>::new();
        for item in rooms.iter().filter(|item| text(item, "sk").starts_with("member#")) {
            let room = text(item, "room_id");
            let recount = recounts.entry(room).or_default();
            let (Some(user), "join") = (small(item, "user_id"), text(item, "membership")) else {
                if number(item, "standing").is_some() {
                    wrong.push(format!("{item} is ranked without a membership"));
                }
                continue;
            };
            let team = profiles.get(&user).and_then(|profile| small(profile, "primary_team"));
            if small(item, "team") != team {
                wrong.push(format!("user {user} in {room}: {item} instead of team {team:?}"));
            }
            let event = small(item, "event_id");
            let pick = event.and_then(|event| stored.get(&(event, user))).map(|row| row.guess.pick);
            if text(item, "pick") != pick.map_or("", Pick::as_str) {
                wrong.push(format!("user {user} in {room}: {item} instead of pick {pick:?}"));
            }
            *recount.shards.entry(shard_of(item)).or_default() += 1;
            recount.add(pick, team, number(item, "seen"));
            let stats = stats.get(&user).copied().unwrap_or_default();
            let copied = (number(item, "settled").unwrap_or(0), number(item, "correct").unwrap_or(0));
            if copied != (stats.settled, stats.correct) {
                wrong.push(format!("user {user} in {room}: ranked by {copied:?} instead of {stats:?}"));
            }
            match number(item, "standing") {
                Some(_) if stats.settled == 0 => {
                    wrong.push(format!("user {user} in {room} is ranked without results: {item}"));
                }
                Some(standing) => ranked.entry(room).or_default().push((standing, stats)),
                None if stats.settled > 0 => {
                    wrong.push(format!("user {user} in {room} is not ranked: {item}"));
                }
                None => {}
            }
        }
        for (room, members) in ranked {
            check_ranking(room, &members, wrong);
        }
        for (room, recount) in recounts {
            let id = RoomId::parse(room).expect("a stored room id is valid");
            let counts = self.store.room_counts(&id).await.expect("the store has no faults");
            let counts = RoomRecount::of(counts);
            if counts != recount {
                wrong.push(format!("room {room}: {counts:?}, recount {recount:?}"));
            }
        }
    }

    /// Checks that no item has become large. DynamoDB rejects items over 400 KB, and every write of a large item is expensive.
    fn check_sizes(&self, wrong: &mut Vec<String>) {
        let Tables { users, sms_logs, catalog, predictions, wallets, rooms, directory, standings } =
            self.tables;
        for table in [users, sms_logs, catalog, predictions, wallets, rooms, directory, standings] {
            for item in self.dynamodb.items(table) {
                let size = item.to_string().len();
                if size > LARGEST_ITEM {
                    wrong.push(format!("{table} {} {} has {size} bytes", item["pk"], item["sk"]));
                }
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
                let entry = entries.get(format!("reference#{}", deduction.order.reference).as_str()).copied();
                let expected = -i64::from(deduction.order.amount);
                let is_right = match deduction.outcome {
                    Outcome::Acknowledged => entry == Some(expected),
                    Outcome::Unknown => entry.is_none_or(|amount| amount == expected),
                    Outcome::Rejected => entry.is_none(),
                };
                if !is_right {
                    wrong.push(format!("user {user}: {deduction:?}, in the ledger {entry:?}"));
                }
            }
            check_claims(user, &history.claims, &entries, wrong);
            let welcome = entries.get(format!("grant#{WELCOME}").as_str()).copied();
            if welcome != history.is_welcomed.then_some(WELCOME_COINS) {
                wrong.push(format!("user {user}: the grant is {welcome:?} in the ledger"));
            }
            let statement = self.store.statement(UserId(user)).await.expect("the store has no faults");
            let (wallet, mut movements) = statement.expect("the wallet does not change any more");
            if let Err(problem) = check_ledger(wallet.balance, &mut movements) {
                wrong.push(format!("the wallet of user {user}: {problem}"));
            }
        }
    }

    /// Compares the table of each public room with a full sort of its members.
    async fn check_tables(
        &self,
        rooms: &[Value],
        stored: &BTreeMap<(u32, u32), Row>,
        wrong: &mut Vec<String>,
    ) {
        let auditor = SignIn::new(&self.shared.gateway, "+447700999998").await;
        let persona: &Persona<_> = &auditor;
        // After that, every claim of a build has ended, and the slots of builds that did not end are free.
        tokio::time::sleep(Duration::from_mins(11)).await;
        for room in
            rooms.iter().filter(|item| text(item, "sk") == "room" && item["is_private"]["BOOL"] != true)
        {
            let id = text(room, "room_id");
            let league = room["league"]["S"].as_str();
            // All matches are in one tournament.
            let only = small(room, "event_id").filter(|_| league.is_none_or(|league| league == "match"));
            let points = |user: u32| -> u32 {
                let of_user = stored
                    .iter()
                    .filter(|((event, of), _)| *of == user && only.is_none_or(|only| *event == only));
                of_user.filter_map(|(_, row)| row.points).sum()
            };
            let members: BTreeMap<u32, u32> = rooms
                .iter()
                .filter(|item| text(item, "sk").starts_with("member#") && text(item, "room_id") == id)
                .filter(|item| text(item, "membership") == "join")
                .filter_map(|item| small(item, "user_id"))
                .map(|user| (user, points(user)))
                .collect();
            let expected: BTreeSet<(u64, u64, u64)> = members
                .iter()
                .map(|(user, points)| {
                    let better = members.values().filter(|other| *other > points).count() as u64;
                    (better + 1, u64::from(*user), u64::from(*points))
                })
                .collect();
            let table = persona.views_table(id).query("per_page", 100).await;
            let number = |value: &Value| value.as_u64().unwrap_or(u64::MAX);
            let found = rows(&table);
            let found: BTreeSet<(u64, u64, u64)> = found
                .iter()
                .map(|row| (number(&row["rank"]), number(&row["user"]["id"]), number(&row["points"])))
                .collect();
            if found != expected || table.body["meta"]["total"] != members.len() {
                wrong.push(format!("the table of {id}: {}, expected {expected:?}", table.body));
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
            // A search also finds a room by the end of its name.
            let end: String = name.chars().skip(2).collect();
            for text in [name, end.as_str()] {
                if !finds(persona, text, id).await {
                    wrong.push(format!("a search for {text:?} does not find {id}, {name:?}"));
                }
            }
        }
    }
}

/// Returns whether a search finds a room.
async fn finds(persona: &Persona<Gateway>, text: &str, room: &str) -> bool {
    let search = persona.lists_rooms().search(text).per_page(100);
    let mut page = search.clone().await;
    loop {
        if rows(&page).iter().any(|row| row["room_id"] == room) {
            return true;
        }
        match page.body["meta"]["next_cursor"].as_str() {
            Some(cursor) => page = search.clone().cursor(cursor).await,
            None => return false,
        }
    }
}

/// The counts of a room, counted from its memberships.
#[derive(Debug, Default, PartialEq, Eq)]
struct RoomRecount {
    members: i64,
    /// Members by shard.
    shards: BTreeMap<u8, i64>,
    /// Predictions of a home win, a draw, an away win.
    picks: [i64; 3],
    predictions: i64,
    teams: BTreeMap<u32, i64>,
    /// Members by the day on which they were last seen.
    days: BTreeMap<i64, i64>,
}

impl RoomRecount {
    fn add(&mut self, pick: Option<Pick>, team: Option<u32>, seen: Option<i64>) {
        self.members += 1;
        self.predictions += i64::from(pick.is_some());
        for (count, of) in self.picks.iter_mut().zip([Pick::Home, Pick::Draw, Pick::Away]) {
            *count += i64::from(pick == Some(of));
        }
        if let Some(team) = team {
            *self.teams.entry(team).or_default() += 1;
        }
        if let Some(seen) = seen {
            *self.days.entry(seen).or_default() += 1;
        }
    }

    fn of(counts: RoomCounts) -> Self {
        let RoomCounts { totals, shards, teams, days } = counts;
        let rows = |(shard, rows)| (shard, i64::try_from(rows).unwrap_or(-1));
        Self {
            members: totals.members,
            // If the counts by shard did not add up, these would be all shards.
            shards: shards.used(totals.members, u8::MAX).into_iter().map(rows).collect(),
            picks: [totals.home, totals.draw, totals.away],
            predictions: totals.predictions,
            teams: teams.into_iter().filter(|(_, count)| *count != 0).collect(),
            days: days
                .into_iter()
                .filter(|(_, count)| *count != 0)
                .map(|(day, count)| (day.0, count))
                .collect(),
        }
    }
}

/// Returns what one settled prediction adds to the statistics.
fn stats_of(points: u32) -> UserStats {
    UserStats {
        settled: 1,
        correct: i64::from(points > 0),
        points: i64::from(points),
        exact: i64::from(points == 4),
    }
}

/// Counts the settled predictions of each user.
fn recounted_stats(stored: &BTreeMap<(u32, u32), Row>) -> BTreeMap<u32, UserStats> {
    let mut users = BTreeMap::<u32, UserStats>::new();
    for ((_, user), row) in stored {
        let stats = users.entry(*user).or_default();
        if let Some(points) = row.points {
            *stats += stats_of(points);
        }
    }
    users
}

/// Checks that the members of a room are ranked by correct predictions, and then by the share of correct ones.
fn check_ranking(room: &str, members: &[(i64, UserStats)], wrong: &mut Vec<String>) {
    for (standing, stats) in members {
        for (other_standing, other) in members {
            // A share is compared as a product, without rounding.
            let is_better = (stats.correct, stats.correct * other.settled)
                > (other.correct, other.correct * stats.settled);
            if is_better && standing <= other_standing {
                wrong.push(format!("{room}: {stats:?} is not ranked before {other:?}"));
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
            shard: shard_of(item),
            guess: Guess {
                pick,
                score: goals("home").zip(goals("away")).map(|(home, away)| Score { home, away }),
                confidence: small(item, "confidence").unwrap_or(u32::MAX),
            },
            points: small(item, "points"),
            changed: text(item, "changed")
                .get(..13)
                .and_then(|millis| DateTime::from_timestamp_millis(millis.parse().ok()?))
                .unwrap_or_default(),
            settled_in: small(item, "tournament")
                .zip(number(item, "kick_off").and_then(|seconds| DateTime::from_timestamp(seconds, 0))),
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

/// Returns the shard of an item, the last part of its partition key.
fn shard_of(item: &Value) -> u8 {
    let shard = text(item, "pk").rsplit('#').next().and_then(|shard| shard.parse().ok());
    shard.expect("a stored row has a shard")
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
    match row.guess.score {
        _ if row.guess.pick != outcome => 0,
        Some(score) if score == result => 4,
        Some(score) if outcome != Pick::Draw && difference(score) == difference(result) => 3,
        _ => 2,
    }
}

/// Returns the profiles by user id.
fn profiles(users: &[Value]) -> BTreeMap<u32, &Value> {
    let profiles = users.iter().filter(|item| text(item, "sk") == "profile");
    profiles.filter_map(|item| Some((text(item, "pk").strip_prefix("user#")?.parse().ok()?, item))).collect()
}

fn former_usernames(profile: &Value) -> impl Iterator<Item = &str> {
    profile["former_usernames"]["L"].as_array().into_iter().flatten().filter_map(|name| name["S"].as_str())
}

/// A request, and when its function ended.
#[derive(Debug)]
struct Ended<'a, T> {
    attempt: &'a Attempt<T>,
    at: DateTime<Utc>,
}

/// Checks that a request explains what is stored.
fn check_explained<T: Debug + PartialEq>(
    what: &str,
    stored: Option<&T>,
    attempts: &[Ended<'_, T>],
    wrong: &mut Vec<String>,
) {
    if !is_explained(stored, attempts) {
        wrong.push(format!("{what}: stored {stored:?}, sent {attempts:?}"));
    }
}

/// Returns whether a request explains what is stored: it was not rejected, and no acknowledged request began after it had
/// ended.
fn is_explained<T: PartialEq>(stored: Option<&T>, attempts: &[Ended<'_, T>]) -> bool {
    let acknowledged = || attempts.iter().filter(|one| one.attempt.outcome == Outcome::Acknowledged);
    let Some(stored) = stored else { return acknowledged().next().is_none() };
    attempts.iter().any(|one| {
        one.attempt.outcome != Outcome::Rejected
            && one.attempt.sent == *stored
            && !acknowledged().any(|later| later.attempt.began > one.at)
    })
}

/// Returns whether a response shows the prediction that was sent, or the one of a concurrent request.
fn is_shown_right(one: &Ended<'_, Guess>, attempts: &[Ended<'_, Guess>]) -> bool {
    let Some(shown) = one.attempt.shown else { return one.attempt.outcome != Outcome::Acknowledged };
    let is_concurrent =
        |other: &Ended<'_, Guess>| other.attempt.began <= one.at && one.attempt.began <= other.at;
    shown == one.attempt.sent
        || attempts.iter().any(|other| is_concurrent(other) && other.attempt.sent == shown)
}

/// Checks that each phone and each username has one owner, whose profile has the same phone or username. A user also
/// stays the owner of earlier usernames.
fn check_owners(users: &[Value], wrong: &mut Vec<String>) {
    let profiles = profiles(users);
    let mut owned = BTreeSet::new();
    for item in users.iter().filter(|item| text(item, "sk") == "owner") {
        let Some((kind, value)) = text(item, "pk").split_once('#') else { continue };
        let attribute = if kind == "phone" { "phone" } else { "username" };
        let Some(user) = small(item, "user_id") else { continue };
        let profile = profiles.get(&user).map_or("", |profile| text(profile, attribute));
        // The key contains a hash of the username.
        let is_owned = if kind == "phone" {
            profile == value
        } else {
            Username::parse(profile).is_ok_and(|name| keys::username_owner(&name).pk == text(item, "pk"))
        };
        if is_owned {
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

/// Checks the daily coins in a ledger. Each acknowledged claim has an entry. Every other entry needs a claim whose
/// outcome is unknown.
fn check_claims(user: u32, claims: &[Claim], entries: &BTreeMap<&str, i64>, wrong: &mut Vec<String>) {
    let days: BTreeMap<&str, i64> =
        entries.iter().filter_map(|(key, coins)| Some((key.strip_prefix("day#")?, *coins))).collect();
    let of = |outcome| claims.iter().filter(move |claim| claim.outcome == outcome);
    let mut left: Vec<i64> = days.values().copied().collect();
    for claim in of(Outcome::Acknowledged) {
        match left.iter().position(|coins| *coins == claim.coins) {
            Some(at) => drop(left.swap_remove(at)),
            None => wrong.push(format!("user {user}: {claim:?} is not in the ledger {days:?}")),
        }
    }
    if left.len() > of(Outcome::Unknown).count() {
        wrong.push(format!("user {user}: claims {claims:?}, in the ledger {days:?}"));
    }
}
