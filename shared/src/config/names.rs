use super::variables::{ConfigError, Variables};
use crate::domain::NameRules;
use crate::domain::offensive::{OffensiveWords, Pattern};

pub(super) fn read(vars: &Variables<'_>) -> Result<NameRules, ConfigError> {
    let words = OffensiveWords::new(patterns(vars, "OFFENSIVE_WORDS")?, patterns(vars, "ALLOWED_WORDS")?);
    Ok(NameRules::new(words))
}

fn patterns(vars: &Variables<'_>, variable: &'static str) -> Result<Vec<Pattern>, ConfigError> {
    let Some(list) = vars.get(variable) else { return Ok(Vec::new()) };
    let patterns: Option<Vec<Pattern>> = list.split(',').map(Pattern::parse).collect();
    patterns.ok_or_else(|| {
        ConfigError::invalid(variable, &list, "patterns such as word, word* or *word*, separated by commas")
    })
}
