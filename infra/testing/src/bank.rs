//! The bank test: movements of coins on a network that loses, repeats and refuses, by processes that die.
//!
//! Each schedule is drawn from its seed and played in one thread on a clock that waits for nobody, with the
//! store in the same process: the same seed gives the same schedule, call by call. Afterwards the ledger must
//! be sound, and every answer that was given must be true.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_runtime_api::http::StatusCode;
use aws_smithy_types::body::SdkBody;
use chrono::{DateTime, TimeDelta, Utc};
use dynoxide::{Database, DynoxideError};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::Notify;
use touchline::App;
use touchline::Error;
use touchline::config::Config;
use touchline::domain::UserId;
use touchline::domain::coins::{Amount, CoinError, Entry, EntryKey, EntryKind, ReferenceId, audit};
use touchline::domain::limit;
use touchline::flows::coins;
use touchline::flows::coins::Receipt;
use touchline::ports::chat::LocalChat;
use touchline::ports::clock::Clock;
use touchline::ports::random::Random;
use touchline::ports::sms::Console;
use touchline::ports::web::NoWeb;
use touchline::storage::{self, Store};
use touchline_stack::{TEMPLATE, Template, tables};

use crate::{SeededRandom, TestClock};

/// What is taken away from the product, to see that the simulation notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    None,
    /// The balance is replaced whatever it was.
    BalanceCondition,
    /// An entry is written whether it was there or not.
    EntryCondition,
    /// A process can die between the two halves of a transaction.
    Atomicity,
}

/// A schedule that did not end as it must.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub seed: u64,
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}: {}", self.seed, self.what)
    }
}

/// What was played.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Played {
    pub schedules: u64,
    pub calls: u64,
    pub faults: u64,
    pub deaths: u64,
    pub entries: u64,
}

impl std::ops::AddAssign for Played {
    fn add_assign(&mut self, other: Self) {
        self.schedules += other.schedules;
        self.calls += other.calls;
        self.faults += other.faults;
        self.deaths += other.deaths;
        self.entries += other.entries;
    }
}

/// Plays one schedule for each seed; stops at the first that fails.
///
/// # Panics
///
/// Where no runtime or no store can be made.
pub fn play(seeds: Range<u64>, sabotage: Sabotage) -> Result<Played, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut played = Played::default();
        let mut bank = Bank::open(sabotage).await;
        for seed in seeds {
            // Wallets do not meet; a store that stays small is quick.
            if played.schedules % 2_000 == 1_999 {
                bank = Bank::open(sabotage).await;
            }
            let counts = bank.schedule(seed).await.map_err(|what| Failure { seed, what })?;
            played += counts;
        }
        Ok(played)
    })
}

/// Numbers for one schedule.
#[derive(Debug)]
struct Dice(SeededRandom);

impl Dice {
    fn below(&self, bound: u32) -> u32 {
        let random: &dyn Random = &self.0;
        random.below(bound)
    }

    /// Whether something happens that does so once in `of` times.
    fn once_in(&self, of: u32) -> bool {
        self.below(of) == 0
    }
}

/// A process as the network sees it: one invocation of a function.
#[derive(Debug)]
struct Process {
    dice: Arc<Dice>,
    /// Whether anything goes wrong at all.
    is_shaky: bool,
    may_die: bool,
    died: Notify,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    calls: AtomicU64,
    faults: AtomicU64,
    deaths: AtomicU64,
}

tokio::task_local! {
    static PROCESS: Arc<Process>;
}

/// The network, with the store at its other end.
#[derive(Clone)]
struct Wire {
    database: Arc<Mutex<Database>>,
    sabotage: Sabotage,
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wire")
    }
}

impl HttpClient for Wire {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for Wire {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default().to_owned();
        let body: Value = request
            .body()
            .bytes()
            .and_then(|bytes| serde_json::from_slice(bytes).ok())
            .expect("a body of JSON");
        let (wire, process) = (self.clone(), PROCESS.try_with(Arc::clone).ok());
        HttpConnectorFuture::new(async move {
            match process {
                Some(process) => wire.shaky(&operation, body, &process).await,
                None => Ok(wire.carry_out(&operation, body)),
            }
        })
    }
}

fn lost() -> ConnectorError {
    ConnectorError::io("lost on the way".into())
}

