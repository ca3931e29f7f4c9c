//! Parses the events that the homeserver pushes.

use chrono::{DateTime, Utc};
use serde_json::Value;
use touchline::domain::Username;
use touchline::domain::room::{Membership, RoomId};

/// A membership change or a message in a room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoomEvent {
    pub room: RoomId,
    pub at: DateTime<Utc>,
    /// Whether the sender is a user of our server, so that our homeserver set the time.
    pub is_ours: bool,
    pub kind: RoomEventKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoomEventKind {
    /// The membership of one of our users changed.
    Membership(Username, Membership),
    /// A message, with its sender if the sender is one of our users.
    Message(Option<Username>),
}

/// Parses a Matrix event. Returns `None` for malformed events, and for events that are neither a message nor a
/// membership change. Also returns `None` for membership changes that we do not store: those of users of other
/// servers, those to unknown memberships such as `knock`, and joins that another user sent.
#[must_use]
pub fn read(event: &Value, server: &str) -> Option<RoomEvent> {
    let room = RoomId::parse(event["room_id"].as_str()?)?;
    let at = DateTime::from_timestamp_millis(event["origin_server_ts"].as_i64()?)?;
    let sender = event["sender"].as_str().and_then(|sender| sender.split_once(':'));
    let is_ours = sender.is_some_and(|(_, of)| of == server);
    let kind = match event["type"].as_str()? {
        "m.room.member" => {
            let user = local_username(event["state_key"].as_str()?, server)?;
            let to = membership(event["content"]["membership"].as_str()?)?;
            // Only the user can join. Others can invite the user, or end the membership.
            if to == Membership::Join && event["sender"] != event["state_key"] {
                return None;
            }
            RoomEventKind::Membership(user, to)
        }
        "m.room.message" | "m.room.encrypted" | "m.sticker" => {
            RoomEventKind::Message(local_username(event["sender"].as_str()?, server))
        }
        _ => return None,
    };
    Some(RoomEvent { room, at, is_ours, kind })
}

/// Returns the username in a Matrix user id, or `None` for users of other servers and for invalid usernames. In Matrix,
/// `@Alice:hs` is another user than `@alice:hs`. Our usernames are in lower case, so an id with other letters belongs to no
/// user of ours.
#[must_use]
pub fn local_username(id: &str, server: &str) -> Option<Username> {
    let (name, of) = id.strip_prefix('@')?.split_once(':')?;
    if of == server { Username::parse(name).ok().filter(|parsed| parsed.as_str() == name) } else { None }
}

fn membership(word: &str) -> Option<Membership> {
    match word {
        "join" => Some(Membership::Join),
        "invite" => Some(Membership::Invite),
        // Matrix reports a kick as `leave`. We store a ban as `leave`, too.
        "leave" | "ban" => Some(Membership::Leave),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(kind: &str, more: &Value) -> Value {
        let mut event = json!({
            "type": kind, "room_id": "!a:hs", "sender": "@alice:hs",
            "origin_server_ts": 1_794_744_000_000_i64,
        });
        for (field, value) in more.as_object().unwrap() {
            event[field] = value.clone();
        }
        event
    }

    fn kind_of(kind: &str, more: &Value) -> Option<RoomEventKind> {
        read(&event(kind, more), "hs").map(|event| event.kind)
    }

    #[test]
    fn a_membership_event_concerns_the_user_in_its_state_key() {
        let sent_by = |sender: &str, user: &str, word: &str| {
            let content = json!({ "membership": word });
            kind_of("m.room.member", &json!({ "sender": sender, "state_key": user, "content": content }))
        };
        let member = |user: &str, word: &str| sent_by(user, user, word);
        let name = Username::parse("grace").unwrap();
        for (word, is) in [
            ("join", Membership::Join),
            ("invite", Membership::Invite),
            ("leave", Membership::Leave),
            ("ban", Membership::Leave),
        ] {
            assert_eq!(member("@grace:hs", word), Some(RoomEventKind::Membership(name.clone(), is)));
        }
        assert_eq!(member("@grace:hs", "knock"), None);
        assert_eq!(member("@grace:elsewhere", "join"), None);
        assert_eq!(member("@Not A Name:hs", "join"), None);
        assert_eq!(member("@GRACE:hs", "invite"), None, "another user");
        assert_eq!(sent_by("@alice:hs", "@grace:hs", "join"), None, "only grace can join");
        let invite = Some(RoomEventKind::Membership(name, Membership::Invite));
        assert_eq!(sent_by("@alice:hs", "@grace:hs", "invite"), invite);
    }

    #[test]
    fn messages_from_users_of_other_servers_have_no_local_sender() {
        let alice = Username::parse("alice").ok();
        assert_eq!(kind_of("m.room.message", &json!({})), Some(RoomEventKind::Message(alice.clone())));
        assert_eq!(kind_of("m.room.encrypted", &json!({})), Some(RoomEventKind::Message(alice)));
        assert_eq!(
            kind_of("m.room.message", &json!({ "sender": "@x:far" })),
            Some(RoomEventKind::Message(None))
        );
        assert_eq!(kind_of("m.room.topic", &json!({})), None);
    }

    #[test]
    fn malformed_events_are_ignored() {
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
