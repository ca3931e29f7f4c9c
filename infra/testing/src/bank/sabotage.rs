use serde_json::{Value, json};

/// The safeguard that the simulated network removes from the calls to the store. Without the safeguard, the checks
/// must fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    None,
    /// The balance is written without its condition.
    BalanceCondition,
    /// A ledger entry is written without its condition.
    EntryCondition,
    /// A crash can leave half of a transaction in the store.
    Atomicity,
}

impl Sabotage {
    /// Makes the sabotaged condition always true.
    pub(super) fn weaken(self, operation: &str, body: &mut Value) {
        let (index, kind) = match self {
            Self::BalanceCondition => (0, "Update"),
            Self::EntryCondition => (1, "Put"),
            Self::None | Self::Atomicity => return,
        };
        if operation == "TransactWriteItems" {
            let condition = &mut body["TransactItems"][index][kind]["ConditionExpression"];
            let text = condition.as_str().expect("the write has a condition");
            *condition = json!(format!("attribute_exists(pk) OR attribute_not_exists(pk) OR ({text})"));
        }
    }

    /// Keeps only the first write of a transaction if atomicity is sabotaged. Returns whether the rest was
    /// removed.
    pub(super) fn halve(self, operation: &str, body: &mut Value) -> bool {
        let applies = self == Self::Atomicity && operation == "TransactWriteItems";
        if applies {
            body["TransactItems"].as_array_mut().expect("a transaction has items").truncate(1);
        }
        applies
    }
}
