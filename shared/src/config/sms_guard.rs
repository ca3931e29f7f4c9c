use std::str::FromStr;

use super::Environment;
use super::codes::is_prefix;
use super::variables::{ConfigError, Variables};
use crate::domain::calling_prefix::PerPrefix;
use crate::domain::sms_guard::{Budget, GuardRules, NetworkLimits};

/// The highest count. Where messages cost nothing, it is the limit of everything.
const UNLIMITED: i64 = 1_000_000_000;

/// The limits of a network where messages cost money.
const PER_NETWORK: NetworkLimits = NetworkLimits { trusted: 1, at_most: 5 };

/// What a setting of counts can be.
const COUNTS: &str = "a whole number, then exceptions such as +44=20000, all separated by commas";

/// Reads the limits of text messages.
pub(super) fn read(vars: &Variables<'_>, environment: Environment) -> Result<GuardRules, ConfigError> {
    let pays = environment.pays_for_messages();
    let unless_paid = |paid: i64| if pays { paid } else { UNLIMITED };
    let budget = Budget {
        per_day: dollars(vars, "DAILY_SMS_BUDGET_USD", "20")?,
        per_month: dollars(vars, "MONTHLY_SMS_BUDGET_USD", "100")?,
    };
    let unlimited = UNLIMITED * UNLIMITED;
    Ok(GuardRules {
        per_hour: per_prefix(vars, "SMS_PER_PREFIX_PER_HOUR", unless_paid(1_000), whole, COUNTS)?,
        credit: per_prefix(vars, "SMS_CREDIT", unless_paid(0), whole, COUNTS)?,
        price: per_prefix(
            vars,
            "SMS_PRICE_USD",
            100_000,
            micros,
            "a price in US dollars such as 0.10, then exceptions such as +44=0.05, all separated by commas",
        )?,
        trials_per_day: vars.within("SMS_TRIALS_PER_DAY", 3, 0..=1_000_000)?,
        network: if pays { PER_NETWORK } else { NetworkLimits { trusted: UNLIMITED, at_most: UNLIMITED } },
        budget: if pays { budget } else { Budget { per_day: unlimited, per_month: unlimited } },
    })
}

/// Reads a default and exceptions: `1000,+44=20000`. Without a default, the exceptions apply to `default`.
fn per_prefix(
    vars: &Variables<'_>,
    variable: &'static str,
    default: i64,
    value: fn(&str) -> Option<i64>,
    expected: &str,
) -> Result<PerPrefix<i64>, ConfigError> {
    let list = vars.get(variable).unwrap_or_default();
    let mut setting = PerPrefix::same(default);
    for part in list.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let wrong = || ConfigError::new(variable, &format!("contains {part:?}"), expected);
        match part.split_once('=') {
            Some((prefix, text)) if is_prefix(prefix) => {
                setting.exceptions.push((prefix.to_owned(), value(text).ok_or_else(wrong)?));
            }
            None => setting.default = value(part).ok_or_else(wrong)?,
            Some(_) => return Err(wrong()),
        }
    }
    Ok(setting)
}

fn whole(text: &str) -> Option<i64> {
    i64::from_str(text).ok().filter(|count| (0..=UNLIMITED).contains(count))
}

fn dollars(vars: &Variables<'_>, variable: &'static str, default: &str) -> Result<i64, ConfigError> {
    let text = vars.get(variable).unwrap_or_else(|| default.into());
    micros(&text)
        .ok_or_else(|| ConfigError::invalid(variable, &text, "an amount in US dollars such as 20 or 0.50"))
}

/// Parses an amount of dollars and returns it in millionths of a dollar, without the rounding errors of floating point.
fn micros(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let are_digits = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty()
        || whole.len() > 9
        || fraction.len() > 6
        || !are_digits(whole)
        || !are_digits(fraction)
    {
        return None;
    }
    let amount = format!("{whole}{fraction:0<6}").parse().ok()?;
    Some(amount).filter(|amount| *amount > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact() {
        for (text, amount) in [("20", 20_000_000), ("0.10", 100_000), ("0.00645", 6_450), ("1.5", 1_500_000)]
        {
            assert_eq!(micros(text), Some(amount), "{text}");
        }
        for text in ["", "0", "-1", "1,5", ".5", "0.1234567", "inf", "1e3"] {
            assert_eq!(micros(text), None, "{text}");
        }
    }
}
