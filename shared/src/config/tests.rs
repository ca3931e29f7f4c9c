use std::collections::HashMap;

use super::*;

fn variables() -> HashMap<&'static str, &'static str> {
    HashMap::from([
        ("ENVIRONMENT", "testing"),
        ("AWS_REGION", "eu-west-1"),
        ("AWS_ACCESS_KEY_ID", "k"),
        ("AWS_SECRET_ACCESS_KEY", "s"),
        ("USERS_TABLE", "users"),
        ("SMS_LOGS_TABLE", "sms_logs"),
        ("CATALOG_TABLE", "catalog"),
        ("PREDICTIONS_TABLE", "predictions"),
        ("ROOMS_TABLE", "rooms"),
        ("DIRECTORY_TABLE", "directory"),
        ("WALLETS_TABLE", "wallets"),
        ("STANDINGS_TABLE", "standings"),
        ("CODE_PEPPER", "sixteen characters"),
        ("SMS_PROVIDER", "sns"),
    ])
}

fn read(changes: &[(&'static str, &'static str)]) -> Result<Config, ConfigError> {
    let mut all = variables();
    all.extend(changes.iter().copied());
    Config::read(|name| all.get(name).map(|value| (*value).to_owned()))
}

#[test]
fn the_error_for_a_missing_variable_says_what_to_set_it_to() {
    for (variable, expected) in [
        ("AWS_REGION", "an AWS region such as eu-west-1"),
        ("AWS_ACCESS_KEY_ID", "an AWS access key id"),
        ("AWS_SECRET_ACCESS_KEY", "the secret of the AWS access key"),
        ("USERS_TABLE", "the name of a DynamoDB table"),
        ("SMS_LOGS_TABLE", "the name of a DynamoDB table"),
        ("SMS_PROVIDER", "sns, or to console on a local stack"),
    ] {
        let error = read(&[(variable, "")]).unwrap_err();
        assert_eq!(error.variable, variable);
        assert_eq!(error.to_string(), format!("{variable} is not set. Set it to {expected}."));
    }
}

