//! People: they log in, predict, chat, claim and spend coins. They retry, and they give up.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use serde_json::{Value, json};
use tokio::time::Instant;
use touchline::config::Tables;
use touchline::domain::MAX_CLOCK_DIFFERENCE;
use touchline::domain::catalog::Score;
use touchline::domain::prediction::Pick;
use touchline_testing::{Api as _, Persona, Request, Response, User};

use crate::dice::Dice;
use crate::dynamodb::{DynamoDb, LONGEST_DELAY};
use crate::fault::Moment;
use crate::gateway::Gateway;
use crate::homeserver::{ClientAction, Homeserver};
use crate::season::{Season, TEAMS, TrueMatch};
use crate::signal::Signal;

/// How long after an import every environment has the new catalog.
const CATALOG_DELAY: TimeDelta = TimeDelta::seconds(10);

/// The longest time for which a person waits for a kick-off.
const LONGEST_PAUSE: Duration = Duration::from_hours(72);

/// The longest time that a function may take for a request.
const FUNCTION_TIME: TimeDelta = TimeDelta::minutes(1);

/// The coins that an operator grants to some new users, and the reference of the grant.
pub const WELCOME_COINS: i64 = 5;
pub const WELCOME: &str = "welcome";

/// What all people of a world share.
#[derive(Debug)]
pub struct Shared {
    pub gateway: Gateway,
    pub homeserver: Arc<Homeserver>,
    pub season: Arc<Season>,
    /// The ids of the rooms whose creation was acknowledged.
    pub rooms: Mutex<Vec<String>>,
    /// The username of each person who has logged in.
    pub usernames: Mutex<BTreeMap<u32, String>>,
    pub dynamodb: DynamoDb,
    pub tables: Tables,
    /// Descriptions of what must never happen, but did.
    pub violations: Mutex<Vec<String>>,
    /// The match of the latest prediction.
    pub predicted: Mutex<Option<u32>>,
    /// Changes with every prediction.
    pub prediction: Signal,
}

impl Shared {
    /// Returns the match of the next prediction, just before it is sent.
    pub async fn next_predicted(&self) -> Option<u32> {
        let mut seen = self.prediction.count();
        self.prediction.changed(&mut seen).await;
        *self.predicted.lock().expect("no holder of the lock panics")
    }

    pub fn violation(&self, what: String) {
        self.gateway.trace.line(format_args!("VIOLATION {what}"));
        self.violations.lock().expect("no holder of the lock panics").push(what);
    }

    /// Returns the stored membership of a user: `join`, `invite` or `leave`.
    fn stored_membership(&self, room: &str, user: u32) -> Option<String> {
        let id = user.to_string();
        let items = self.dynamodb.items(&self.tables.rooms);
        let member = items.iter().find(|item| {
            item["room_id"]["S"] == room && item["user_id"]["N"] == *id && !item["membership"].is_null()
        });
        member?["membership"]["S"].as_str().map(str::to_owned)
    }

    /// Returns whether the ledger has an order of a user.
    fn is_stored(&self, user: u32, order: &Order) -> bool {
        let sk = format!("entry#reference#{}", order.reference);
        self.dynamodb.item(&self.tables.wallets, &format!("user#{user}"), &sk).is_some()
    }
}

/// What a person knows at the end: everything that was acknowledged, and everything that may have happened.
#[derive(Debug, Default)]
pub struct History {
    pub user: Option<User<Gateway>>,
    /// The id of the person's account. It stays when the person logs out.
    pub user_id: Option<u32>,
    pub predictions: BTreeMap<u32, Vec<Attempt<Guess>>>,
    /// Requests for a primary team.
    pub teams: Vec<Attempt<u32>>,
    /// Requests for teams beside the primary team.
    pub other_teams: Vec<Attempt<Vec<u32>>>,
    /// Requests for a name in the profile.
    pub names: Vec<Attempt<String>>,
    pub deductions: Vec<Deduction>,
    pub claims: Vec<Claim>,
    /// Whether an operator has granted [`WELCOME_COINS`].
    pub is_welcomed: bool,
    /// How many sessions each code opened.
    pub sessions: BTreeMap<String, u32>,
}

/// What a person predicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guess {
    pub pick: Pick,
    pub score: Option<Score>,
    pub confidence: u32,
}