impl Wire {
    /// One call of a process: delayed, and maybe lost, repeated, refused, or its process's last.
    async fn shaky(
        &self,
        operation: &str,
        mut body: Value,
        process: &Process,
    ) -> Result<HttpResponse, ConnectorError> {
        let dice = &process.dice;
        process.counts.calls.fetch_add(1, Ordering::Relaxed);
        // Others may go first.
        for _ in 0..dice.below(4) {
            tokio::task::yield_now().await;
        }
        // Tokens are good for ten minutes, phones try for longer: the conditions must do without.
        if let Some(body) = body.as_object_mut() {
            body.remove("ClientRequestToken");
        }
        self.disarm(operation, &mut body);
        let fault = if process.is_shaky { dice.below(24) } else { u32::MAX };
        if fault < 8 {
            process.counts.faults.fetch_add(1, Ordering::Relaxed);
        }
        let answer = match fault {
            0 => return Err(lost()),
            1 => {
                self.carry_out(operation, body);
                return Err(lost());
            }
            2 => {
                // The network delivers it twice, and the second time late.
                self.carry_out(operation, body.clone());
                for _ in 0..dice.below(6) {
                    tokio::task::yield_now().await;
                }
                self.carry_out(operation, body)
            }
            3 => refused("ProvisionedThroughputExceededException", ""),
            4 if operation == "TransactWriteItems" => refused(
                "TransactionCanceledException",
                r#","CancellationReasons":[{"Code":"TransactionConflict"},{"Code":"None"}]"#,
            ),
            4 => refused("TransactionConflictException", ""),
            5 => refused("InternalServerError", ""),
            6 | 7 if process.may_die => {
                if self.sabotage == Sabotage::Atomicity && operation == "TransactWriteItems" {
                    let halves = body["TransactItems"].as_array_mut().expect("items");
                    halves.truncate(1);
                    self.carry_out(operation, body);
                } else if fault == 7 {
                    self.carry_out(operation, body);
                }
                process.counts.deaths.fetch_add(1, Ordering::Relaxed);
                process.died.notify_one();
                std::future::pending().await
            }
            _ => self.carry_out(operation, body),
        };
        for _ in 0..dice.below(3) {
            tokio::task::yield_now().await;
        }
        Ok(answer)
    }

    /// Makes a condition true whatever the case, where that is the sabotage.
    fn disarm(&self, operation: &str, body: &mut Value) {
        let (at, kind) = match self.sabotage {
            Sabotage::BalanceCondition => (0, "Update"),
            Sabotage::EntryCondition => (1, "Put"),
            Sabotage::None | Sabotage::Atomicity => return,
        };
        if operation == "TransactWriteItems" {
            let condition = &mut body["TransactItems"][at][kind]["ConditionExpression"];
            let armed = condition.as_str().expect("a condition");
            *condition = json!(format!("attribute_exists(pk) OR attribute_not_exists(pk) OR ({armed})"));
        }
    }

    fn carry_out(&self, operation: &str, body: Value) -> HttpResponse {
        let database = self.database.lock().expect("no call panics");
        macro_rules! dispatch {
            ($($name:literal => $call:ident),*) => {
                match operation {
                    $($name => run(body, |request| database.$call(request)),)*
                    other => panic!("the bank has no {other}"),
                }
            };
        }
        let done = dispatch!(
            "CreateTable" => create_table,
            "UpdateTimeToLive" => update_time_to_live,
            "GetItem" => get_item,
            "UpdateItem" => update_item,
            "TransactWriteItems" => transact_write_items,
            "TransactGetItems" => transact_get_items,
            "Query" => query
        );
        match done {
            Ok(text) => response(200, text),
            Err(error) => response(error.status_code(), error.to_json()),
        }
    }
}

fn run<Q: serde::de::DeserializeOwned, A: serde::Serialize>(
    body: Value,
    call: impl FnOnce(Q) -> Result<A, DynoxideError>,
) -> Result<String, DynoxideError> {
    let request = serde_json::from_value(body).expect("a request that the store reads");
    call(request).map(|answer| serde_json::to_string(&answer).expect("an answer"))
}

fn response(status: u16, body: String) -> HttpResponse {
    let status = StatusCode::try_from(status).expect("a status");
    let mut response = HttpResponse::new(status, SdkBody::from(body));
    response.headers_mut().insert("content-type", "application/x-amz-json-1.0");
    response
}

