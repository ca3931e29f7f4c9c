use serde_json::{Value, json};

use crate::fault::Fault;

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
    /// Removes the safeguard from a call to the store.
    pub(super) fn apply(self, operation: &str, fault: Option<Fault>, body: &mut Value) {
        if operation != "TransactWriteItems" {
            return;
        }
        let writes = &mut body["TransactItems"];
        match self {
            Self::None => {}
            Self::BalanceCondition => make_true(&mut writes[0]["Update"]["ConditionExpression"]),
            Self::EntryCondition => make_true(&mut writes[1]["Put"]["ConditionExpression"]),
            Self::Atomicity => {
                if fault.is_some_and(Fault::is_crash) {
                    writes.as_array_mut().expect("a transaction has items").truncate(1);
                }
            }
        }
    }
}

/// Makes a condition always true. The condition still uses its values, because DynamoDB rejects unused values.
fn make_true(condition: &mut Value) {
    let text = condition.as_str().expect("the write has a condition");
    *condition = json!(format!("attribute_exists(pk) OR attribute_not_exists(pk) OR ({text})"));
}
