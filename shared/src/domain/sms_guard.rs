//! Limits against SMS pumping: an attacker requests codes for numbers of expensive countries, to earn a share of the price.
//!
//! Users enter the codes that they request, and an attacker does not. So the codes that were sent but not entered are limited:
//! first for each network, so that an attacker with few addresses uses up nothing that others need, then for each calling
//! prefix. Without any entered code, a prefix gets only trials, of which all such prefixes share a few a day. A cap per hour
//! and two budgets limit what is left.
//!
//! A third of what a prefix, a cap or a budget allows is kept for networks from which the owner of the phone has logged in
//! before, so an attack does not lock out users.

use std::collections::BTreeMap;

use chrono::{DateTime, Days, DurationRound as _, NaiveDate, TimeDelta, Utc};

use super::calling_prefix::{CallingPrefix, PerPrefix};
use super::time::midnight_after;

/// How many days count, including the current one.
const WEEK: u64 = 7;

/// How many codes of a prefix may stay open in a week, however few were entered there.
const TOLERATED: i64 = 15;

/// The limits of text messages.
#[derive(Debug, Clone)]
pub struct GuardRules {
    /// How many messages a prefix can get in a UTC hour.
    pub per_hour: PerPrefix<i64>,
    /// How many entered codes a prefix is assumed to have in a week, in addition to those that it has.
    pub credit: PerPrefix<i64>,
    /// The price of a message, in millionths of a US dollar.
    pub price: PerPrefix<i64>,
    /// How many messages a day all prefixes without entered codes can get together.
    pub trials_per_day: i64,
    pub network: NetworkLimits,
    pub budget: Budget,
}

/// By how much the open codes of a network can exceed its entered codes, in a week.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkLimits {
    /// A network with fewer is trusted like one that has requested nothing yet.
    pub trusted: i64,
    pub at_most: i64,
}

/// How much can be spent, in millionths of a US dollar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    pub per_day: i64,
    pub per_month: i64,
}

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    Code,
    /// A code for the owner of a phone who has logged in from the same network before.
    CodeForKnownNetwork,
    /// A text that has no code.
    Notice,
}

/// How much a message may use of what all share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Known,
    /// Unknown, but the network enters its codes or has requested none.
    Trusted,
    /// The network has an open code already. It must not use up what others need for their first code.
    Burdened,
}

impl Standing {
    fn part_of(self, limit: i64) -> i64 {
        match self {
            Self::Known => limit,
            Self::Trusted => limit - limit / 3,
            Self::Burdened => limit / 5,
        }
    }
}

/// A value for each of the three items that count a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counted<T> {
    /// For the network that requests the message.
    pub network: T,
    /// For the prefix to which the message goes.
    pub prefix: T,
    /// For all messages of the month.
    pub total: T,
}

/// The counters of an item by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts(pub BTreeMap<String, i64>);

/// Codes that were sent and not entered, by the day on which they were sent.
fn open(day: NaiveDate) -> String {
    format!("open:{day}")
}

/// Codes that were entered, by the day on which they were sent.
fn entered(day: NaiveDate) -> String {
    format!("entered:{day}")
}

/// Messages by the hour in which they were sent.
fn sent_in(at: DateTime<Utc>) -> String {
    at.format("sent:%Y-%m-%dT%H").to_string()
}

/// Messages to prefixes without entered codes.
fn trials(day: NaiveDate) -> String {
    format!("trials:{day}")
}

/// The price of the messages of a day.
fn spent_on(day: NaiveDate) -> String {
    format!("spent:{day}")
}

/// The price of the messages of the month.
const SPENT: &str = "spent:month";

impl Counts {
    fn get(&self, counter: &str) -> i64 {
        self.0.get(counter).copied().unwrap_or_default()
    }

    fn in_week(&self, counter: fn(NaiveDate) -> String, today: NaiveDate) -> i64 {
        (0..WEEK).map(|ago| self.get(&counter(today - Days::new(ago)))).sum()
    }

    /// Returns the counters of a network or a prefix that are no longer needed.
    pub fn outdated(&self, now: DateTime<Utc>) -> impl Iterator<Item = &str> {
        let first = now.date_naive() - Days::new(WEEK - 1);
        let oldest = [open(first), entered(first), sent_in(now)];
        let kind = |name: &str| name.find(':').map(|end| name[..end].to_owned());
        let is_old = move |name: &&str| {
            oldest.iter().any(|oldest| kind(name) == kind(oldest) && *name < oldest.as_str())
        };
        self.0.keys().map(String::as_str).filter(is_old)
    }
}

