//! The `rooms` table: who is in a room, spread over the room's shards, and what is known of them there.

use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure};
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::try_join_all;
use serde::Deserialize;

use super::keys::Key;
use super::pages::{self, Page, Wanted};
use super::tallies::CountedRecord;
use super::{Item, Reads, Store, StoreError, every_item, from_item, keys, made, number, refused_item, text};
use crate::domain::room::{Day, Member, Membership, Room, RoomId};
use crate::domain::tally::UserRecord;
use crate::domain::{Prediction, UserId};

/// The index by user: a member's user, and the room.
const BY_USER: &str = "by_user";

/// The index of a shard's members by their record.
const BY_STANDING: &str = "by_standing";

/// Stands for whoever came in by a Matrix client, and not through us.
const ELSEWHERE: &str = "elsewhere";

/// How far the homeserver's clock may be from ours.
const SKEW: TimeDelta = TimeDelta::seconds(5);

/// Whether the homeserver has told nothing of somebody since our request began. What it told since comes after
/// what we asked of it, or is it.
const NOTHING_NEWER: &str = "attribute_not_exists(told) OR told < :began";

/// The moment up to which a request of ours outdates what the homeserver tells: before it began, whichever
/// clock is right. What it tells of the request itself is later.
fn lately(began: DateTime<Utc>) -> AttributeValue {
    number((began - SKEW).timestamp_millis())
}

fn is(place: &Item, field: &str, word: &str) -> bool {
    place.get(field).and_then(|value| value.as_s().ok()).is_some_and(|value| value == word)
}

pub(super) fn read_member(item: Item) -> Result<Member, StoreError> {
    from_item(item)
}

/// Where a user stands in a room, from the index.
#[derive(Debug, Clone, Deserialize)]
pub struct Place {
    pk: String,
    sk: String,
    pub room_id: RoomId,
    pub membership: Membership,
    pub event_id: Option<u32>,
    #[serde(default)]
    pub is_private: bool,
}

impl Place {
    fn key(&self) -> Key {
        Key { pk: self.pk.clone(), sk: self.sk.clone() }
    }
}

/// How a joining went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joined {
    Now,
    Already,
}

/// Somebody of a room, with their record over all matches.
#[derive(Debug, Clone, Deserialize)]
pub struct Standing {
    pub user_id: UserId,
    pub standing: i64,
    #[serde(flatten)]
    pub record: UserRecord,
}

impl Store {
    pub async fn member(&self, room: &Room, user: UserId) -> Result<Option<Member>, StoreError> {
        self.get(&self.tables.rooms, keys::member(&room.room_id, room.shards, user), Reads::Eventual).await
    }

    /// Somebody in a room, with every write that was answered.
    pub async fn member_now(&self, room: &Room, user: UserId) -> Result<Option<Member>, StoreError> {
        self.get(&self.tables.rooms, keys::member(&room.room_id, room.shards, user), Reads::Consistent).await
    }

    /// An update of somebody's place that sets who they are and what they are in the room.
    fn placing(&self, room: &Room, user: UserId, to: Membership, more: &str) -> UpdateItemFluentBuilder {
        let mut set = format!("SET room_id = :room, user_id = :user, membership = :to, told = :told{more}");
        let mut update = self
            .client
            .update_item()
            .table_name(&self.tables.rooms)
            .set_key(Some(keys::member(&room.room_id, room.shards, user).into()))
            .expression_attribute_values(":room", text(room.room_id.as_str()))
            .expression_attribute_values(":user", number(user))
            .expression_attribute_values(":to", text(to.as_str()));
        if let Some(event) = room.event_id {
            set.push_str(", event_id = :event");
            update = update.expression_attribute_values(":event", number(event));
        }
        if room.is_private {
            set.push_str(", is_private = :private");
            update = update.expression_attribute_values(":private", AttributeValue::Bool(true));
        }
        if to != Membership::Join {
            // Only who is there is ranked, and whoever comes back comes in anew.
            set.push_str(" REMOVE standing, entry, since");
        }
        update.update_expression(set)
    }

