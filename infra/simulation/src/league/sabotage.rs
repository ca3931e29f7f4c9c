use serde_json::{Value, json};

/// The safeguard that the simulated network removes from the calls to the store. Without the safeguard, the checks
/// must fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    None,
    /// A record of a stream is counted without the condition that it was not counted before.
    CountedOnce,
    /// A build is published without the condition that no later build was published.
    LatestBuild,
    /// Built boards are removed from their queue without the condition that no further ones were queued.
    QueuedSince,
    /// A build reads statistics that can be stale.
    ConsistentStatistics,
    /// Points are written without the condition that no later result was settled.
    LatestResult,
}

impl Sabotage {
    /// All safeguards that can be removed.
    pub const ALL: [Self; 5] = [
        Self::CountedOnce,
        Self::LatestBuild,
        Self::QueuedSince,
        Self::ConsistentStatistics,
        Self::LatestResult,
    ];

    /// Removes the safeguard from a call to the store.
    pub(super) fn apply(self, operation: &str, body: &mut Value) {
        let condition = body["ConditionExpression"].as_str().unwrap_or_default();
        let is_removed = match self {
            Self::CountedOnce => condition.contains("#position < :first"),
            Self::LatestBuild => {
                condition == "attribute_not_exists(build) OR build < :build"
                    && body["UpdateExpression"].as_str().is_some_and(|text| text.contains("built_at"))
            }
            Self::QueuedSince => condition == "version = :version",
            Self::None | Self::ConsistentStatistics | Self::LatestResult => false,
        };
        if is_removed {
            body["ConditionExpression"] =
                json!(format!("attribute_exists(pk) OR attribute_not_exists(pk) OR ({condition})"));
        }
        if self == Self::ConsistentStatistics && operation == "Query" {
            body["ConsistentRead"] = json!(false);
        }
        if self == Self::LatestResult && operation == "BatchExecuteStatement" {
            for statement in body["Statements"].as_array_mut().into_iter().flatten() {
                let text = statement["Statement"].as_str().unwrap_or_default();
                if let Some((kept, _)) = text.rsplit_once(" AND revision<") {
                    statement["Statement"] = json!(kept);
                }
            }
        }
    }
}
