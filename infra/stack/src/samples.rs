//! The samples in `events/`, and what `events/README.md` says that each gives.

use std::fs;
use std::path::Path;

use serde_json::Value;

/// A payload, and the answer to it.
#[derive(Debug, Clone)]
pub struct Sample {
    pub function: String,
    /// `login/code-request.json`.
    pub file: String,
    pub payload: Value,
    pub expected: Expected,
}

/// What is written beside a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// The status of a response, on a fresh store.
    Status(u64),
    /// What an import counts as created and as rejected, on a fresh store.
    Counts(u64, u64),
    /// The answer, after the sample league is imported.
    Answer(String),
    /// Nothing in particular: it depends on what is configured.
    Anything,
}

impl Expected {
    /// Reads what stands in the cells after a file's name.
    fn read(cells: &[&str]) -> Option<Self> {
        let quoted = |cell: &str| Some(cell.strip_prefix('`')?.strip_suffix('`')?.to_owned());
        match cells {
            ["-", ..] => Some(Self::Anything),
            [answer, ..] if answer.starts_with('`') => quoted(answer).map(Self::Answer),
            [first, second, ..] => match (first.parse().ok()?, second.parse().ok()) {
                (created, Some(rejected)) => Some(Self::Counts(created, rejected)),
                (status, None) => Some(Self::Status(status)),
            },
            _ => None,
        }
    }

    /// Whether an answer is the one.
    #[must_use]
    pub fn is(&self, answer: &Value) -> bool {
        match self {
            Self::Status(status) => answer["statusCode"] == *status,
            Self::Counts(created, rejected) => {
                answer["created"] == *created && answer["rejected"] == *rejected
            }
            Self::Answer(text) => serde_json::from_str(text).is_ok_and(|expected: Value| expected == *answer),
            Self::Anything => true,
        }
    }
}

/// Every sample under a source tree's `events/`. An error names the file that is missing or says too little.
pub fn read(root: &Path) -> Result<Vec<Sample>, String> {
    let folder = root.join("events");
    let text =
        fs::read_to_string(folder.join("README.md")).map_err(|error| format!("events/README.md: {error}"))?;
    let mut samples = Vec::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let Some((file, rest)) = cells.split_first() else { continue };
        let Some(file) = file.strip_prefix('`').and_then(|file| file.strip_suffix(".json`")) else {
            continue;
        };
        let file = format!("{file}.json");
        let Some((function, _)) = file.split_once('/') else { continue };
        let payload = fs::read_to_string(folder.join(&file)).map_err(|error| format!("{file}: {error}"))?;
        samples.push(Sample {
            function: function.to_owned(),
            payload: serde_json::from_str(&payload).map_err(|error| format!("{file}: {error}"))?,
            expected: Expected::read(rest).ok_or_else(|| format!("{file} has no answer beside it"))?,
            file,
        });
    }
    Ok(samples)
}
