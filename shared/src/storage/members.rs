//! The `rooms` table: memberships, spread over the room's shards.
//!
//! A membership also holds copies of the member's primary team, statistics, and pick for the room's match. From
//! these copies, the members of a room are counted and ranked.
//!
//! A membership changes through homeserver events and through requests to our API. The attribute `told` is the
//! time of the latest change, in milliseconds since 1970. A homeserver event supersedes all older changes.

use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure};
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::try_join_all;
use serde::Deserialize;

use super::condition::{condition_held, item_that_failed_condition};
use super::error::StoreError;
use super::item::{Item, Key, from_item, number, text};
use super::keys;
use super::pages::{self, Page, PageQuery};
use super::store::{Reads, Store, every_item};
use super::tallies::VersionedStats;
use crate::domain::room::{Day, Member, Membership, Room, RoomId};
use crate::domain::tally::UserStats;
use crate::domain::{MAX_CLOCK_DIFFERENCE, Prediction, UserId, limit};

/// The index of memberships by user and room.
const BY_USER: &str = "by_user";

/// The index that sorts the joined members of a shard by their standing. The standing is the key that ranks
/// them.
const BY_STANDING: &str = "by_standing";

/// The value of the attribute `entry` if the member joined with a Matrix client, not through our API. After a
/// join through our API, `entry` is the id of the join request.
const ELSEWHERE: &str = "elsewhere";

/// The maximum difference that we assume between the homeserver's clock and ours.
pub const CLOCK_SKEW: TimeDelta = TimeDelta::seconds(5);

/// A request of our API to change a membership.
#[derive(Debug, Clone)]
pub struct MembershipRequest {
    /// The id begins with a time: when the request began, or shortly after the previous request.
    id: String,
    nonce: u32,
    began: DateTime<Utc>,
}

impl MembershipRequest {
    #[must_use]
    pub fn new(began: DateTime<Utc>, nonce: u32) -> Self {
        Self { id: limit::request_id(began, nonce), nonce, began }
    }

    /// Returns the request with an id that sorts after `asked`, the id of the last request that changed the membership.
    /// The clock of that request may have been up to a second ahead. If `asked` is newer than that, the id stays.
    #[must_use]
    pub fn after(self, asked: Option<&str>) -> Self {
        let latest = limit::outside(-MAX_CLOCK_DIFFERENCE, self.began);
        let ahead = asked.filter(|asked| **asked > *self.id && **asked <= *latest);
        let Some(time) = ahead.and_then(limit::time_of) else { return self };
        Self { id: limit::request_id(time + TimeDelta::milliseconds(1), self.nonce), ..self }
    }

    /// Adds the values of [`NO_NEWER_CHANGE`], and `:told`, to an update.
    fn in_update(&self, update: UpdateItemFluentBuilder) -> UpdateItemFluentBuilder {
        // The homeserver event that results from the request must have a later time than `:told`, so the difference of
        // the clocks is subtracted.
        let told = self.began - CLOCK_SKEW;
        update
            .expression_attribute_values(":request", text(&self.id))
            .expression_attribute_values(":began", number(self.began.timestamp_millis()))
            .expression_attribute_values(":told", number(told.timestamp_millis()))
    }
}

/// A condition that holds if no newer change of the membership is stored than the API request.
///
/// A newer homeserver event either supersedes the request or results from it. In both cases the request must not
/// overwrite the event's change.
///
/// The homeserver's clock may be behind ours. Then a write that reaches the store late or twice could undo an event that
/// arrived in between. So `asked` stores the id of the last request that changed the membership, and only requests with
/// later ids are applied.
const NO_NEWER_CHANGE: &str = "(attribute_not_exists(told) OR told < :began) \
                               AND (attribute_not_exists(asked) OR asked < :request)";

/// The assignments that store the id of a request, and keep the id of the request before it.
const ASKED: &str = ", asked = :request, asked_before = if_not_exists(asked, :request)";

fn has_text(item: &Item, attribute: &str, expected: &str) -> bool {
    item.get(attribute).and_then(|value| value.as_s().ok()).is_some_and(|value| value == expected)
}

pub(super) fn read_member(item: Item) -> Result<Member, StoreError> {
    from_item(item)
}

/// A membership as read from the index of memberships by user.
#[derive(Debug, Clone, Deserialize)]
pub struct UserMembership {
    pk: String,
    sk: String,
    pub room_id: RoomId,
    pub membership: Membership,
    pub event_id: Option<u32>,
    #[serde(default)]
    pub is_private: bool,
}

impl UserMembership {
    fn key(&self) -> Key {
        Key { pk: self.pk.clone(), sk: self.sk.clone() }
    }
}