impl Guess {
    /// Reads the prediction in the `data` of a response.
    pub fn read(data: &Value) -> Option<Self> {
        let goals = |side: &str| u16::try_from(data["score_prediction"][side].as_u64()?).ok();
        Some(Self {
            pick: Pick::parse(data["prediction"].as_str()?).ok()?,
            score: goals("home").zip(goals("away")).map(|(home, away)| Score { home, away }),
            confidence: u32::try_from(data["confidence"].as_u64()?).ok()?,
        })
    }
}

/// One request to save something, such as a prediction or a team.
#[derive(Debug, Clone)]
pub struct Attempt<T> {
    pub sent: T,
    /// What the response shows as saved, if it shows that.
    pub shown: Option<T>,
    pub status: u16,
    pub outcome: Outcome,
    pub began: DateTime<Utc>,
    /// When the person got a response or gave up.
    pub ended: DateTime<Utc>,
    /// The number of the request if the person gave up. The function may have gone on.
    pub given_up: Option<u64>,
}

/// One request for the daily coins.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The days for which the service may have paid.
    pub days: RangeInclusive<NaiveDate>,
    pub coins: i64,
    pub outcome: Outcome,
}

/// An order to deduct coins.
#[derive(Debug, Clone)]
pub struct Order {
    pub reference: String,
    pub amount: u32,
}

/// A deduction of coins. A person can send several requests for one deduction.
#[derive(Debug, Clone)]
pub struct Deduction {
    pub order: Order,
    pub outcome: Outcome,
}

/// What a person knows about a request. Of several requests for the same thing, the smallest outcome counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    Acknowledged,
    /// There was no response, or the service reported a failure. The request may have been carried out or not.
    Unknown,
    /// Rejected by a rule: nothing changed.
    Rejected,
}

impl Outcome {
    fn of(response: &Response) -> Self {
        match response.status.as_u16() {
            200 | 201 => Self::Acknowledged,
            400..500 => Self::Rejected,
            _ => Self::Unknown,
        }
    }
}

/// A person of a world.
#[derive(Debug)]
pub struct Person {
    number: u32,
    shared: Arc<Shared>,
    dice: Dice,
    history: History,
    orders: u32,
    /// Whether the person has tried to end their session.
    has_logged_out: bool,
    /// How many changes of `Season::last_call` the person has seen.
    last_calls: u64,
}

impl Person {
    #[must_use]
    pub fn new(number: u32, shared: Arc<Shared>, dice: Dice) -> Self {
        Self {
            number,
            shared,
            dice,
            history: History::default(),
            orders: 0,
            has_logged_out: false,
            last_calls: 0,
        }
    }

    fn phone(&self) -> String {
        format!("+4477009{:05}", self.number)
    }

    fn address(&self) -> String {
        format!("203.0.113.{}", self.number)
    }

    /// Acts until the API has received `requests` requests, those of the homeserver included.
    pub async fn live(mut self, requests: u32) -> History {
        while self.shared.gateway.requests.load(Ordering::Relaxed) < u64::from(requests) {
            let hurries = self.pause().await;
            match (self.history.user.clone(), hurries) {
                (None, _) => self.log_in().await,
                (Some(user), None) => self.act(&user).await,
                (Some(user), Some(event)) => self.predict(&user, event).await,
            }
        }
        self.history
    }

    /// Waits: mostly a moment, sometimes until shortly before a kick-off, sometimes for hours. Returns a match if
    /// its result is about to arrive, so that the person predicts it now.
    async fn pause(&mut self) -> Option<u32> {
        let pause = match self.dice.below(20) {
            0..8 => self.dice.millis(0, 200),
            8..14 => self.dice.millis(500, 30_000),
            14..17 => self.dice.millis(60_000, 1_200_000),
            17 | 18 => {
                let now = self.shared.gateway.clock.time();
                let starts = self.shared.season.matches().into_iter().map(|one| one.start - now);
                let next = starts.filter_map(|left| left.to_std().ok()).min();
                let next = next.filter(|left| *left < LONGEST_PAUSE);
                // Within two seconds of kick-off.
                let early = self.dice.millis(0, 2_000);
                next.map_or(Duration::from_mins(1), |left| left.saturating_sub(early))
            }
            _ => self.dice.millis(1_800_000, 10_800_000),
        };
        let season = Arc::clone(&self.shared.season);
        let hurries = tokio::time::timeout(pause, season.last_call.changed(&mut self.last_calls)).await;
        hurries.ok()?;
        tokio::time::sleep(self.dice.millis(0, 3_000)).await;
        season.closing()
    }

