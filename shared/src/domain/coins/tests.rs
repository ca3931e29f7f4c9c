use chrono::{Days, NaiveTime};
use proptest::prelude::*;

use super::*;

const RULES: DailyRules = DailyRules { base: 10, streak_step: 5, max_streak_bonus: 30 };

fn day(text: &str) -> NaiveDate {
    text.parse().unwrap()
}

fn after(last: &str, streak_days: u32) -> Wallet {
    Wallet { claimed_on: Some(day(last)), streak_days, ..Wallet::default() }
}

#[test]
fn the_streak_bonus_grows_up_to_its_maximum() {
    let mut wallet = Wallet::default();
    let mut coins = Vec::new();
    for date in day("2026-11-15").iter_days().take(9) {
        let claim = wallet.claim(RULES, date).unwrap();
        wallet = Wallet { claimed_on: Some(date), streak_days: claim.streak_days, ..wallet };
        assert_eq!(claim.coins, 10 + claim.bonus);
        coins.push(claim.coins);
    }
    assert_eq!(coins, [10, 15, 20, 25, 30, 35, 40, 40, 40]);
}

#[test]
fn streaks_continue_across_months_and_leap_days() {
    for (last, today, streak) in [
        ("2026-11-30", "2026-12-01", 4),
        ("2026-12-31", "2027-01-01", 4),
        ("2028-02-28", "2028-02-29", 4),
        ("2028-02-29", "2028-03-01", 4),
        ("2027-02-28", "2027-03-01", 4),
        ("2028-02-28", "2028-03-01", 1),
        ("2026-11-13", "2026-11-15", 1),
        ("2025-11-14", "2026-11-15", 1),
    ] {
        assert_eq!(after(last, 3).claim(RULES, day(today)).unwrap().streak_days, streak, "{last} {today}");
    }
}

/// Two claims around midnight can reach servers whose clocks differ by some milliseconds. The second claim can
/// then have the earlier day.
#[test]
fn a_day_before_the_last_claim_cannot_be_claimed() {
    let error = after("2026-11-16", 3).claim(RULES, day("2026-11-15")).unwrap_err();
    let next_claim_at = "2026-11-17T00:00:00Z".parse().unwrap();
    assert_eq!(error, CoinError::AlreadyClaimed { next_claim_at });
}

#[test]
fn streaks_end_after_a_missed_day() {
    let wallet = after("2026-11-15", 3);
    let at = |text: &str| -> DateTime<Utc> { text.parse().unwrap() };
    assert_eq!(wallet.streak(day("2026-11-15")), 3);
    assert_eq!(wallet.streak(day("2026-11-16")), 3, "today can still be claimed");
    assert_eq!(wallet.streak(day("2026-11-17")), 0);
    assert_eq!(wallet.next_claim_at(at("2026-11-15T23:59:59Z")), at("2026-11-16T00:00:00Z"));
    assert_eq!(wallet.next_claim_at(at("2026-11-16T00:00:00Z")), at("2026-11-16T00:00:00Z"));
    assert_eq!(Wallet::default().next_claim_at(at("2026-11-16T08:00:00Z")), at("2026-11-16T08:00:00Z"));
}

#[test]
fn valid_reference_ids_are_kept_unchanged() {
    for text in ["x", "order 7", " padded ", "Ünïcödé", &"x".repeat(64)] {
        assert_eq!(ReferenceId::parse(text).unwrap().as_str(), text);
    }
    for text in ["", "a\nb", "\u{0}", &"x".repeat(65)] {
        assert!(ReferenceId::parse(text).is_err(), "{text:?}");
    }
}

proptest! {
    #[test]
    fn a_streak_is_the_number_of_consecutive_claimed_days(
        start in 0..40_000_i32,
        gaps in proptest::collection::vec(0..4_u64, 1..40),
    ) {
        let mut date = NaiveDate::from_num_days_from_ce_opt(700_000 + start).unwrap();
        let mut wallet = Wallet::default();
        let mut run = 0;
        for gap in gaps {
            date = date + Days::new(gap);
            let claim = wallet.claim(RULES, date);
            if gap == 0 && wallet.claimed_on.is_some() {
                let next_claim_at = midnight_after(date);
                prop_assert_eq!(claim, Err(CoinError::AlreadyClaimed { next_claim_at }));
                continue;
            }
            run = if gap == 1 && wallet.claimed_on.is_some() { run + 1 } else { 1 };
            let claim = claim.unwrap();
            prop_assert_eq!(claim.streak_days, run);
            prop_assert_eq!(claim.bonus, ((run - 1) * 5).min(30));
            prop_assert_eq!(claim.coins, 10 + claim.bonus);
            wallet = Wallet { claimed_on: Some(date), streak_days: claim.streak_days, ..wallet };
            prop_assert_eq!(wallet.streak(date), run);
            prop_assert!(wallet.next_claim_at(date.and_time(NaiveTime::MIN).and_utc()) > date.and_time(NaiveTime::MIN).and_utc());
        }
    }

    #[test]
    fn a_deduction_never_overdraws_the_wallet(balance in 0..2_000_000_i64, coins in 1..=1_000_000_i64) {
        let wallet = Wallet { balance, ..Wallet::default() };
        match wallet.deduct(Amount::new(coins).unwrap()) {
            Ok(left) => prop_assert_eq!(left, balance - coins),
            Err(error) => {
                prop_assert!(coins > balance);
                let required = u32::try_from(coins).unwrap();
                prop_assert_eq!(error, CoinError::Insufficient { balance, required });
            }
        }
    }
}