fn refused(code: &str, more: &str) -> HttpResponse {
    let status = if code == "InternalServerError" { 500 } else { 400 };
    response(
        status,
        format!(r#"{{"__type":"com.amazonaws.dynamodb.v20120810#{code}","message":"injected"{more}}}"#),
    )
}

/// What somebody wants to do with their coins.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Wish {
    Deduct { reference: u32, amount: u32 },
    DeductAlone { amount: u32 },
    Claim { at: DateTime<Utc> },
    Grant { reference: u32, amount: u32 },
}

/// What a process answered, if it lived to.
#[derive(Debug)]
enum Answer {
    Moved {
        entry: Entry,
        is_replay: bool,
    },
    /// A plain no, which is an answer.
    Refused(CoinError),
    /// Busy, limited or dead: the phone does not know.
    Unknown,
}

struct Bank {
    app: App,
}

impl Bank {
    async fn open(sabotage: Sabotage) -> Self {
        let stack = Template::parse(TEMPLATE)
            .and_then(|template| {
                template.resolve(&BTreeMap::from([("AWS::StackName".into(), "bank".into())]))
            })
            .expect("the template reads");
        let mut variables = stack.functions[0].environment.clone();
        for (name, value) in [
            ("ENVIRONMENT", "testing"),
            ("AWS_REGION", "eu-west-1"),
            ("AWS_ACCESS_KEY_ID", "bank"),
            ("AWS_SECRET_ACCESS_KEY", "bank"),
            ("CODE_PEPPER", "a pepper for the bank"),
            ("SMS_PROVIDER", "console"),
            ("AWS_ENDPOINT_URL_DYNAMODB", "http://bank.invalid"),
        ] {
            variables.insert(name.into(), value.into());
        }
        let config = Config::read(|name| variables.get(name).cloned()).expect("the variables are complete");
        let database = Database::memory().expect("a store in memory");
        let wire = Wire { database: Arc::new(Mutex::new(database)), sabotage };
        let client = storage::connect(&config.aws, wire);
        let wallets: Vec<_> =
            stack.tables.into_iter().filter(|table| table.name == config.tables.wallets).collect();
        tables::create(&client, &wallets).await.expect("a table");
        let random: Arc<dyn Random> = Arc::new(SeededRandom::default());
        let app = App {
            store: Store::new(client, config.tables.clone()),
            clock: Arc::new(TestClock::default()) as Arc<dyn Clock>,
            sms: Arc::new(Console),
            chat: Arc::new(LocalChat::new(config.chat.server.clone(), Arc::clone(&random))),
            random,
            web: Arc::new(NoWeb),
            catalog_cache: Arc::default(),
            config: Arc::new(config),
        };
        Self { app }
    }

    /// Plays the schedule of a seed on a wallet of its own.
    async fn schedule(&self, seed: u64) -> Result<Played, String> {
        // The SDK draws its waits from here.
        fastrand::seed(seed);
        let dice = Arc::new(Dice(SeededRandom::new(seed)));
        let counts = Arc::new(Counts::default());
        let user = UserId(1 + u32::try_from(seed % u64::from(u32::MAX)).unwrap_or(0));
        let mut app = self.app.clone();
        app.random = Arc::new(SeededRandom::new(seed ^ 0x5eed));
        let teller = Teller { app, user, crowd: Cell::new(0), dice, counts };

        let mut answers = Vec::new();
        // Some begin with an empty wallet, and race for its first entry.
        if !teller.dice.once_in(3) {
            let start = Wish::Grant { reference: 99, amount: 1 + teller.dice.below(30) };
            answers.push((start.clone(), teller.ask(&start, false, false).await));
        }
        let wishes = teller.wishes();
        // Everything at once, and some of it from two phones.
        let mut crowd = Vec::new();
        for wish in &wishes {
            for _ in 0..=teller.dice.below(2) {
                crowd.push(async { (wish.clone(), teller.ask(wish, true, true).await) });
            }
        }
        answers.extend(join_all(crowd).await);
        teller.crowd.set(answers.len());
        // Whoever does not know asks again, on a network that is no better.
        for wish in &wishes {
            for _ in 0..teller.dice.below(3) {
                answers.push((wish.clone(), teller.ask(wish, true, false).await));
            }
        }
        teller.check(&answers).await
    }
}

struct Teller {
    app: App,
    user: UserId,
    /// How many of the answers were given to the crowd, all at once and in no order.
    crowd: Cell<usize>,
    dice: Arc<Dice>,
    counts: Arc<Counts>,
}