    /// Sends a request. If the service fails, sends it again, up to three times. Returns the last response and what the
    /// person knows after all of them.
    async fn insist<V>(&self, request: Request<Gateway, V>) -> (Response, Outcome) {
        let request = request.from_address(&self.address());
        let mut response = request.clone().await;
        let mut outcome = Outcome::of(&response);
        for _ in 0..self.dice.below(4) {
            if Outcome::of(&response) != Outcome::Unknown {
                break;
            }
            tokio::time::sleep(self.dice.millis(50, 3_000)).await;
            response = request.clone().await;
            outcome = outcome.min(Outcome::of(&response));
        }
        self.check(&response);
        (response, outcome)
    }

    /// Checks what must hold for every response.
    fn check(&self, response: &Response) {
        let status = response.status.as_u16();
        if status == 401
            && self.history.user.is_some()
            && !self.has_logged_out
            && response.request.contains("/auth/")
        {
            self.shared.violation(format!("{} is 401 for person {}", response.request, self.number));
        }
    }

    async fn log_in(&mut self) {
        let shared = Arc::clone(&self.shared);
        let anonymous = Persona::anonymous(&shared.gateway);
        let phone = self.phone();
        let (requested, _) = self.insist(anonymous.requests_code(&phone)).await;
        if requested.status != 200 {
            return;
        }
        let code = shared.gateway.last_code(&phone).await;
        // Two people may want the same username.
        let username = format!("person{}", self.number - self.dice.below(2).min(self.number - 1));
        let mut request = anonymous.verifies_code(&phone, &code).from_address(&self.address());
        if self.dice.once_in(2) {
            request = request.username(&username);
        }
        // Sometimes two devices send the same code concurrently.
        let responses = if self.dice.once_in(6) {
            let (one, other) =
                futures_util::future::join(request.clone().into_future(), request.into_future()).await;
            vec![one, other]
        } else {
            vec![request.await]
        };
        let was_known = self.history.user_id.is_some();
        for response in responses {
            if response.status != 200 {
                continue;
            }
            *self.history.sessions.entry(code.clone()).or_default() += 1;
            let user = User::from_login(&shared.gateway, &response.body["data"]);
            if self.history.user_id.is_some_and(|known| known != user.id) {
                shared.violation(format!("person {} has two accounts", self.number));
            }
            shared
                .usernames
                .lock()
                .expect("no holder of the lock panics")
                .insert(self.number, user.username.clone());
            self.history.user_id = Some(user.id);
            self.history.user = Some(user);
            self.has_logged_out = false;
        }
        if let (false, Some(user)) = (was_known, self.history.user.clone()) {
            self.begin(&user).await;
        }
    }