    /// Lets somebody in, in one write on a key of their own. `mark` is the request's: by it, it knows its
    /// own write again. What they predict, their team and their record are noted by `tally`.
    ///
    /// The homeserver may tell of a joining before the request that caused it gets here: what came from
    /// elsewhere since the request began counts as its own, once.
    pub async fn join(
        &self,
        room: &Room,
        user: UserId,
        mark: &str,
        began: DateTime<Utc>,
    ) -> Result<Joined, StoreError> {
        let joined = self
            .placing(room, user, Membership::Join, ", entry = :mark, since = :began, seen = :day")
            .condition_expression(format!(
                "attribute_not_exists(membership) OR (membership <> :to AND ({NOTHING_NEWER})) \
                 OR (entry = :elsewhere AND since >= :told)",
            ))
            .expression_attribute_values(":mark", text(mark))
            .expression_attribute_values(":began", number(began.timestamp_millis()))
            .expression_attribute_values(":day", number(Day::of(began).0))
            .expression_attribute_values(":elsewhere", text(ELSEWHERE))
            .expression_attribute_values(":told", lately(began))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .send()
            .await;
        let Err(error) = joined else { return Ok(Joined::Now) };
        let Some(place) = refused_item(&error) else {
            return Err(StoreError::from_sdk("UpdateItem", &error));
        };
        // Where the homeserver told of a leaving since, it has told or will tell of this joining as well,
        // in their order.
        let is_member_by_another =
            is(&place, "membership", Membership::Join.as_str()) && !is(&place, "entry", mark);
        Ok(if is_member_by_another { Joined::Already } else { Joined::Now })
    }

    /// Invites somebody. False where they are in the room already.
    pub async fn invite(&self, room: &Room, user: UserId, began: DateTime<Utc>) -> Result<bool, StoreError> {
        let invited = self
            .placing(room, user, Membership::Invite, "")
            .condition_expression(format!(
                "attribute_not_exists(membership) OR (membership <> :join AND ({NOTHING_NEWER}))"
            ))
            .expression_attribute_values(":join", text(Membership::Join.as_str()))
            .expression_attribute_values(":began", number(began.timestamp_millis()))
            .expression_attribute_values(":told", lately(began))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .send()
            .await;
        let Err(error) = invited else { return Ok(true) };
        let Some(place) = refused_item(&error) else {
            return Err(StoreError::from_sdk("UpdateItem", &error));
        };
        Ok(!is(&place, "membership", Membership::Join.as_str()))
    }

    /// Lets somebody out who is in, or turns an invitation down. Whoever is neither stays so.
    pub async fn leave(&self, room: &Room, user: UserId, began: DateTime<Utc>) -> Result<(), StoreError> {
        let left = self
            .placing(room, user, Membership::Leave, "")
            .condition_expression(format!("membership IN (:join, :invite) AND ({NOTHING_NEWER})"))
            .expression_attribute_values(":join", text(Membership::Join.as_str()))
            .expression_attribute_values(":invite", text(Membership::Invite.as_str()))
            .expression_attribute_values(":began", number(began.timestamp_millis()))
            .expression_attribute_values(":told", lately(began))
            .send()
            .await;
        made("UpdateItem", left).map(|_| ())
    }

    /// Takes over what the homeserver tells of somebody, unless it told something later before.
    pub async fn told_membership(
        &self,
        room: &Room,
        user: UserId,
        to: Membership,
        at: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let update = if to == Membership::Join {
            // A place that one of our requests made keeps its mark and moment.
            let more = ", entry = if_not_exists(entry, :elsewhere), since = if_not_exists(since, :told), \
                        seen = :day";
            self.placing(room, user, to, more)
                .expression_attribute_values(":elsewhere", text(ELSEWHERE))
                .expression_attribute_values(":day", number(Day::of(at).0))
        } else {
            self.placing(room, user, to, "")
        };
        let told = update
            .condition_expression("attribute_not_exists(told) OR told <= :told")
            .expression_attribute_values(":told", number(at.timestamp_millis()))
            .send()
            .await;
        made("UpdateItem", told).map(|_| ())
    }

    /// Notes that somebody who is in a room was seen there.
    pub async fn note_seen(&self, member: Key, day: Day) -> Result<(), StoreError> {
        let noted = self
            .note(member)
            .update_expression("SET seen = :day")
            .condition_expression("attribute_exists(pk) AND (attribute_not_exists(seen) OR seen < :day)")
            .expression_attribute_values(":day", number(day.0))
            .send()
            .await;
        made("UpdateItem", noted).map(|_| ())
    }

    /// Members who have joined and predict the room's match, a page of them.
    pub async fn predictors_page(
        &self,
        room: &Room,
        after: Option<UserId>,
        most: usize,
        about: usize,
    ) -> Result<Page<Member>, StoreError> {
        let wanted = Wanted { shards: room.shards, after, most, about, is_filtered: true };
        pages::page(
            wanted,
            |shard, after, most| self.members_page(room, shard, after, most),
            |member| member.user_id,
            |member| member.has_joined() && member.pick.is_some(),
        )
        .await
    }

