//! The rules and types of the service. All code here is pure: no async, no AWS, no clock, no randomness.

pub mod address;
pub mod audit;
pub mod block;
pub mod calling_prefix;
pub mod catalog;
pub mod chat;
pub mod cleanup;
pub mod code;
pub mod coins;
pub mod field;
pub mod invisible;
pub mod invite_link;
pub mod limit;
pub mod lookalike;
pub mod marker;
pub mod month;
pub mod name_rules;
pub mod offensive;
pub mod phone;
pub mod pick_shares;
pub mod points;
pub mod prediction;
pub mod profile;
pub mod promotion;
pub mod recovery;
pub mod report;
pub mod room;
pub mod session;
pub mod sms;
pub mod sms_guard;
pub mod sport_rules;
pub mod standings;
pub mod tally;
pub mod text;
pub mod time;
pub mod username;

use sha2::{Digest as _, Sha256};

pub use address::Address;
pub use calling_prefix::CallingPrefix;
pub use code::{CodeId, CodePepper, CodeRequest, OneTimeCode, Purpose};
pub use field::{Field, Id, Raw, Reason};
pub use limit::{Limit, Limited};
pub use name_rules::NameRules;
pub use phone::Phone;
pub use prediction::{Pick, Prediction};
pub use profile::{BirthDate, Email, Name, User, UserId};
pub use room::{Room, RoomId};
pub use session::Token;
pub use text::SearchText;
pub use time::{MAX_CLOCK_DIFFERENCE, Timestamp};
pub use username::Username;

/// Hashes a list of texts to 32 hexadecimal digits.
#[must_use]
pub fn digest(parts: &[impl AsRef<str>]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        let part = part.as_ref();
        // The length is hashed too, so that ["ab", "c"] and ["a", "bc"] have different hashes.
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    base16ct::lower::encode_string(&hash.finalize()[..16])
}
