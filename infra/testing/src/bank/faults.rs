use super::dice::Dice;

/// What goes wrong with one call to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    LoseRequest,
    LoseResponse,
    /// The network delivers the request twice, the second time late.
    DeliverTwice,
    Throttle,
    Conflict,
    InternalError,
    /// The process crashes before the request reaches the store.
    CrashBefore,
    /// The process crashes after the store has carried the request out.
    CrashAfter,
}

impl Fault {
    /// Draws the fault of a call. One call in three has a fault.
    pub fn draw(dice: &Dice) -> Option<Self> {
        Some(match dice.below(24) {
            0 => Self::LoseRequest,
            1 => Self::LoseResponse,
            2 => Self::DeliverTwice,
            3 => Self::Throttle,
            4 => Self::Conflict,
            5 => Self::InternalError,
            6 => Self::CrashBefore,
            7 => Self::CrashAfter,
            _ => return None,
        })
    }
}