/// An addition to a counter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub counter: String,
    pub amount: i64,
    /// The addition is allowed only if the counter has at most this value before it.
    pub at_most: i64,
}

impl Step {
    /// Returns the addition of `amount`, unless less than that is left.
    fn within(counts: &Counts, counter: String, amount: i64, left: i64) -> Option<Self> {
        let at_most = counts.get(&counter).saturating_add(left - amount);
        (left >= amount).then_some(Self { counter, amount, at_most })
    }

    fn unlimited(counter: String, amount: i64) -> Self {
        Self { counter, amount, at_most: i64::MAX }
    }

    /// Returns the addition that takes this one back.
    #[must_use]
    pub fn reversed(&self) -> Self {
        Self::unlimited(self.counter.clone(), -self.amount)
    }
}

/// Returns what the entry of a code adds to the counters of its network, and of its prefix. The fixed code of a test phone
/// proves nothing, because no message was sent.
#[must_use]
pub fn entry(sent_at: DateTime<Utc>, is_test: bool) -> Vec<Step> {
    let day = sent_at.date_naive();
    let proof = (!is_test).then(|| Step::unlimited(entered(day), 1));
    [Step::unlimited(open(day), -1)].into_iter().chain(proof).collect()
}

/// Nothing is sent for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no message is sent for another {} s", retry_after.num_seconds())]
pub struct Stopped {
    pub retry_after: TimeDelta,
}

impl Stopped {
    /// The counters of an hour begin at zero. Until then, other codes may be entered, too.
    #[must_use]
    pub fn until_next_hour(now: DateTime<Utc>) -> Self {
        let hour = TimeDelta::hours(1);
        Self { retry_after: now.duration_trunc(hour).unwrap_or(now) + hour - now }
    }

    fn until_midnight(now: DateTime<Utc>) -> Self {
        Self { retry_after: midnight_after(now.date_naive()) - now }
    }
}

