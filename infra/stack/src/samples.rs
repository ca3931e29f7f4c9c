//! The sample events in `events/`, with the results that `events/README.md` lists for them.

use std::fs;
use std::path::Path;

use serde_json::Value;

/// A payload and its expected result.
#[derive(Debug, Clone)]
pub struct Sample {
    pub function: String,
    /// The path inside `events/`, such as `login/code-request.json`.
    pub file: String,
    pub payload: Value,
    pub expected: Expected,
}

/// The result that `events/README.md` lists for a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// The HTTP status of the response, on an empty store.
    Status(u64),
    /// The created and rejected counts of an import, on an empty store.
    Counts(u64, u64),
    /// The function's result as JSON, after the sample league is imported.
    Payload(String),
    /// Any result, because the result depends on the configuration.
    Anything,
}

impl Expected {
    /// Reads the expected result from the table cells that follow a file's name in `events/README.md`.
    fn parse(cells: &[&str]) -> Option<Self> {
        let unquoted = |cell: &str| Some(cell.strip_prefix('`')?.strip_suffix('`')?.to_owned());
        match cells {
            ["-", ..] => Some(Self::Anything),
            [payload, ..] if payload.starts_with('`') => unquoted(payload).map(Self::Payload),
            [first, second, ..] => match (first.parse().ok()?, second.parse().ok()) {
                (created, Some(rejected)) => Some(Self::Counts(created, rejected)),
                (status, None) => Some(Self::Status(status)),
            },
            _ => None,
        }
    }

    #[must_use]
    pub fn matches(&self, result: &Value) -> bool {
        match self {
            Self::Status(status) => result["statusCode"] == *status,
            Self::Counts(created, rejected) => {
                result["created"] == *created && result["rejected"] == *rejected
            }
            Self::Payload(text) => {
                serde_json::from_str(text).is_ok_and(|expected: Value| expected == *result)
            }
            Self::Anything => true,
        }
    }
}

/// Reads every sample of a source tree. An error names the file that is missing or has no expected result.
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
            expected: Expected::parse(rest)
                .ok_or_else(|| format!("events/README.md lists no expected result for {file}"))?,
            file,
        });
    }
    Ok(samples)
}
