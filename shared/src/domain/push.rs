//! What a homeserver tells of rooms, as far as this service cares.

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::Username;
use super::room::{Membership, RoomId};

/// Something that happened in a room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    pub room: RoomId,
    pub at: DateTime<Utc>,
    pub what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// One of ours is in, out or invited now, by whoever's doing.
    Membership(Username, Membership),
    /// Somebody wrote; who, where it is one of ours.
    Message(Option<Username>),
}

/// Reads an event of the chat network. `None` for what we do not keep, and for what makes no sense.
#[must_use]
pub fn read(event: &Value, server: &str) -> Option<Told> {
    let room = RoomId::parse(event["room_id"].as_str()?)?;
    let at = DateTime::from_timestamp_millis(event["origin_server_ts"].as_i64()?)?;
    let what = match event["type"].as_str()? {
        "m.room.member" => {
            let user = ours(event["state_key"].as_str()?, server)?;
            What::Membership(user, membership(event["content"]["membership"].as_str()?)?)
        }
        "m.room.message" | "m.room.encrypted" | "m.sticker" => {
            What::Message(ours(event["sender"].as_str()?, server))
        }
        _ => return None,
    };
    Some(Told { room, at, what })
}

/// The name of a user of ours; `None` for people of other servers.
#[must_use]
pub fn ours(id: &str, server: &str) -> Option<Username> {
    let (name, of) = id.strip_prefix('@')?.split_once(':')?;
    if of == server { Username::parse(name).ok() } else { None }
}

fn membership(word: &str) -> Option<Membership> {
    match word {
        "join" => Some(Membership::Join),
        "invite" => Some(Membership::Invite),
        // Whoever is thrown out, for now or for good, is out.
        "leave" | "ban" => Some(Membership::Leave),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(kind: &str, more: &Value) -> Value {
        let mut event = json!({ "type": kind, "room_id": "!a:hs", "origin_server_ts": 1_794_744_000_000_i64, "sender": "@ada:hs" });
        for (field, value) in more.as_object().unwrap() {
            event[field] = value.clone();
        }
        event
    }

    fn what(kind: &str, more: &Value) -> Option<What> {
        read(&event(kind, more), "hs").map(|told| told.what)
    }

    #[test]
    fn memberships_are_of_who_they_are_about() {
        let member = |user: &str, word: &str| {
            what("m.room.member", &json!({ "state_key": user, "content": { "membership": word } }))
        };
        let name = Username::parse("grace").unwrap();
        for (word, is) in [
            ("join", Membership::Join),
            ("invite", Membership::Invite),
            ("leave", Membership::Leave),
            ("ban", Membership::Leave),
        ] {
            assert_eq!(member("@grace:hs", word), Some(What::Membership(name.clone(), is)));
        }
        assert_eq!(member("@grace:hs", "knock"), None);
        assert_eq!(member("@grace:elsewhere", "join"), None);
        assert_eq!(member("@Not A Name:hs", "join"), None);
    }

    #[test]
    fn messages_count_whoever_writes_them() {
        let ada = Username::parse("ada").ok();
        assert_eq!(what("m.room.message", &json!({})), Some(What::Message(ada.clone())));
        assert_eq!(what("m.room.encrypted", &json!({})), Some(What::Message(ada)));
        assert_eq!(what("m.room.message", &json!({ "sender": "@x:far" })), Some(What::Message(None)));
        assert_eq!(what("m.room.topic", &json!({})), None);
    }

    #[test]
    fn nonsense_is_passed_over() {
        for more in [
            json!({ "room_id": "a" }),
            json!({ "room_id": 7 }),
            json!({ "origin_server_ts": "now" }),
            json!({ "origin_server_ts": i64::MAX }),
            json!({ "sender": null }),
        ] {
            assert_eq!(read(&event("m.room.message", &more), "hs"), None, "{more}");
        }
        for event in [json!(null), json!([]), json!("x"), json!({})] {
            assert_eq!(read(&event, "hs"), None);
        }
    }
}
