//! Counts the predictions again, independently of the product.

use std::collections::BTreeMap;

use serde_json::Value;
use touchline::domain::catalog::Score;
use touchline::domain::tally::{EventCounts, UserStats};

/// The result of the final.
pub const RESULT: Score = Score { home: 2, away: 1 };

/// What the rows of predictions add up to.
#[derive(Debug, Default)]
pub struct Recount {
    pub counts: EventCounts,
    pub stats: BTreeMap<u32, UserStats>,
    /// The rows that do not have the points that they deserve.
    pub wrong_points: u64,
}

impl Recount {
    /// Counts the predictions among the items of a table.
    #[must_use]
    pub fn of(items: &[Value]) -> Self {
        let mut recount = Self::default();
        for item in items {
            let text = |name: &str| item[name]["S"].as_str().unwrap_or_default();
            let number = |name: &str| item[name]["N"].as_str().and_then(|text| text.parse::<i64>().ok());
            if !text("pk").starts_with("event#") || !text("sk").starts_with("user#") {
                continue;
            }
            let pick = text("pick");
            recount.counts += EventCounts {
                predictions: 1,
                home: i64::from(pick == "home"),
                draw: i64::from(pick == "draw"),
                away: i64::from(pick == "away"),
                confidence: number("confidence").unwrap_or(0),
            };
            let deserved = points(pick, number("home").zip(number("away")));
            recount.wrong_points += u64::from(number("points") != Some(deserved));
            let user = number("user_id").and_then(|id| u32::try_from(id).ok()).unwrap_or(0);
            *recount.stats.entry(user).or_default() += UserStats {
                settled: 1,
                correct: i64::from(deserved > 0),
                points: deserved,
                exact: i64::from(deserved == 4),
            };
        }
        recount
    }
}

/// The points of a prediction, as docs/points.md has them, for [`RESULT`].
fn points(pick: &str, score: Option<(i64, i64)>) -> i64 {
    let result = (i64::from(RESULT.home), i64::from(RESULT.away));
    match score {
        _ if pick != "home" => 0,
        Some(score) if score == result => 4,
        Some((home, away)) if home - away == result.0 - result.1 => 3,
        _ => 2,
    }
}