/// The result of a join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joined {
    Now,
    Already,
}

/// A member in a room's ranking, with their statistics over all matches.
#[derive(Debug, Clone, Deserialize)]
pub struct Standing {
    pub user_id: UserId,
    /// The ranking key: a higher number is a better place.
    pub standing: i64,
    #[serde(flatten)]
    pub stats: UserStats,
}

impl Store {
    /// Reads a user's membership of a room.
    pub async fn member(
        &self,
        room: &Room,
        user: UserId,
        reads: Reads,
    ) -> Result<Option<Member>, StoreError> {
        self.get(&self.tables.rooms, keys::member(&room.room_id, room.shards, user), reads).await
    }

    /// Builds an update that sets the attribute `membership` to `to`, and also sets the room, the user and
    /// `told`. `more` contains further `SET` assignments. The caller must add the value of `:told`.
    fn membership_update(
        &self,
        room: &Room,
        user: UserId,
        to: Membership,
        more: &str,
    ) -> UpdateItemFluentBuilder {
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
            // Only joined members have these attributes.
            set.push_str(" REMOVE standing, ranked, entry, since");
        }
        update.update_expression(set)
    }

    /// Joins a user to a room. A retry of the same request returns [`Joined::Now`] again.
    ///
    /// The homeserver also reports this join as an event. If the event is applied before this write, the stored
    /// join looks like a join with a Matrix client: `entry` is `ELSEWHERE`. So if such a join is newer than this
    /// request, the request claims it and returns [`Joined::Now`].
    pub async fn join(
        &self,
        room: &Room,
        user: UserId,
        request: &MembershipRequest,
    ) -> Result<Joined, StoreError> {
        let mut request = request.clone();
        let member = loop {
            let Some(member) = self.try_join(room, user, &request).await? else { return Ok(Joined::Now) };
            // A join does not read the membership first. Only the failed condition shows the id of the previous request.
            let asked = member.get("asked").and_then(|asked| asked.as_s().ok());
            let later = request.clone().after(asked.map(String::as_str));
            // If this is a retry of a write that was applied, another request may have changed the membership since.
            if later.id == request.id || has_text(&member, "asked_before", &request.id) {
                break member;
            }
            request = later;
        };
        if has_text(&member, "entry", ELSEWHERE) && self.claim_join(room, user, &request).await? {
            return Ok(Joined::Now);
        }
        // The condition also fails if a newer homeserver event has changed the membership, for example to
        // `leave`. The join still succeeded, because the homeserver accepted it. The stored membership is
        // not overwritten: the homeserver sends its events in order, so the newest event has the correct value.
        let joined_before = has_text(&member, "membership", Membership::Join.as_str())
            && !has_text(&member, "entry", &request.id);
        Ok(if joined_before { Joined::Already } else { Joined::Now })
    }

    /// Stores a join. Returns the stored membership if the condition fails.
    async fn try_join(
        &self,
        room: &Room,
        user: UserId,
        request: &MembershipRequest,
    ) -> Result<Option<Item>, StoreError> {
        let more = format!(", entry = :request, since = :began, seen = :day{ASKED}");
        let update = self.membership_update(room, user, Membership::Join, &more);
        let joined = request
            .in_update(update)
            .condition_expression(format!(
                "attribute_not_exists(membership) OR (membership <> :to AND ({NO_NEWER_CHANGE}))"
            ))
            .expression_attribute_values(":day", number(Day::of(request.began).0))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .send()
            .await;
        let Err(error) = joined else { return Ok(None) };
        match item_that_failed_condition(&error) {
            Some(member) => Ok(Some(member)),
            None => Err(StoreError::from_sdk("UpdateItem", &error)),
        }
    }

    /// Makes a request the cause of a stored join that an event reported. Only one request can claim a join. Returns
    /// false if the join is older than the request, or another request claimed it. Keeps `told`, the time of the event,
    /// so that older events cannot undo the join.
    async fn claim_join(
        &self,
        room: &Room,
        user: UserId,
        request: &MembershipRequest,
    ) -> Result<bool, StoreError> {
        let update = self.member_update(keys::member(&room.room_id, room.shards, user));
        let claimed = request
            .in_update(update)
            .update_expression(format!("SET entry = :request, since = :began, seen = :day{ASKED}"))
            .condition_expression(
                "entry = :elsewhere AND since >= :told AND (attribute_not_exists(asked) OR asked < :request)",
            )
            .expression_attribute_values(":day", number(Day::of(request.began).0))
            .expression_attribute_values(":elsewhere", text(ELSEWHERE))
            .send()
            .await;
        condition_held("UpdateItem", claimed)
    }

    /// Invites a user. Returns false if the user has joined already.
    pub async fn invite(
        &self,
        room: &Room,
        user: UserId,
        request: &MembershipRequest,
    ) -> Result<bool, StoreError> {
        let update = self.membership_update(room, user, Membership::Invite, ASKED);
        let invited = request
            .in_update(update)
            .condition_expression(format!(
                "attribute_not_exists(membership) OR (membership <> :join AND ({NO_NEWER_CHANGE}))"
            ))
            .expression_attribute_values(":join", text(Membership::Join.as_str()))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .send()
            .await;
        let Err(error) = invited else { return Ok(true) };
        let Some(member) = item_that_failed_condition(&error) else {
            return Err(StoreError::from_sdk("UpdateItem", &error));
        };
        Ok(!has_text(&member, "membership", Membership::Join.as_str()))
    }

    /// Ends a membership or declines an invitation. Does nothing if the user is neither joined nor invited.
    pub async fn leave(
        &self,
        room: &Room,
        user: UserId,
        request: &MembershipRequest,
    ) -> Result<(), StoreError> {
        let update = self.membership_update(room, user, Membership::Leave, ASKED);
        let left = request
            .in_update(update)
            .condition_expression(format!("membership IN (:join, :invite) AND ({NO_NEWER_CHANGE})"))
            .expression_attribute_values(":join", text(Membership::Join.as_str()))
            .expression_attribute_values(":invite", text(Membership::Invite.as_str()))
            .send()
            .await;
        condition_held("UpdateItem", left).map(|_| ())
    }

    /// Applies a membership event of the homeserver, unless a newer change of the membership is stored.
    pub async fn apply_homeserver_membership(
        &self,
        room: &Room,
        user: UserId,
        to: Membership,
        at: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let update = if to == Membership::Join {
            // If the user joined through our API, `entry` and `since` keep the id and the time of the join
            // request.
            let more = ", entry = if_not_exists(entry, :elsewhere), since = if_not_exists(since, :told), \
                        seen = :day";
            self.membership_update(room, user, to, more)
                .expression_attribute_values(":elsewhere", text(ELSEWHERE))
                .expression_attribute_values(":day", number(Day::of(at).0))
        } else {
            self.membership_update(room, user, to, "")
        };
        let applied = update
            .condition_expression("attribute_not_exists(told) OR told <= :told")
            .expression_attribute_values(":told", number(at.timestamp_millis()))
            .send()
            .await;
        condition_held("UpdateItem", applied).map(|_| ())
    }

    /// Sets the day on which a member was last seen, unless a later day is stored.
    pub async fn touch_seen(&self, member: Key, day: Day) -> Result<(), StoreError> {
        let touched = self
            .member_update(member)
            .update_expression("SET seen = :day")
            .condition_expression("attribute_exists(pk) AND (attribute_not_exists(seen) OR seen < :day)")
            .expression_attribute_values(":day", number(day.0))
            .send()
            .await;
        condition_held("UpdateItem", touched).map(|_| ())
    }

    /// Reads a page of the joined members who have a prediction for the room's match.
    pub async fn predictors_page(
        &self,
        room: &Room,
        after: Option<UserId>,
        limit: usize,
        estimated_total: usize,
    ) -> Result<Page<Member>, StoreError> {
        let query = PageQuery { shards: room.shards, after, limit, estimated_total, is_filtered: true };
        pages::page(
            query,
            |shard, after, limit| self.members_page(room, shard, after, limit),
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
        limit: usize,
    ) -> Result<(Vec<Member>, bool), StoreError> {
        let partition = keys::room_shard(&room.room_id, shard);
        let after = after.map(keys::member_of);
        let (items, has_ended) = self.partition_page(&self.tables.rooms, &partition, after, limit).await?;
        Ok((items.into_iter().map(read_member).collect::<Result<_, _>>()?, has_ended))
    }

    /// Reads up to `limit` joined members with the best statistics, best first.
    pub async fn standings(&self, room: &Room, limit: usize) -> Result<Vec<Standing>, StoreError> {
        let shards = (0..room.shards).map(|shard| async move {
            let best = self
                .client
                .query()
                .table_name(&self.tables.rooms)
                .index_name(BY_STANDING)
                .key_condition_expression("pk = :shard")
                .expression_attribute_values(":shard", text(keys::room_shard(&room.room_id, shard)))
                .scan_index_forward(false)
                .limit(i32::try_from(limit).unwrap_or(i32::MAX))
                .send()
                .await
                .map_err(|error| StoreError::from_sdk("Query", &error))?;
            best.items.unwrap_or_default().into_iter().map(from_item).collect::<Result<Vec<Standing>, _>>()
        });
        let mut best: Vec<Standing> = try_join_all(shards).await?.into_iter().flatten().collect();
        best.sort_by_key(|member| (-member.standing, member.user_id));
        best.truncate(limit);
        Ok(best)
    }

    /// Reads all memberships of a user: joined, invited and left. Eventually consistent.
    pub async fn memberships(&self, user: UserId) -> Result<Vec<UserMembership>, StoreError> {
        let query = self
            .client
            .query()
            .table_name(&self.tables.rooms)
            .index_name(BY_USER)
            .key_condition_expression("user_id = :user")
            .expression_attribute_values(":user", number(user));
        every_item(query).await?.into_iter().map(from_item).collect()
    }

    /// Returns whether the index by user shows a membership. The index lags behind the table.
    pub async fn is_indexed(&self, member: &Member) -> Result<bool, StoreError> {
        let found = self
            .client
            .query()
            .table_name(&self.tables.rooms)
            .index_name(BY_USER)
            .key_condition_expression("user_id = :user AND room_id = :room")
            .expression_attribute_values(":user", number(member.user_id))
            .expression_attribute_values(":room", text(member.room_id.as_str()))
            .send()
            .await
            .map_err(|error| StoreError::from_sdk("Query", &error))?;
        Ok(!found.items().is_empty())
    }

    /// Reads the keys of a user's memberships: in the rooms about the match `event`, or in all rooms if `event` is
    /// `None`. The index may still show an invitation or an earlier leave of a user who has joined, so the keys of
    /// invited and former members are included.
    pub async fn membership_keys(&self, user: UserId, event: Option<u32>) -> Result<Vec<Key>, StoreError> {
        let is_wanted = |found: &&UserMembership| event.is_none_or(|event| found.event_id == Some(event));
        Ok(self.memberships(user).await?.iter().filter(is_wanted).map(UserMembership::key).collect())
    }

    /// Copies a prediction for the room's match into the membership, unless the membership has a later
    /// version of it.
    pub async fn copy_pick(&self, member: Key, row: &Prediction) -> Result<(), StoreError> {
        let copied = self
            .member_update(member)
            .update_expression("SET pick = :pick, edits = :edits")
            .condition_expression("attribute_exists(pk) AND (attribute_not_exists(edits) OR edits < :edits)")
            .expression_attribute_values(":pick", text(row.forecast.pick().as_str()))
            .expression_attribute_values(":edits", number(row.edits))
            .send()
            .await;
        condition_held("UpdateItem", copied).map(|_| ())
    }

    /// Copies the member's primary team into the membership, unless the membership has a later choice.
    pub async fn copy_team(&self, member: Key, team: u32, chosen: DateTime<Utc>) -> Result<(), StoreError> {
        let copied = self
            .member_update(member)
            .update_expression("SET team = :team, team_chosen = :at")
            .condition_expression(
                "attribute_exists(pk) AND (attribute_not_exists(team_chosen) OR team_chosen < :at)",
            )
            .expression_attribute_values(":team", number(team))
            .expression_attribute_values(":at", number(chosen.timestamp_millis()))
            .send()
            .await;
        condition_held("UpdateItem", copied).map(|_| ())
    }

    /// Copies a joined member's statistics into the membership, unless the membership has a later version of
    /// them.
    pub async fn copy_stats(&self, member: Key, stats: &VersionedStats) -> Result<(), StoreError> {
        let VersionedStats { stats, version } = stats;
        let update = self.member_update(member);
        let update = match stats.ranking_key() {
            Some(standing) => update
                .update_expression(
                    "SET settled = :settled, correct = :correct, ranked = :version, standing = :standing",
                )
                .expression_attribute_values(":standing", number(standing)),
            // The user has no settled predictions any more, because results were withdrawn.
            None => update.update_expression(
                "SET settled = :settled, correct = :correct, ranked = :version REMOVE standing",
            ),
        };
        let copied = update
            .condition_expression(
                "membership = :join AND (attribute_not_exists(ranked) OR ranked < :version)",
            )
            .expression_attribute_values(":join", text(Membership::Join.as_str()))
            .expression_attribute_values(":settled", number(stats.settled))
            .expression_attribute_values(":correct", number(stats.correct))
            .expression_attribute_values(":version", number(version))
            .send()
            .await;
        condition_held("UpdateItem", copied).map(|_| ())
    }

    fn member_update(&self, member: Key) -> UpdateItemFluentBuilder {
        self.client.update_item().table_name(&self.tables.rooms).set_key(Some(member.into()))
    }
}
