use super::Environment;
use super::variables::{ConfigError, Variables};

/// How text messages are sent.
#[derive(Debug, Clone)]
pub enum SmsSettings {
    /// Writes messages to the log.
    Console,
    Sns(SnsSettings),
}

#[derive(Debug, Clone)]
pub struct SnsSettings {
    pub sender_id: Option<String>,
    /// The most that one message may cost, in US dollars.
    pub max_price_usd: String,
}

impl SmsSettings {
    pub(super) fn read(vars: &Variables<'_>, environment: Environment) -> Result<Self, ConfigError> {
        const VARIABLE: &str = "SMS_PROVIDER";
        const PROVIDERS: &str = "sns, or to console on a local stack";
        match vars.required(VARIABLE, PROVIDERS)?.as_str() {
            "sns" => Ok(Self::Sns(SnsSettings {
                sender_id: vars.get("SMS_SENDER_ID"),
                max_price_usd: max_price_usd(vars)?,
            })),
            "console" if environment.logs_to_a_terminal() => Ok(Self::Console),
            "console" => {
                Err(ConfigError::new(VARIABLE, "is \"console\", which would write codes to the log", "sns"))
            }
            other => Err(ConfigError::invalid(VARIABLE, other, PROVIDERS)),
        }
    }
}

fn max_price_usd(vars: &Variables<'_>) -> Result<String, ConfigError> {
    const VARIABLE: &str = "SMS_MAX_PRICE_USD";
    // SNS takes the price as text, so the price is checked as a number but kept as text.
    let price = vars.get(VARIABLE).unwrap_or_else(|| "0.50".into());
    if price.parse::<f64>().is_ok_and(|price| price > 0.0 && price.is_finite()) {
        Ok(price)
    } else {
        Err(ConfigError::invalid(VARIABLE, &price, "a positive number such as 0.50"))
    }
}