    /// Does what a new user does immediately: some look at their profile, some join a room, and some claim coins while an
    /// operator grants coins, too.
    async fn begin(&mut self, user: &User<Gateway>) {
        if self.dice.once_in(2) {
            let event = self.dice.choose(&self.shared.season.matches()).id;
            let room = match_room(event);
            self.shared.gateway.trace.line(format_args!("person {} joins {room}", self.number));
            self.shared.homeserver.act(&room, &user.username, ClientAction::Join);
        }
        if self.dice.once_in(2) {
            self.insist(user.views_profile()).await;
        }
        if self.dice.once_in(2) {
            let shared = Arc::clone(&self.shared);
            let grant = json!({ "grant": {
                "user_id": user.id, "amount": WELCOME_COINS, "reason": "welcome", "reference_id": WELCOME,
            } });
            let granted = async {
                // Operators repeat a failed grant.
                while let Err(failed) = shared.gateway.lambda.invoke("treasury", grant.clone()).await {
                    shared.gateway.trace.line(format_args!("grant -> {failed:?}"));
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            };
            futures_util::future::join(granted, self.claim(user)).await;
            self.history.is_welcomed = true;
        }
    }

    async fn act(&mut self, user: &User<Gateway>) {
        match self.dice.below(100) {
            0..30 => self.predict(user, self.dice.choose(&self.shared.season.matches()).id).await,
            30..36 => self.claim(user).await,
            36..46 => self.spend(user).await,
            46..52 => self.create_room(user).await,
            52..60 => self.join(user).await,
            60..64 => self.leave(user).await,
            64..69 => self.invite(user).await,
            69..76 => self.use_matrix_client(user).await,
            76..80 => {
                for _ in 0..=self.dice.below(2) {
                    let team = 1 + self.dice.below(TEAMS);
                    let attempts = self.save(team, user.saves_primary_team(team), |_| None).await;
                    self.history.teams.extend(attempts);
                }
            }
            80 => {
                for _ in 0..=self.dice.below(2) {
                    let teams = vec![1 + self.dice.below(TEAMS)];
                    let request = user.saves_other_teams(&teams);
                    let attempts = self.save(teams, request, |_| None).await;
                    self.history.other_teams.extend(attempts);
                }
            }
            81 | 82 => {
                if self.dice.once_in(2) {
                    self.shared.gateway.faults.begin(Moment::Edits, Duration::from_secs(10));
                }
                for _ in 0..=self.dice.below(2) {
                    let name = format!("Name {}", self.dice.below(100));
                    let request = user.updates_profile().name(&name);
                    let attempts = self.save(name, request, |_| None).await;
                    self.history.names.extend(attempts);
                }
            }
            83 => {
                self.has_logged_out = true;
                let (response, _) = self.insist(user.logs_out()).await;
                // Logging in again takes a code, and codes are limited, so most people stay logged in.
                if response.status == 200 || response.status == 401 {
                    self.history.user = None;
                    self.log_in().await;
                }
            }
            84 => self.rename(user).await,
            _ => self.read(user).await,
        }
    }

    /// Tries to get another username. Several people want the same ones.
    async fn rename(&mut self, user: &User<Gateway>) {
        let username = format!("person{}", self.dice.between(1, 9));
        let (_, outcome) = self.insist(user.updates_profile().username(&username)).await;
        if outcome == Outcome::Acknowledged {
            let mut renamed = user.clone();
            renamed.username.clone_from(&username);
            self.history.user = Some(renamed);
            let mut usernames = self.shared.usernames.lock().expect("no holder of the lock panics");
            usernames.insert(self.number, username);
        } else if outcome == Outcome::Unknown {
            // The person acts under this name, so it must be the right one. The request may still be running.
            tokio::time::sleep(LONGEST_DELAY).await;
            self.learn_username(user).await;
        }
    }

    /// Reads the profile until the service responds, and takes the username from it.
    async fn learn_username(&mut self, user: &User<Gateway>) {
        loop {
            let profile = user.views_profile().from_address(&self.address()).await;
            if profile.status == 401 {
                return;
            }
            if let Some(username) = profile.body["data"]["username"].as_str() {
                let mut renamed = user.clone();
                username.clone_into(&mut renamed.username);
                self.history.user = Some(renamed);
                return;
            }
            tokio::time::sleep(self.dice.millis(500, 30_000)).await;
        }
    }

    async fn predict(&mut self, user: &User<Gateway>, event: u32) {
        // Sometimes two devices send different predictions concurrently.
        let attempts = if self.dice.once_in(8) {
            let (one, other) = futures_util::future::join(
                self.send_prediction(user, event),
                self.send_prediction(user, event),
            )
            .await;
            [one, other].concat()
        } else {
            self.send_prediction(user, event).await
        };
        self.history.predictions.entry(event).or_default().extend(attempts);
        // Some change their mind within seconds.
        if self.dice.once_in(3) {
            tokio::time::sleep(self.dice.millis(0, 3_000)).await;
            let attempts = self.send_prediction(user, event).await;
            self.history.predictions.entry(event).or_default().extend(attempts);
        }
    }

    /// Sends a random prediction, up to three times.
    async fn send_prediction(&self, user: &User<Gateway>, event: u32) -> Vec<Attempt<Guess>> {
        let pick = *self.dice.choose(&[Pick::Home, Pick::Draw, Pick::Away]);
        let score = self.dice.once_in(2).then(|| {
            let (low, more) = (self.dice.below(2), 1 + self.dice.below(2));
            let (home, away) = match pick {
                Pick::Home => (low + more, low),
                Pick::Draw => (low, low),
                Pick::Away => (low, low + more),
            };
            Score { home: u16::try_from(home).unwrap_or(0), away: u16::try_from(away).unwrap_or(0) }
        });
        let confidence = self.dice.below(101);
        let sent = Guess { pick, score, confidence };
        *self.shared.predicted.lock().expect("no holder of the lock panics") = Some(event);
        self.shared.prediction.change();
        let mut request = user.predicts(event).pick(pick.as_str()).confidence(confidence);
        if let Some(score) = score {
            request = request.score(u32::from(score.home), u32::from(score.away));
        }
        let before = self.shared.season.one(event);
        let attempts = self.save(sent, request, Guess::read).await;
        for attempt in &attempts {
            self.check_kick_off(&before, attempt);
        }
        attempts
    }

    /// Sends a request to save something, up to three times. `shown` reads what was saved from the `data` of a response.
    async fn save<T: Clone, V>(
        &self,
        sent: T,
        request: Request<Gateway, V>,
        shown: fn(&Value) -> Option<T>,
    ) -> Vec<Attempt<T>> {
        let request = request.from_address(&self.address());
        let mut attempts = Vec::new();
        for _ in 0..=self.dice.below(3) {
            let began = self.shared.gateway.clock.time();
            let response = request.clone().await;
            self.check(&response);
            let outcome = Outcome::of(&response);
            attempts.push(Attempt {
                sent: sent.clone(),
                shown: shown(&response.body["data"]),
                status: response.status.as_u16(),
                outcome,
                began,
                ended: self.shared.gateway.clock.time(),
                given_up: response.body["given_up"].as_u64(),
            });
            if outcome != Outcome::Unknown {
                break;
            }
            tokio::time::sleep(self.dice.millis(10, 2_000)).await;
        }
        attempts
    }

    /// Checks that a prediction is accepted before kick-off and rejected after it. Skips matches that have just changed,
    /// because the service learns about a change a little later.
    fn check_kick_off(&self, before: &TrueMatch, attempt: &Attempt<Guess>) {
        let season = &self.shared.season;
        let is_known = season.known_since(before).is_some_and(|since| since + CATALOG_DELAY < attempt.began);
        if !is_known || season.one(before.id).changed != before.changed {
            return;
        }
        let is_to_come = matches!(before.status, "scheduled" | "postponed") && !before.has_begun;
        let is_over = !is_to_come || attempt.began > before.start + MAX_CLOCK_DIFFERENCE;
        if is_over && attempt.outcome == Outcome::Acknowledged {
            self.shared.violation(format!("{attempt:?} was accepted, but the match began: {before:?}"));
        }
        let is_open = is_to_come && attempt.ended < before.start - MAX_CLOCK_DIFFERENCE;
        let is_limited = matches!(attempt.status, 401 | 429);
        if is_open && attempt.outcome == Outcome::Rejected && !is_limited {
            self.shared.violation(format!("{attempt:?} was rejected, but the match is open: {before:?}"));
        }
    }

    async fn claim(&mut self, user: &User<Gateway>) {
        let began = self.shared.gateway.clock.time();
        let (response, outcome) = self.insist(user.claims_daily_coins()).await;
        let ended = self.shared.gateway.clock.time();
        // Two clocks differ by up to a second, and a function can go on after its client has given up.
        let latest = ended + MAX_CLOCK_DIFFERENCE + FUNCTION_TIME;
        let days = (began - MAX_CLOCK_DIFFERENCE).date_naive()..=latest.date_naive();
        let has_tried = self.history.claims.iter().any(|claim| {
            claim.outcome != Outcome::Rejected
                && claim.days.start() <= days.end()
                && days.start() <= claim.days.end()
        });
        if outcome == Outcome::Rejected && response.body["code"] == "already_claimed" && !has_tried {
            self.shared
                .violation(format!("person {} got already_claimed without a claim on {days:?}", self.number));
        }
        let coins = response.body["data"]["coins_awarded"].as_i64().unwrap_or(0);
        self.history.claims.push(Claim { days, coins, outcome });
    }

    async fn spend(&mut self, user: &User<Gateway>) {
        let (one, other) = (self.new_order(), self.new_order());
        // Sometimes two devices send the same order or different orders concurrently.
        let deductions = match self.dice.below(5) {
            0 => {
                let (first, second) =
                    futures_util::future::join(self.send_order(user, &one), self.send_order(user, &one))
                        .await;
                vec![Deduction { order: one, outcome: first.min(second) }]
            }
            1 => {
                let (first, second) =
                    futures_util::future::join(self.send_order(user, &one), self.send_order(user, &other))
                        .await;
                vec![Deduction { order: one, outcome: first }, Deduction { order: other, outcome: second }]
            }
            _ => {
                let outcome = self.send_order(user, &one).await;
                vec![Deduction { order: one, outcome }]
            }
        };
        self.history.deductions.extend(deductions);
    }

    fn new_order(&mut self) -> Order {
        self.orders += 1;
        Order { reference: format!("order-{}", self.orders), amount: 1 + self.dice.below(15) }
    }

    /// Sends an order, up to four times. An order that is in the ledger already must not be rejected.
    async fn send_order(&self, user: &User<Gateway>, order: &Order) -> Outcome {
        let request = user.deducts(order.amount).reference(&order.reference).from_address(&self.address());
        let mut outcome = Outcome::Rejected;
        for _ in 0..=self.dice.below(4) {
            let was_stored = self.shared.is_stored(user.id, order);
            let response = request.clone().await;
            self.check(&response);
            let latest = Outcome::of(&response);
            let is_limited = matches!(response.status.as_u16(), 401 | 429);
            if was_stored && latest == Outcome::Rejected && !is_limited {
                self.shared
                    .violation(format!("{order:?} is in the ledger and was rejected: {}", response.body));
            }
            outcome = outcome.min(latest);
            if latest != Outcome::Unknown {
                break;
            }
            tokio::time::sleep(self.dice.millis(50, 3_000)).await;
        }
        outcome
    }

    async fn create_room(&mut self, user: &User<Gateway>) {
        self.orders += 1;
        let name = format!("Room {} of {}", self.orders, self.number);
        let is_private = self.dice.once_in(3);
        let mut request = user.creates_room(&name).idempotency_key(&format!("room-{}", self.orders));
        if is_private {
            request = request.private();
        }
        if self.dice.once_in(2) {
            request = request.about_event(self.dice.choose(&self.shared.season.matches()).id);
            request = request.league(["match", "tournament", "all"][self.dice.below(3) as usize]);
        }
        let (response, outcome) = self.insist(request).await;
        if outcome == Outcome::Acknowledged {
            let id = response.body["data"]["room_id"].as_str().unwrap_or_default().to_owned();
            let mut rooms = self.shared.rooms.lock().expect("no holder of the lock panics");
            rooms.push(id);
        }
    }

    /// Chooses a room that a person created, or the room of a match.
    fn any_room(&self) -> String {
        let rooms = self.shared.rooms.lock().expect("no holder of the lock panics");
        if rooms.is_empty() || self.dice.once_in(3) {
            let event = self.dice.choose(&self.shared.season.matches()).id;
            return match_room(event);
        }
        self.dice.choose(&rooms).clone()
    }

    async fn join(&mut self, user: &User<Gateway>) {
        let room = self.any_room();
        self.change_membership(user, &room, user.joins(&room)).await;
        // Some change their mind within seconds, some of them twice.
        for again in [false, true] {
            if !self.dice.once_in(2) {
                return;
            }
            tokio::time::sleep(self.dice.millis(0, 5_000)).await;
            if again {
                self.change_membership(user, &room, user.joins(&room)).await;
            } else {
                self.change_membership(user, &room, user.leaves(&room)).await;
            }
        }
    }

    async fn leave(&mut self, user: &User<Gateway>) {
        let room = self.any_room();
        if self.dice.once_in(3) {
            self.leave_and_join(user, &room).await;
        } else {
            self.change_membership(user, &room, user.leaves(&room)).await;
        }
    }

    /// Joins a room, leaves it, and joins it again with a Matrix client on another device, before or after the leave is
    /// acknowledged.
    async fn leave_and_join(&self, user: &User<Gateway>, room: &str) {
        self.insist(user.joins(room)).await;
        self.shared.gateway.faults.begin(Moment::Memberships, Duration::from_secs(10));
        let join = async {
            tokio::time::sleep(self.dice.millis(0, 5_000)).await;
            self.act_in_client(room, &user.username, ClientAction::Join);
        };
        futures_util::future::join(self.insist(user.leaves(room)), join).await;
    }

    /// Sends a join or a leave. After it is acknowledged, the stored membership must be the homeserver's, even before
    /// the homeserver's event arrives. Does not check users who join again: the service may wait for the event. They may
    /// have had another username before. Does not check memberships of which another change has not arrived yet.
    async fn change_membership<V>(&self, user: &User<Gateway>, room: &str, request: Request<Gateway, V>) {
        let began = Instant::now();
        let is_first = self.shared.stored_membership(room, user.id).is_none();
        let waits = self.shared.homeserver.is_unpushed(room, &user.username);
        let (response, _) = self.insist(request).await;
        let (on_homeserver, changes) = self.shared.homeserver.membership(room, &user.username);
        let since = changes.iter().filter(|change| **change >= began).count();
        let stored = self.shared.stored_membership(room, user.id).unwrap_or_else(|| "leave".to_owned());
        let is_checked =
            !waits && since <= 1 && (on_homeserver == "leave" || (is_first && changes.len() == 1));
        if response.status == 200 && is_checked && stored != on_homeserver {
            self.shared.violation(format!(
                "{} is 200, but {} is {stored} and on the homeserver {on_homeserver}",
                response.request, user.username
            ));
        }
    }

    fn any_username(&self) -> Option<String> {
        let usernames = self.shared.usernames.lock().expect("no holder of the lock panics");
        let names: Vec<&String> = usernames.values().collect();
        (!names.is_empty()).then(|| (*self.dice.choose(&names)).clone())
    }

    async fn invite(&mut self, user: &User<Gateway>) {
        let (room, whom) = (self.any_room(), self.any_username());
        if let Some(whom) = whom {
            self.insist(user.invites_to(&room).username(&whom)).await;
        }
    }

    /// Does a few things in a room, with a Matrix client.
    async fn use_matrix_client(&self, user: &User<Gateway>) {
        let (room, whom) = (self.any_room(), self.any_username().unwrap_or_default());
        for _ in 0..=self.dice.below(3) {
            let action = match self.dice.below(6) {
                0 => ClientAction::Join,
                1 => ClientAction::Leave,
                2 => ClientAction::Kick(&whom),
                _ => ClientAction::Message,
            };
            self.act_in_client(&room, &user.username, action);
            tokio::time::sleep(self.dice.millis(0, 5_000)).await;
        }
    }

    fn act_in_client(&self, room: &str, username: &str, action: ClientAction<'_>) {
        self.shared.gateway.trace.line(format_args!("person {} in {room}: {action:?}", self.number));
        self.shared.homeserver.act(room, username, action);
    }

    async fn read(&self, user: &User<Gateway>) {
        let room = self.any_room();
        let (response, _) = match self.dice.below(9) {
            0 => self.insist(user.views_profile()).await,
            1 => self.insist(user.lists_events()).await,
            2 => self.insist(user.lists_own_predictions()).await,
            3 => self.insist(user.views_coins()).await,
            4 => self.insist(user.lists_rooms()).await,
            5 => self.insist(user.views_member_stats(&room)).await,
            6 => self.insist(user.lists_room_predictions(&room)).await,
            7 => self.insist(user.views_table(&room)).await,
            _ => {
                let event = self.dice.choose(&self.shared.season.matches()).id;
                self.insist(user.lists_event_predictions(event)).await
            }
        };
        let balance = &response.body["data"]["balance"];
        if balance.as_i64().is_some_and(|balance| balance < 0) {
            self.shared.violation(format!("person {} has a balance of {balance}", self.number));
        }
    }
}

/// Returns the id of the room of a match.
fn match_room(event: u32) -> String {
    format!("!match{event}:touchline.local")
}

/// Returns the list in the `data` of a response.
#[must_use]
pub fn rows(response: &Response) -> Vec<Value> {
    response.body["data"].as_array().cloned().unwrap_or_default()
}