    async fn members_page(
        &self,
        room: &Room,
        shard: u8,
        after: Option<UserId>,
        most: usize,
    ) -> Result<(Vec<Member>, bool), StoreError> {
        let partition = keys::room_shard(&room.room_id, shard);
        let after = after.map(keys::member_of);
        let (items, ended) = self.partition_page(&self.tables.rooms, &partition, after, most).await?;
        Ok((items.into_iter().map(read_member).collect::<Result<_, _>>()?, ended))
    }

    /// A room's members with the best records, best first.
    pub async fn standings(&self, room: &Room, most: usize) -> Result<Vec<Standing>, StoreError> {
        let shards = (0..room.shards).map(|shard| async move {
            let best = self
                .client
                .query()
                .table_name(&self.tables.rooms)
                .index_name(BY_STANDING)
                .key_condition_expression("pk = :shard")
                .expression_attribute_values(":shard", text(keys::room_shard(&room.room_id, shard)))
                .scan_index_forward(false)
                .limit(i32::try_from(most).unwrap_or(i32::MAX))
                .send()
                .await
                .map_err(|error| StoreError::from_sdk("Query", &error))?;
            best.items.unwrap_or_default().into_iter().map(from_item).collect::<Result<Vec<Standing>, _>>()
        });
        let mut best: Vec<Standing> = try_join_all(shards).await?.into_iter().flatten().collect();
        best.sort_by_key(|one| (-one.standing, one.user_id));
        best.truncate(most);
        Ok(best)
    }

    /// Every room that somebody has to do with.
    pub async fn places(&self, user: UserId) -> Result<Vec<Place>, StoreError> {
        let query = self
            .client
            .query()
            .table_name(&self.tables.rooms)
            .index_name(BY_USER)
            .key_condition_expression("user_id = :user")
            .expression_attribute_values(":user", number(user));
        every_item(query).await?.into_iter().map(from_item).collect()
    }

    /// The places of a user who has joined, in all rooms or in those about a match.
    pub async fn joined_places(&self, user: UserId, event: Option<u32>) -> Result<Vec<Key>, StoreError> {
        let counts = |place: &Place| {
            place.membership == Membership::Join && event.is_none_or(|event| place.event_id == Some(event))
        };
        Ok(self.places(user).await?.iter().filter(|place| counts(place)).map(Place::key).collect())
    }

    /// Notes with a member what they predict for the room's match, unless a later version is noted.
    pub async fn note_pick(&self, member: Key, row: &Prediction) -> Result<(), StoreError> {
        let noted = self
            .note(member)
            .update_expression("SET pick = :pick, edits = :edits")
            .condition_expression("attribute_exists(pk) AND (attribute_not_exists(edits) OR edits < :edits)")
            .expression_attribute_values(":pick", text(row.forecast.pick().as_str()))
            .expression_attribute_values(":edits", number(row.edits))
            .send()
            .await;
        made("UpdateItem", noted).map(|_| ())
    }

    /// Notes with a member which team they are for, unless a later choice is noted.
    pub async fn note_team(&self, member: Key, team: u32, chosen: DateTime<Utc>) -> Result<(), StoreError> {
        let noted = self
            .note(member)
            .update_expression("SET team = :team, team_chosen = :at")
            .condition_expression(
                "attribute_exists(pk) AND (attribute_not_exists(team_chosen) OR team_chosen < :at)",
            )
            .expression_attribute_values(":team", number(team))
            .expression_attribute_values(":at", number(chosen.timestamp_millis()))
            .send()
            .await;
        made("UpdateItem", noted).map(|_| ())
    }

    /// Notes with a member of a room how good their predictions are, unless a later count is noted.
    pub async fn note_record(&self, member: Key, counted: &CountedRecord) -> Result<(), StoreError> {
        let CountedRecord { record, version } = counted;
        let note = self.note(member);
        let note = match record.ranking_key() {
            Some(standing) => note
                .update_expression(
                    "SET settled = :settled, correct = :correct, ranked = :version, standing = :standing",
                )
                .expression_attribute_values(":standing", number(standing)),
            // The only result was taken back.
            None => note.update_expression(
                "SET settled = :settled, correct = :correct, ranked = :version REMOVE standing",
            ),
        };
        let noted = note
            .condition_expression(
                "membership = :join AND (attribute_not_exists(standing) OR ranked < :version)",
            )
            .expression_attribute_values(":join", text(Membership::Join.as_str()))
            .expression_attribute_values(":settled", number(record.settled))
            .expression_attribute_values(":correct", number(record.correct))
            .expression_attribute_values(":version", number(version))
            .send()
            .await;
        made("UpdateItem", noted).map(|_| ())
    }

    fn note(&self, member: Key) -> UpdateItemFluentBuilder {
        self.client.update_item().table_name(&self.tables.rooms).set_key(Some(member.into()))
    }
}