#[test]
fn the_error_for_an_invalid_variable_says_what_to_set_it_to() {
    for (variable, value, message) in [
        ("LOG_LEVEL", "shouting", r#"is "shouting". Set it to error, warn, info, debug or trace."#),
        ("CODE_PEPPER", "short", "is too short. Set it to a random text of 16 characters or more."),
        ("CODES_PER_DAY", "0", r#"is "0". Set it to a whole number from 1 to 40."#),
        ("ROOMS_PER_DAY", "0", r#"is "0". Set it to a whole number from 1 to 1000."#),
        ("MAX_JOINED_ROOMS", "none", r#"is "none". Set it to a whole number from 1 to 10000."#),
        ("MAX_OPEN_INVITATIONS", "0", r#"is "0". Set it to a whole number from 1 to 10000."#),
        ("INVITATIONS_PER_DAY", "1001", r#"is "1001". Set it to a whole number from 1 to 1000."#),
        ("CODES_PER_DAY", "41", r#"is "41". Set it to a whole number from 1 to 40."#),
        ("CODES_PER_10_MINUTES", "many", r#"is "many". Set it to a whole number from 1 to 40."#),
        ("POINTS_PER_SECOND", "0", r#"is "0". Set it to a whole number from 1 to 1000000."#),
        ("SESSION_DAYS", "-1", r#"is "-1". Set it to a whole number from 1 to 365."#),
        ("SESSION_DAYS", "0", r#"is "0". Set it to a whole number from 1 to 365."#),
        (
            "PHONE_PREFIXES",
            "+44,49",
            r#"contains "49". Set it to prefixes such as +44, separated by commas, or * for all countries."#,
        ),
        (
            "SMS_CREDIT",
            "5,44=7",
            r#"contains "44=7". Set it to a whole number, then exceptions such as +44=20000, all separated by commas."#,
        ),
        (
            "SMS_PRICE_USD",
            "cheap",
            r#"contains "cheap". Set it to a price in US dollars such as 0.10, then exceptions such as +44=0.05, all separated by commas."#,
        ),
        ("DAILY_SMS_BUDGET_USD", "0", r#"is "0". Set it to an amount in US dollars such as 20 or 0.50."#),
        ("AGE_GATE", "maybe", r#"is "maybe". Set it to yes or no."#),
        ("ASK_BIRTH_DATE_AT_LOGIN", "true", r#"is "true". Set it to yes or no."#),
        ("PICKS_VISIBLE", "never", r#"is "never". Set it to always or after_start."#),
        (
            "COIN_REASONS",
            "gift,Two words",
            r#"is "gift,Two words". Set it to words of a-z, 0-9 and _, separated by commas."#,
        ),
        (
            "OFFENSIVE_WORDS",
            "diver,*glory",
            r#"is "diver,*glory". Set it to patterns such as word, word* or *word*, separated by commas."#,
        ),
        (
            "ALLOWED_WORDS",
            "two words",
            r#"is "two words". Set it to patterns such as word, word* or *word*, separated by commas."#,
        ),
        ("SMS_PROVIDER", "pigeon", r#"is "pigeon". Set it to sns, or to console on a local stack."#),
        ("FEED_URL", "example.org", "is not a URL. Set it to one that starts with https:// or http://."),
        (
            "CHAT_HOMESERVER_URL",
            "example.org",
            "is not a URL. Set it to one that starts with https:// or http://.",
        ),
        (
            "CHAT_SERVER_NAME",
            "two words",
            r#"is "two words". Set it to the server name in your Matrix ids, such as example.org."#,
        ),
        (
            "CHAT_HS_TOKEN",
            "short",
            "is too short or has characters that a token cannot have. Set it to 16 or more ASCII letters, \
             digits and punctuation marks, without spaces.",
        ),
        (
            "ORIGIN_SECRETS",
            r#"{"a":"a-secret-of-the-edge","b":"short"}"#,
            "is not a JSON object with the keys a and b, or has a value that is too short or has spaces. Set it to the \
             values that CloudFront sends, 16 or more ASCII letters, digits and punctuation marks each: \
             {\"a\":\"…\",\"b\":\"…\"}.",
        ),
        ("DIRECT_REQUESTS", "maybe", r#"is "maybe". Set it to rejected or allowed."#),
        (
            "SMS_AUTOFILL_DOMAIN",
            "https://example.com",
            r#"is "https://example.com". Set it to a domain such as example.com, in lower case, of at most 57 characters."#,
        ),
        (
            "SMS_RETRIEVER_HASH",
            "short",
            r#"is "short". Set it to the 11 characters that the SMS Retriever of Android expects."#,
        ),
        ("SMS_MAX_PRICE_USD", "free", r#"is "free". Set it to a positive number such as 0.50."#),
        ("SMS_MAX_PRICE_USD", "inf", r#"is "inf". Set it to a positive number such as 0.50."#),
    ] {
        let error = read(&[(variable, value)]).unwrap_err();
        assert_eq!(error.variable, variable, "{value}");
        assert_eq!(error.to_string(), format!("{variable} {message}"));
    }
}

#[test]
fn words_are_added_to_the_offensive_ones_and_removed_from_them() {
    let rules = read(&[("OFFENSIVE_WORDS", "diver, *glory*"), ("ALLOWED_WORDS", "cock")]).unwrap().names;
    for (name, is_accepted) in [("diver", false), ("gloryhunter", false), ("shit", false), ("cock", true)] {
        assert_eq!(rules.check_username(name).is_ok(), is_accepted, "{name}");
    }
}

#[test]
fn the_error_for_an_unknown_feed_format_lists_the_known_formats() {
    let error = read(&[("FEED_URL", "https://example.org"), ("FEED_FORMAT", "csv")]).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"FEED_FORMAT is "csv". Set it to one of touchline, football-data.org/v4, openfootball."#
    );
}

#[test]
fn the_as_token_is_required_with_a_homeserver_url_and_hidden_in_debug_output() {
    let url = ("CHAT_HOMESERVER_URL", "https://chat.example.org");
    let error = read(&[url]).unwrap_err();
    assert_eq!(error.variable, "CHAT_AS_TOKEN");
    assert_eq!(
        error.to_string(),
        "CHAT_AS_TOKEN is not set. Set it to the as_token of the registration file, because \
         CHAT_HOMESERVER_URL is set."
    );
    let config = read(&[url, ("CHAT_AS_TOKEN", "a-token-of-ours-1")]).unwrap();
    assert_eq!(config.chat.homeserver.as_ref().unwrap().as_token.reveal(), "a-token-of-ours-1");
    assert!(!format!("{config:?}").contains("a-token-of-ours"));
}

#[test]
fn direct_requests_are_rejected_with_origin_secrets_unless_they_are_allowed() {
    assert!(read(&[("DIRECT_REQUESTS", "rejected")]).unwrap().edge.is_none());
    let secrets = ("ORIGIN_SECRETS", r#"{"a":"the-first-origin-secret","b":"the-second-origin-secret"}"#);
    for (word, expected) in [
        ("", DirectRequests::Rejected),
        ("rejected", DirectRequests::Rejected),
        ("allowed", DirectRequests::Allowed),
    ] {
        let edge = read(&[secrets, ("DIRECT_REQUESTS", word)]).unwrap().edge.unwrap();
        assert_eq!(edge.direct_requests, expected, "{word:?}");
        let revealed: Vec<&str> = edge.secrets.iter().map(Secret::reveal).collect();
        assert_eq!(revealed, ["the-first-origin-secret", "the-second-origin-secret"]);
    }
}

#[test]
fn an_unknown_environment_counts_as_production() {
    for word in ["", "prod", "production", "Local", "dev"] {
        let config = read(&[("ENVIRONMENT", word)]).unwrap();
        assert_eq!(config.environment, Environment::Production, "{word:?}");
        assert!(!config.environment.shows_codes());
    }
}

#[test]
fn deployed_functions_cannot_write_codes_to_the_log() {
    for word in ["", "staging", "production"] {
        let error = read(&[("ENVIRONMENT", word), ("SMS_PROVIDER", "console")]).unwrap_err();
        assert_eq!(error.variable, "SMS_PROVIDER");
        assert_eq!(
            error.to_string(),
            r#"SMS_PROVIDER is "console", which would write codes to the log. Set it to sns."#
        );
    }
    assert!(read(&[("ENVIRONMENT", "local"), ("SMS_PROVIDER", "console")]).is_ok());
}

#[test]
fn debug_output_hides_secrets() {
    let config = read(&[
        ("AWS_SECRET_ACCESS_KEY", "hush-hush"),
        ("CHAT_HS_TOKEN", "hush-hush-hush-hush"),
        ("SMS_LOG_SECRET", "hush-hush-hush-hush"),
        ("TEST_PHONES", r#"{"+15555550100":"987654"}"#),
        ("ORIGIN_SECRETS", r#"{"a":"hush-hush-hush-hush","b":"hush-hush-hush-hush"}"#),
        ("FEED_URL", "https://example.org"),
        ("FEED_TOKEN", "hush-hush"),
    ]);
    let shown = format!("{:?}", config.unwrap());
    for secret in ["hush-hush", "sixteen", "5555550100", "987654"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

/// Otherwise the name of a secret, which many people know, would be used as the secret.
#[test]
fn a_variable_that_names_a_secret_which_was_not_fetched_is_an_error() {
    for variable in SECRET_VARIABLES {
        let changes = [
            ("CHAT_HOMESERVER_URL", "https://example.org"),
            ("CHAT_AS_TOKEN", "hush-hush-hush-hush"),
            ("FEED_URL", "https://example.org"),
            (variable, "secretsmanager:the-name-of-a-secret"),
        ];
        let error = read(&changes).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "{variable} names a secret in Secrets Manager, which only a Lambda function fetches. Set it to the \
                 secret itself."
            )
        );
    }
}

#[test]
fn errors_do_not_show_secrets() {
    for variable in ["CODE_PEPPER", "CHAT_HS_TOKEN", "ORIGIN_SECRETS", "SMS_LOG_SECRET"] {
        let message = read(&[(variable, "hush")]).unwrap_err().to_string();
        assert!(!message.contains("hush"), "{message}");
    }
    for invalid in ["{\"hush\":\"123456\"}", "{\"+15555550100\":\"hush\"}", "hush", "[\"hush\"]"] {
        let error = read(&[("TEST_PHONES", invalid)]).unwrap_err();
        assert_eq!(error.variable, "TEST_PHONES");
        assert!(!error.to_string().contains("hush"), "{error}");
    }
    // A URL can contain a token.
    let message = read(&[("FEED_URL", "example.org?key=hush")]).unwrap_err().to_string();
    assert!(!message.contains("hush"), "{message}");
}

#[test]
fn countries_must_be_chosen_only_in_production() {
    for (environment, prefixes, expected) in [
        ("production", "", vec![]),
        ("production", "*", vec!["+"]),
        ("production", "+44, +49", vec!["+44", "+49"]),
        ("staging", "", vec!["+"]),
        ("testing", "", vec!["+"]),
        ("local", "", vec!["+"]),
    ] {
        let config = read(&[("ENVIRONMENT", environment), ("PHONE_PREFIXES", prefixes)]);
        let config = config.unwrap_or_else(|error| panic!("{environment}: {error}"));
        assert_eq!(config.codes.prefixes, expected, "{environment} {prefixes:?}");
    }
}

#[test]
fn a_message_has_only_one_last_line() {
    let both = [("SMS_AUTOFILL_DOMAIN", "example.com"), ("SMS_RETRIEVER_HASH", "FA+9qCX9VSu")];
    for one in both {
        assert!(read(&[one]).unwrap().codes.autofill.is_some(), "{one:?}");
    }
    assert_eq!(
        read(&both).unwrap_err().to_string(),
        "SMS_AUTOFILL_DOMAIN and SMS_RETRIEVER_HASH are both set, but a message has one last line. Set it to nothing, or \
         remove the other one."
    );
}

#[test]
fn limits_of_text_messages_apply_where_messages_cost_money() {
    const MANY: i64 = 1_000_000_000;
    let phone = crate::domain::Phone::parse("+447700900123").unwrap();
    let prefix = crate::domain::CallingPrefix::of(&phone);
    for (environment, per_hour, credit, per_network, per_day) in [
        ("production", 1_000, 0, 5, 20_000_000),
        ("staging", 1_000, 0, 5, 20_000_000),
        ("testing", MANY, MANY, MANY, MANY * MANY),
        ("local", MANY, MANY, MANY, MANY * MANY),
    ] {
        let rules = read(&[("ENVIRONMENT", environment)]).unwrap().sms_guard;
        let (network, budget) = (rules.network.at_most, rules.budget.per_day);
        let read = (rules.per_hour.of(&prefix), rules.credit.of(&prefix), network, budget);
        assert_eq!(read, (per_hour, credit, per_network, per_day), "{environment}");
    }
    let rules = read(&[("SMS_PER_PREFIX_PER_HOUR", "50, +44=70"), ("SMS_PRICE_USD", "+44=0.05")]).unwrap();
    assert_eq!((rules.sms_guard.per_hour.default, rules.sms_guard.per_hour.of(&prefix)), (50, 70));
    assert_eq!((rules.sms_guard.price.default, rules.sms_guard.price.of(&prefix)), (100_000, 50_000));
}