impl Teller {
    fn wishes(&self) -> Vec<Wish> {
        let dice = &self.dice;
        let midnight: DateTime<Utc> = "2028-02-29T00:00:00Z".parse().expect("a leap day");
        let amounts = [1 + dice.below(20), 1 + dice.below(20)];
        (0..2 + dice.below(4))
            .map(|_| match dice.below(8) {
                0..=2 => {
                    let reference = dice.below(2);
                    // Sometimes the same reference for something else.
                    let slip = u32::from(dice.once_in(8));
                    Wish::Deduct { reference, amount: amounts[reference as usize] + slip }
                }
                3 => Wish::DeductAlone { amount: 1 + dice.below(10) },
                4 => Wish::Grant { reference: dice.below(2), amount: amounts[0] },
                // Around midnight, by clocks that differ.
                _ => {
                    let at = midnight + TimeDelta::days(i64::from(dice.below(3)))
                        - TimeDelta::milliseconds(3)
                        + TimeDelta::milliseconds(i64::from(dice.below(6)));
                    Wish::Claim { at }
                }
            })
            .collect()
    }

    /// One process tries once.
    async fn ask(&self, wish: &Wish, is_shaky: bool, may_die: bool) -> Answer {
        let process = Arc::new(Process {
            dice: Arc::clone(&self.dice),
            is_shaky,
            may_die,
            died: Notify::new(),
            counts: Arc::clone(&self.counts),
        });
        let outcome = tokio::select! {
            biased;
            outcome = PROCESS.scope(Arc::clone(&process), self.carry_out(wish)) => outcome,
            () = process.died.notified() => return Answer::Unknown,
        };
        match outcome {
            Ok(Receipt { entry, is_replay }) => Answer::Moved { entry, is_replay },
            Err(Error::Coins(error)) => Answer::Refused(error),
            Err(_) => Answer::Unknown,
        }
    }

    async fn carry_out(&self, wish: &Wish) -> Result<Receipt, Error> {
        let amount = |coins: u32| Amount::new(i64::from(coins)).expect("an amount");
        let reference = |number: u32| ReferenceId::parse(&format!("r{number}")).expect("a reference");
        let (app, user) = (&self.app, self.user);
        match wish {
            Wish::Deduct { reference: number, amount: coins } => {
                let key = EntryKey::Reference(reference(*number));
                coins::deduct(app, user, amount(*coins), "purchase", key).await
            }
            Wish::DeductAlone { amount: coins } => {
                let key = EntryKey::Generated(limit::request_id(app.clock.now(), app.random.number()));
                coins::deduct(app, user, amount(*coins), "purchase", key).await
            }
            Wish::Grant { reference: number, amount: coins } => {
                coins::grant(app, user, amount(*coins), "promotion", reference(*number)).await
            }
            Wish::Claim { at } => {
                let app = App { clock: Arc::new(TestClock::at(*at)), ..app.clone() };
                coins::claim(&app, user).await.map(|entry| Receipt { entry, is_replay: false })
            }
        }
    }

    /// Balance equals ledger, never negative, one award a day, one movement per reference, and every
    /// answer is in the books as it was given.
    async fn check(&self, answers: &[(Wish, Answer)]) -> Result<Played, String> {
        let statement = self.app.store.statement(self.user).await.map_err(|error| error.to_string())?;
        let (wallet, mut entries) = statement.ok_or("the wallet does not stand still")?;
        let faults = audit(&wallet, &mut entries);
        if let Some(fault) = faults.first() {
            return Err(format!("{fault}"));
        }
        let days: Vec<_> = entries
            .iter()
            .filter(|entry| entry.kind == EntryKind::Daily)
            .map(|entry| entry.created_at.date_naive())
            .collect();
        if days.iter().collect::<BTreeSet<_>>().len() != days.len() {
            return Err("two awards on one day".into());
        }
        let mut references = BTreeSet::new();
        for entry in entries.iter().filter(|entry| entry.reference_id.is_some()) {
            let reference = entry.reference_id.as_ref().map(|id| id.as_str().to_owned());
            if !references.insert((reference, entry.kind == EntryKind::Grant)) {
                return Err("two movements under one reference".into());
            }
        }
        self.check_answers(answers, &entries)?;
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        Ok(Played {
            schedules: 1,
            calls: count(&self.counts.calls),
            faults: count(&self.counts.faults),
            deaths: count(&self.counts.deaths),
            entries: entries.len() as u64,
        })
    }