/// Why a message cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the budget for text messages is used up")]
    BudgetReached,
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl GuardRules {
    /// Returns what a message adds to the counters, if it can be sent now.
    pub fn check(
        &self,
        message: Message,
        prefix: &CallingPrefix,
        counts: &Counted<Counts>,
        now: DateTime<Utc>,
    ) -> Result<Counted<Vec<Step>>, Refusal> {
        let (today, stopped) = (now.date_naive(), Stopped::until_next_hour(now));
        let Counted { network, prefix: country, total } = counts;
        let burden = network.in_week(open, today) - network.in_week(entered, today);
        let standing = match message {
            Message::Code if burden < self.network.trusted => Standing::Trusted,
            Message::Code => Standing::Burdened,
            Message::CodeForKnownNetwork | Message::Notice => Standing::Known,
        };
        let mut steps = Counted::<Vec<Step>>::default();
        if message != Message::Notice {
            let proven = self.credit.of(prefix) + country.in_week(entered, today);
            let of_country = standing.part_of(proven.max(TOLERATED)) - country.in_week(open, today);
            let (of_network, of_country) = match standing {
                Standing::Known => (i64::MAX, i64::MAX),
                Standing::Trusted => (self.network.trusted - burden, of_country),
                Standing::Burdened => (self.network.at_most - burden, of_country),
            };
            steps.network.push(Step::within(network, open(today), 1, of_network).ok_or(stopped)?);
            if proven <= 0 && standing != Standing::Known {
                let left = self.trials_per_day - total.get(&trials(today));
                let trial =
                    Step::within(total, trials(today), 1, left).ok_or(Stopped::until_midnight(now))?;
                steps.total.push(Some(trial).filter(|_| standing == Standing::Trusted).ok_or(stopped)?);
            }
            steps.prefix.push(Step::within(country, open(today), 1, of_country).ok_or(stopped)?);
        }
        let left = |limit: i64, counts: &Counts, counter: &str| standing.part_of(limit) - counts.get(counter);
        let (hour, price) = (sent_in(now), self.price.of(prefix));
        let sent = left(self.per_hour.of(prefix), country, &hour);
        steps.prefix.push(Step::within(country, hour, 1, sent).ok_or(stopped)?);
        // A network has a limit of its own, so its next code may use as much of the budgets as its first.
        let standing = if standing == Standing::Burdened { Standing::Trusted } else { standing };
        let left = |limit: i64, counts: &Counts, counter: &str| standing.part_of(limit) - counts.get(counter);
        let budget = self.budget;
        for (counter, limit) in [(spent_on(today), budget.per_day), (SPENT.to_owned(), budget.per_month)] {
            let left = left(limit, total, &counter);
            steps.total.push(Step::within(total, counter, price, left).ok_or(Refusal::BudgetReached)?);
        }
        Ok(steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Phone;

    /// The rules with the default settings.
    fn rules() -> GuardRules {
        GuardRules {
            per_hour: PerPrefix::same(1_000),
            credit: PerPrefix::same(0),
            price: PerPrefix::same(100_000),
            trials_per_day: 3,
            network: NetworkLimits { trusted: 1, at_most: 5 },
            budget: Budget { per_day: 20_000_000, per_month: 100_000_000 },
        }
    }

    fn with_credit(credit: i64) -> GuardRules {
        GuardRules { credit: PerPrefix::same(credit), ..rules() }
    }

    /// All counters, as the store keeps them.
    struct World {
        rules: GuardRules,
        now: DateTime<Utc>,
        networks: BTreeMap<String, Counts>,
        prefixes: BTreeMap<CallingPrefix, Counts>,
        total: Counts,
    }

    const HOUR: TimeDelta = TimeDelta::hours(1);
    const STOPPED: Refusal = Refusal::Stopped(Stopped { retry_after: TimeDelta::minutes(50) });

    fn prefix_of(phone: &str) -> CallingPrefix {
        CallingPrefix::of(&Phone::parse(phone).unwrap())
    }

    fn add(counts: &mut Counts, steps: Vec<Step>) {
        for Step { counter, amount, at_most } in steps {
            let count = counts.0.entry(counter).or_default();
            assert!(*count <= at_most, "the check allows what the write rejects");
            *count += amount;
        }
    }

    impl World {
        fn new(rules: GuardRules) -> Self {
            let now = "2026-11-09T12:10:00Z".parse().unwrap();
            let (networks, prefixes) = (BTreeMap::new(), BTreeMap::new());
            Self { rules, now, networks, prefixes, total: Counts::default() }
        }

        fn send(&mut self, message: Message, network: &str, phone: &str) -> Result<(), Refusal> {
            let prefix = prefix_of(phone);
            let network = self.networks.entry(network.to_owned()).or_default();
            let country = self.prefixes.entry(prefix.clone()).or_default();
            let counts =
                Counted { network: network.clone(), prefix: country.clone(), total: self.total.clone() };
            let steps = self.rules.check(message, &prefix, &counts, self.now)?;
            add(network, steps.network);
            add(country, steps.prefix);
            add(&mut self.total, steps.total);
            Ok(())
        }

        fn code(&mut self, network: &str, phone: &str) -> Result<(), Refusal> {
            self.send(Message::Code, network, phone)
        }

        fn enter(&mut self, network: &str, phone: &str) {
            add(self.networks.get_mut(network).unwrap(), entry(self.now, false));
            add(self.prefixes.get_mut(&prefix_of(phone)).unwrap(), entry(self.now, false));
        }

        /// A user who has logged in from this network before.
        fn returns(&mut self, network: &str, phone: &str) {
            let sent = self.code(network, phone);
            sent.or_else(|_| self.send(Message::CodeForKnownNetwork, network, phone)).unwrap();
            self.enter(network, phone);
        }

        fn registers(&mut self, network: &str, phone: &str) {
            self.code(network, phone).unwrap();
            self.enter(network, phone);
        }

        fn bill(&self) -> i64 {
            self.total.get(SPENT)
        }
    }

    const PHONE: &str = "+447700900123";

    fn number(n: usize) -> String {
        format!("+4477001{n:05}")
    }

    fn address(n: usize) -> String {
        format!("198.51.100.{n}")
    }

    /// Whatever the attacker tries first: the country of the users, countries without users, or both.
    #[test]
    fn an_attack_from_seven_addresses_costs_at_most_a_dollar_and_locks_out_nobody() {
        type Target = fn(usize) -> String;
        let targets: [Target; 4] = [
            number,
            |n| format!("+2348{n:09}"),
            |n| if n % 2 == 0 { number(n) } else { format!("+628{n:09}") },
            |n| if n % 1_000 < 500 { format!("+2348{n:09}") } else { number(n) },
        ];
        for target in targets {
            let mut world = World::new(rules());
            world.registers("home", PHONE);
            let (mut requests, mut paid) = (0, world.bill());
            let mut bill = 0;
            for hour in 0..120 {
                for _ in 0..40 {
                    requests += 1;
                    let _ = world.code(&address(requests % 7), &target(requests));
                }
                bill += world.bill() - paid;
                if hour % 12 == 11 {
                    world.returns("home", PHONE);
                }
                if hour % 24 == 23 {
                    world.registers(&format!("new network {hour}"), &number(90_000 + hour));
                }
                paid = world.bill();
                world.now += HOUR;
            }
            assert!(requests >= 4_000 && bill <= 1_000_000, "{requests} requests cost {bill} µ$");
        }
    }

    #[test]
    fn seven_addresses_close_no_country_in_which_users_are_expected() {
        let mut world = World::new(with_credit(500));
        for n in 0..2_000 {
            let _ = world.code(&address(n % 7), &number(n));
        }
        assert_eq!(world.bill(), 7 * 5 * 100_000, "five open codes for each address");
        for n in 0..50 {
            world.registers(&format!("new network {n}"), &number(90_000 + n));
        }
    }

    #[test]
    fn many_addresses_leave_a_third_to_known_networks() {
        let mut world = World::new(with_credit(92));
        let sent = (0..2_000).filter(|n| world.code(&format!("network {n}"), &number(*n)).is_ok()).count();
        assert_eq!(sent, 62);
        assert_eq!(world.code("new", PHONE), Err(STOPPED));
        world.returns("home", PHONE);
        world.now += TimeDelta::days(6);
        assert_eq!(world.code("new", PHONE), Err(STOPPED));
        world.now += TimeDelta::days(1);
        assert_eq!(world.code("new", PHONE), Ok(()), "open codes count for a week");
    }

    #[test]
    fn a_third_of_each_cap_and_budget_is_kept_for_known_networks() {
        let budget = Budget { per_day: 600_000, per_month: 100_000_000 };
        let month = Budget { per_day: 100_000_000, per_month: 600_000 };
        let capped = GuardRules { per_hour: PerPrefix::same(6), ..with_credit(1_000) };
        let by_day = GuardRules { budget, ..with_credit(1_000) };
        let by_month = GuardRules { budget: month, ..with_credit(1_000) };
        let empty = Refusal::BudgetReached;
        for (rules, refusal) in [(capped, STOPPED), (by_day, empty), (by_month, empty)] {
            let mut world = World::new(rules);
            for n in 0..4 {
                world.registers(&address(n), &number(n));
            }
            assert_eq!(world.code("new", PHONE), Err(refusal));
            world.returns("home", PHONE);
            assert_eq!(world.send(Message::Notice, "", PHONE), Ok(()), "notices use all of it, too");
            assert_eq!(world.send(Message::CodeForKnownNetwork, "home", PHONE), Err(refusal));
            assert_eq!(world.send(Message::Notice, "", PHONE), Err(refusal));
        }
    }

    #[test]
    fn a_prefix_without_entered_codes_gets_trials_until_the_first_code_is_entered() {
        let mut world = World::new(rules());
        for n in 0..3 {
            assert_eq!(world.code(&address(n), &number(n)), Ok(()));
        }
        let midnight = Stopped { retry_after: TimeDelta::minutes(11 * 60 + 50) };
        assert_eq!(world.code("new", "+628000000001"), Err(midnight.into()));
        world.enter(&address(0), &number(0));
        let opened = (3..30).filter(|n| world.code(&address(*n), &number(*n)).is_ok()).count();
        assert_eq!(opened, 8, "ten codes can be open, and two were");
        world.now += TimeDelta::days(1);
        assert_eq!(world.code("new", "+628000000001"), Ok(()));
    }

    #[test]
    fn a_network_that_enters_its_codes_is_not_limited() {
        let mut world = World::new(with_credit(500));
        for n in 0..5 {
            assert_eq!(world.code("stadium", &number(n)), Ok(()));
        }
        assert_eq!(world.code("stadium", PHONE), Err(STOPPED));
        for n in 0..3 {
            world.enter("stadium", &number(n));
        }
        for n in 10..100 {
            world.registers("stadium", &number(n));
        }
    }

    #[test]
    fn only_counters_of_the_week_and_of_the_hour_are_kept() {
        let names = [
            "entered:2026-11-08",
            "entered:2026-11-09",
            "open:2026-11-08",
            "open:2026-11-09",
            "sent:2026-11-15T11",
            "sent:2026-11-15T12",
            "spent:2026-11-01",
        ];
        let counts = Counts(names.map(|name| (name.to_owned(), 1)).into());
        let outdated: Vec<&str> = counts.outdated("2026-11-15T12:10:00Z".parse().unwrap()).collect();
        assert_eq!(outdated, ["entered:2026-11-08", "open:2026-11-08", "sent:2026-11-15T11"]);
    }
}