    /// Every answer is true: what was moved is in the books as it was told and as it was wished, once as
    /// new; what was refused had a reason.
    fn check_answers(&self, answers: &[(Wish, Answer)], entries: &[Entry]) -> Result<(), String> {
        let mut fresh = BTreeSet::new();
        let mut alone = 0;
        for (at, (wish, answer)) in answers.iter().enumerate() {
            alone += usize::from(matches!(wish, Wish::DeductAlone { .. }));
            match answer {
                Answer::Moved { entry, is_replay } => {
                    if !entries.contains(entry) {
                        return Err(format!("{wish:?} was answered with what is not in the books"));
                    }
                    if !wish.fits(entry) {
                        return Err(format!("{wish:?} was answered with another movement: {entry:?}"));
                    }
                    if !is_replay && !fresh.insert(entry.transaction_id.clone()) {
                        return Err(format!("{wish:?} was answered twice as new"));
                    }
                }
                Answer::Refused(CoinError::ReferenceReused { .. }) => {
                    let other = entries.iter().any(|entry| wish.shares_key_with(entry) && !wish.fits(entry));
                    if !other {
                        return Err(format!("{wish:?} was refused as another's"));
                    }
                }
                Answer::Refused(CoinError::AlreadyClaimed { .. }) => {
                    let Wish::Claim { at } = wish else {
                        return Err(format!("{wish:?} was refused as claimed"));
                    };
                    let claimed = |entry: &Entry| {
                        entry.kind == EntryKind::Daily && entry.created_at.date_naive() >= at.date_naive()
                    };
                    if !entries.iter().any(claimed) {
                        return Err("a bonus was refused as claimed, and was not".into());
                    }
                }
                Answer::Refused(CoinError::Insufficient { balance, required: wanted }) => {
                    let was_held = *balance == 0 || entries.iter().any(|entry| entry.balance == *balance);
                    if i64::from(*wanted) <= *balance || !was_held {
                        return Err(format!("{wish:?} was refused for a balance of {balance}"));
                    }
                    // Whoever has heard yes does not hear no for the same movement afterwards.
                    let heard = answers[..at].iter().any(|(earlier, answer)| {
                        earlier == wish
                            && !matches!(wish, Wish::DeductAlone { .. })
                            && matches!(answer, Answer::Moved { .. })
                    });
                    if heard && at >= self.crowd.get() {
                        return Err(format!("{wish:?} was refused after it was made"));
                    }
                }
                Answer::Unknown => {}
            }
        }
        let taken_alone = entries
            .iter()
            .filter(|entry| entry.kind == EntryKind::Deduct && entry.reference_id.is_none())
            .count();
        if taken_alone > alone {
            return Err(format!("{taken_alone} deductions without a reference for {alone} requests"));
        }
        Ok(())
    }
}

impl Wish {
    /// Whether an entry is what was wished for.
    fn fits(&self, entry: &Entry) -> bool {
        let reference =
            |number: u32| entry.reference_id.as_ref().is_some_and(|id| id.as_str() == format!("r{number}"));
        match self {
            Self::Deduct { reference: number, amount } => {
                entry.kind == EntryKind::Deduct && reference(*number) && entry.amount == -i64::from(*amount)
            }
            Self::DeductAlone { amount } => {
                entry.kind == EntryKind::Deduct
                    && entry.reference_id.is_none()
                    && entry.amount == -i64::from(*amount)
            }
            Self::Grant { reference: number, amount } => {
                entry.kind == EntryKind::Grant && reference(*number) && entry.amount == i64::from(*amount)
            }
            Self::Claim { at } => {
                entry.kind == EntryKind::Daily && entry.created_at.date_naive() == at.date_naive()
            }
        }
    }

    /// Whether an entry lies under the key that this wish would have.
    fn shares_key_with(&self, entry: &Entry) -> bool {
        let reference =
            |number: u32| entry.reference_id.as_ref().is_some_and(|id| id.as_str() == format!("r{number}"));
        match self {
            Self::Deduct { reference: number, .. } => entry.kind == EntryKind::Deduct && reference(*number),
            Self::Grant { reference: number, .. } => entry.kind == EntryKind::Grant && reference(*number),
            Self::DeductAlone { .. } | Self::Claim { .. } => false,
        }
    }
}
