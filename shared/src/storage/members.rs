//! The `rooms` table: memberships, spread over the room's shards.
//!
//! A membership also holds copies of the member's primary team, statistics, and pick for the room's match. From
//! these copies, the members of a room are counted and ranked.
//!
//! A membership changes through homeserver events and through requests to our API. The attribute `heard` is the
//! position of the latest event, and `asked` the id of the latest request.

use std::collections::HashMap;

use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure};
use chrono::serde::ts_milliseconds_option;
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::try_join_all;
use serde::Deserialize;

use super::client::Call as _;
use super::condition::{condition_held, item_that_failed_condition};
use super::conflict_retry::Retry;
use super::error::StoreError;
use super::item::{Item, Key, from_item, number, text};
use super::keys;
use super::pages::{self, Page, PageQuery};
use super::store::{Reads, Store};
use super::tallies::VersionedStats;
use crate::domain::room::{Day, Member, Membership, Room, RoomId, StreamPosition};
use crate::domain::tally::UserStats;
use crate::domain::{Prediction, UserId, limit};

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

/// How long a membership is stored after it has ended. While it is stored, older events of the homeserver do not change
/// it. Without this limit, users who join and leave rooms would add rows forever.
const ENDED_KEPT: TimeDelta = TimeDelta::days(30);

/// A request of our API to change a membership.
///
/// The homeserver carries a request out and then reports it as an event, so the events always have the last word. The
/// write of the request only shows the change earlier. It must not hide an event, so it is applied only if the
/// membership is still as it was before the homeserver was called.
#[derive(Debug)]
pub struct MembershipRequest<'a> {
    id: String,
    room: &'a Room,
    user: UserId,
    before: Option<&'a Member>,
    began: DateTime<Utc>,
    invited_by: Option<UserId>,
}

impl<'a> MembershipRequest<'a> {
    /// `before` is the membership before the homeserver was called, read strongly consistent. If it was not read, or there
    /// is none, the request is stored unless an event has created or changed the membership.
    #[must_use]
    pub fn new(
        room: &'a Room,
        user: UserId,
        before: Option<&'a Member>,
        began: DateTime<Utc>,
        nonce: u32,
    ) -> Self {
        Self { id: limit::request_id(began, nonce), room, user, before, began, invited_by: None }
    }

    /// Sets who invites the user.
    #[must_use]
    pub fn invited_by(mut self, inviter: UserId) -> Self {
        self.invited_by = Some(inviter);
        self
    }
}

/// The version of a membership: the last request and the last event that changed it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Version {
    asked: Option<String>,
    heard: Option<StreamPosition>,
}

impl Version {
    fn of(member: &Member) -> Self {
        Self { asked: member.asked.clone(), heard: member.heard }
    }

    /// Adds the condition that the stored membership has this version.
    fn in_condition(&self, mut update: UpdateItemFluentBuilder) -> UpdateItemFluentBuilder {
        let mut condition = Vec::new();
        let asked = self.asked.as_ref().map(text);
        for (name, value) in [("asked", asked), ("heard", self.heard.map(|heard| number(heard.0)))] {
            if let Some(value) = value {
                condition.push(format!("{name} = :{name}_before"));
                update = update.expression_attribute_values(format!(":{name}_before"), value);
            } else {
                condition.push(format!("attribute_not_exists({name})"));
            }
        }
        update.condition_expression(condition.join(" AND "))
    }
}

/// Returns whether a request can change a membership.
fn can_change(from: Option<Membership>, to: Membership) -> bool {
    match to {
        Membership::Join => from != Some(Membership::Join),
        Membership::Invite => !matches!(from, Some(Membership::Join | Membership::Invite)),
        Membership::Leave => matches!(from, Some(Membership::Join | Membership::Invite)),
    }
}

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
    /// When a joined member joined.
    #[serde(default, with = "ts_milliseconds_option")]
    pub since: Option<DateTime<Utc>>,
}

impl UserMembership {
    #[must_use]
    pub fn key(&self) -> Key {
        Key { pk: self.pk.clone(), sk: self.sk.clone() }
    }
}

/// An open invitation to a private room.
#[derive(Debug, Clone, Deserialize)]
pub struct OpenInvitation {
    pub room_id: RoomId,
    /// `None` if the user was invited in a Matrix client.
    pub invited_by: Option<UserId>,
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

    /// Builds an update that sets the attribute `membership` to `to`, and also sets the room and the user. `at` is the time
    /// of the change. `more` contains further `SET` assignments.
    fn membership_update(
        &self,
        room: &Room,
        user: UserId,
        (to, at): (Membership, DateTime<Utc>),
        more: &str,
    ) -> UpdateItemFluentBuilder {
        let mut set = format!("SET room_id = :room, user_id = :user, membership = :to{more}");
        let mut update = self
            .member_update(keys::member(&room.room_id, room.shards, user))
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
        if to == Membership::Leave {
            set.push_str(", expires_at = :expires");
            update = update.expression_attribute_values(":expires", number((at + ENDED_KEPT).timestamp()));
        }
        set.push_str(match to {
            Membership::Join => " REMOVE expires_at, invited_by",
            // Only joined members have these attributes.
            Membership::Invite => " REMOVE expires_at, standing, ranked, unranked, entry, since",
            Membership::Leave => " REMOVE standing, ranked, unranked, entry, since, invited_by",
        });
        update.update_expression(set)
    }

    /// Joins a user to a room.
    ///
    /// The homeserver also reports this join as an event. If the event is applied before this write, the stored
    /// join looks like a join with a Matrix client: `entry` is `ELSEWHERE`. So if such a join is newer than this
    /// request, the request claims it and returns [`Joined::Now`].
    pub async fn join(&self, request: &MembershipRequest<'_>) -> Result<Joined, StoreError> {
        let Some(found) = self.request(request, Membership::Join).await? else { return Ok(Joined::Now) };
        let is_joined = has_text(&found, "membership", Membership::Join.as_str());
        // If the user is not joined, the homeserver accepted the join, and its event follows.
        if !is_joined || self.claim_join(request, &found).await? {
            return Ok(Joined::Now);
        }
        Ok(Joined::Already)
    }

    /// Makes a request the cause of a stored join that an event reported. Only one request can claim a join. Returns
    /// false if the join is older than the request, or another request claimed it.
    async fn claim_join(&self, request: &MembershipRequest<'_>, found: &Item) -> Result<bool, StoreError> {
        let Some(heard) = found.get("heard").filter(|_| has_text(found, "entry", ELSEWHERE)) else {
            return Ok(false);
        };
        let claimed = self
            .member_update(keys::member(&request.room.room_id, request.room.shards, request.user))
            .update_expression("SET entry = :request, since = :began, seen = :day, asked = :request")
            .condition_expression(
                "heard = :heard AND (entry = :request OR (entry = :elsewhere AND since >= :earliest))",
            )
            .expression_attribute_values(":request", text(&request.id))
            .expression_attribute_values(":began", number(request.began.timestamp_millis()))
            .expression_attribute_values(":day", number(Day::of(request.began).0))
            .expression_attribute_values(":heard", heard.clone())
            .expression_attribute_values(":earliest", number((request.began - CLOCK_SKEW).timestamp_millis()))
            .expression_attribute_values(":elsewhere", text(ELSEWHERE))
            .call()
            .await;
        condition_held("UpdateItem", claimed)
    }

    /// Invites a user. Returns false if the user has joined already.
    pub async fn invite(&self, request: &MembershipRequest<'_>) -> Result<bool, StoreError> {
        let found = self.request(request, Membership::Invite).await?;
        Ok(!found.is_some_and(|found| has_text(&found, "membership", Membership::Join.as_str())))
    }

    /// Ends a membership or declines an invitation. Does nothing if the user is neither joined nor invited.
    pub async fn leave(&self, request: &MembershipRequest<'_>) -> Result<(), StoreError> {
        self.request(request, Membership::Leave).await.map(|_| ())
    }

    /// Stores the membership that a request asks for. Returns the stored membership if the request is not applied,
    /// because there is nothing to change or because an event may have changed the membership since.
    async fn request(
        &self,
        request: &MembershipRequest<'_>,
        to: Membership,
    ) -> Result<Option<Item>, StoreError> {
        let before = request.before.map(|member| (member.membership, Version::of(member)));
        let heard = before.as_ref().and_then(|(_, version)| version.heard);
        let (mut from, mut version) = before.unzip();
        let mut retry = Retry::immediate("a membership", 5).of_own_item();
        let mut found = None;
        while can_change(from, to) {
            found = self.try_request(request, to, version.as_ref()).await?;
            let Some(item) = &found else { return Ok(None) };
            let member: Member = from_item(item.clone())?;
            if member.asked.as_ref() == Some(&request.id) {
                // The write succeeded, but its response was lost and the SDK retried the write.
                return Ok(None);
            }
            // An event has changed the membership since. A user who joins may still be invited: then the event is the
            // invitation's, from before the join.
            if member.heard != heard && (to, member.membership) != (Membership::Join, Membership::Invite) {
                return Ok(found);
            }
            // Only requests have changed the membership. Apply this one after them.
            (from, version) = (Some(member.membership), Some(Version::of(&member)));
            retry.again().await?;
        }
        Ok(found)
    }

    /// Stores a membership if the stored one has this version, or does not exist if there is no version. Returns the
    /// stored membership if the condition fails.
    async fn try_request(
        &self,
        request: &MembershipRequest<'_>,
        to: Membership,
        version: Option<&Version>,
    ) -> Result<Option<Item>, StoreError> {
        let MembershipRequest { room, user, id, began, .. } = request;
        let mut update = if to == Membership::Join {
            let more = ", asked = :request, entry = :request, since = :began, seen = :day";
            self.membership_update(room, *user, (to, *began), more)
                .expression_attribute_values(":began", number(began.timestamp_millis()))
                .expression_attribute_values(":day", number(Day::of(*began).0))
        } else if let Some(inviter) = request.invited_by {
            self.membership_update(room, *user, (to, *began), ", asked = :request, invited_by = :inviter")
                .expression_attribute_values(":inviter", number(inviter))
        } else {
            self.membership_update(room, *user, (to, *began), ", asked = :request")
        };
        update = match version {
            Some(version) => version.in_condition(update),
            None => update.condition_expression("attribute_not_exists(membership)"),
        };
        let stored = update
            .expression_attribute_values(":request", text(id))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .call()
            .await;
        let Err(error) = stored else { return Ok(None) };
        match item_that_failed_condition(&error) {
            Some(found) => Ok(Some(found)),
            None => Err(StoreError::from_sdk("UpdateItem", &error)),
        }
    }

    /// Applies a membership event of the homeserver, unless this event or a later one was applied. Events are
    /// ordered by position, not by time, because servers of other users can send any time. `at` is when the membership changed.
    ///
    /// An invitation does not replace a joined membership, because Matrix rejects invitations of members.
    pub async fn apply_homeserver_membership(
        &self,
        room: &Room,
        user: UserId,
        (to, at): (Membership, DateTime<Utc>),
        position: StreamPosition,
    ) -> Result<(), StoreError> {
        let mut condition = "(attribute_not_exists(heard) OR heard < :heard)".to_owned();
        let mut update = if to == Membership::Join {
            // If the user joined through our API, `entry` and `since` keep the id and the time of the join
            // request.
            let more = ", heard = :heard, entry = if_not_exists(entry, :elsewhere), \
                        since = if_not_exists(since, :at), seen = :day";
            self.membership_update(room, user, (to, at), more)
                .expression_attribute_values(":at", number(at.timestamp_millis()))
                .expression_attribute_values(":elsewhere", text(ELSEWHERE))
                .expression_attribute_values(":day", number(Day::of(at).0))
        } else {
            self.membership_update(room, user, (to, at), ", heard = :heard")
        };
        if to == Membership::Invite {
            condition.push_str(" AND (attribute_not_exists(membership) OR membership <> :join)");
            update = update.expression_attribute_values(":join", text(Membership::Join.as_str()));
        }
        let applied = update
            .condition_expression(condition)
            .expression_attribute_values(":heard", number(position.0))
            .call()
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
            .call()
            .await;
        condition_held("UpdateItem", touched).map(|_| ())
    }

    /// Reads a page of the joined members who have a prediction for the room's match. Reads the shards in `used`.
    pub async fn predictors_page(
        &self,
        room: &Room,
        after: Option<UserId>,
        limit: usize,
        used: &[(u8, usize)],
    ) -> Result<Page<Member>, StoreError> {
        let query = PageQuery { shards: room.shards, used, after, limit, is_filtered: true };
        pages::page(
            query,
            |shard, after, limit| self.members_page(room, shard, after, limit, Reads::Eventual),
            |member| member.user_id,
            |member| member.has_joined() && member.pick.is_some(),
        )
        .await
    }

    /// Ends a membership or an invitation in a room that is removed. Returns false if it has ended already.
    pub async fn end_membership(
        &self,
        room: &Room,
        user: UserId,
        now: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        let ended = self
            .membership_update(room, user, (Membership::Leave, now), "")
            .condition_expression("attribute_exists(pk) AND membership <> :to")
            .call()
            .await;
        condition_held("UpdateItem", ended)
    }

    /// Reads up to `limit` memberships of a room's shard, after the user `after`: joined, invited and left. Also returns
    /// whether they are the last ones.
    pub async fn members_page(
        &self,
        room: &Room,
        shard: u8,
        after: Option<UserId>,
        limit: usize,
        reads: Reads,
    ) -> Result<(Vec<Member>, bool), StoreError> {
        let partition = keys::room_shard(&room.room_id, shard);
        let after = after.map(keys::member_of);
        let (items, has_ended) =
            self.partition_page(&self.tables.rooms, &partition, keys::MEMBER, after, limit, reads).await?;
        Ok((items.into_iter().map(read_member).collect::<Result<_, _>>()?, has_ended))
    }

    /// Reads up to `limit` joined members with the best statistics, best first. Reads the shards in `used`.
    pub async fn standings(
        &self,
        room: &Room,
        limit: usize,
        used: &[(u8, usize)],
    ) -> Result<Vec<Standing>, StoreError> {
        let shards = used.iter().map(|(shard, _)| async move {
            let best = self
                .client
                .query()
                .table_name(&self.tables.rooms)
                .index_name(BY_STANDING)
                .key_condition_expression("pk = :shard")
                .expression_attribute_values(":shard", text(keys::room_shard(&room.room_id, *shard)))
                .scan_index_forward(false)
                .limit(i32::try_from(limit).unwrap_or(i32::MAX))
                .call()
                .await
                .map_err(|error| StoreError::from_sdk("Query", &error))?;
            best.items.unwrap_or_default().into_iter().map(from_item).collect::<Result<Vec<Standing>, _>>()
        });
        let mut best: Vec<Standing> = try_join_all(shards).await?.into_iter().flatten().collect();
        best.sort_by_key(|member| (-member.standing, member.user_id));
        best.truncate(limit);
        Ok(best)
    }

    /// Reads up to `most` memberships of a user: joined, invited and left, sorted by room id. Eventually consistent.
    pub async fn memberships(&self, user: UserId, most: usize) -> Result<Vec<UserMembership>, StoreError> {
        let query = self.memberships_query(user, "user_id = :user");
        let (mut items, mut memberships) = (query.into_paginator().items().send(), Vec::new());
        while memberships.len() < most
            && let Some(item) = items.next().await
        {
            memberships.push(from_item(item.map_err(|error| StoreError::from_sdk("Query", &error))?)?);
        }
        Ok(memberships)
    }

    /// Returns how many rooms a user has joined, at most `limit`. Eventually consistent.
    pub async fn joined_rooms(&self, user: UserId, limit: usize) -> Result<usize, StoreError> {
        Ok(self.memberships_of(user, Membership::Join, limit).await?.len())
    }

    /// Reads the open invitations of a user to private rooms, at most `limit`: the user does not see those to public rooms, and
    /// can join these rooms anyway. Eventually consistent.
    pub async fn open_invitations(
        &self,
        user: UserId,
        limit: usize,
    ) -> Result<Vec<OpenInvitation>, StoreError> {
        let items = self.memberships_of(user, Membership::Invite, limit).await?;
        items.into_iter().map(from_item).collect()
    }

    /// Reads up to `limit` memberships of this kind. Leaves out invitations to public rooms.
    async fn memberships_of(
        &self,
        user: UserId,
        kind: Membership,
        limit: usize,
    ) -> Result<Vec<Item>, StoreError> {
        let (mut found, mut from) = (Vec::new(), None);
        loop {
            let page = self
                .memberships_query(user, "user_id = :user")
                .filter_expression("membership = :kind AND (membership <> :invite OR is_private = :yes)")
                .expression_attribute_values(":kind", text(kind.as_str()))
                .expression_attribute_values(":invite", text(Membership::Invite.as_str()))
                .expression_attribute_values(":yes", AttributeValue::Bool(true))
                // Few users have more memberships than this.
                .limit(i32::try_from(limit).unwrap_or(i32::MAX))
                .set_exclusive_start_key(from)
                .call()
                .await
                .map_err(|error| StoreError::from_sdk("Query", &error))?;
            found.extend(page.items.unwrap_or_default());
            from = page.last_evaluated_key;
            if found.len() >= limit || from.is_none() {
                found.truncate(limit);
                return Ok(found);
            }
        }
    }

    fn memberships_query(&self, user: UserId, condition: &str) -> QueryFluentBuilder {
        self.client
            .query()
            .table_name(&self.tables.rooms)
            .index_name(BY_USER)
            .key_condition_expression(condition)
            .expression_attribute_values(":user", number(user))
    }

    /// Returns who invited a user to these rooms. Leaves out rooms to which the user was invited in a Matrix client.
    /// Eventually consistent. Accepts up to 100 rooms.
    pub async fn inviters(
        &self,
        rooms: impl IntoIterator<Item = &Room>,
        user: UserId,
    ) -> Result<HashMap<RoomId, UserId>, StoreError> {
        #[derive(Deserialize)]
        struct Invited {
            room_id: RoomId,
            invited_by: Option<UserId>,
        }
        let keys =
            rooms.into_iter().map(|room| keys::member(&room.room_id, room.shards, user).into()).collect();
        let mut inviters = HashMap::new();
        for item in self.batch_get(&self.tables.rooms, keys, Reads::Eventual).await? {
            let Invited { room_id, invited_by } = from_item(item)?;
            inviters.extend(invited_by.map(|inviter| (room_id, inviter)));
        }
        Ok(inviters)
    }

    /// Returns whether the index by user shows a membership. The index lags behind the table.
    pub async fn is_indexed(&self, member: &Member) -> Result<bool, StoreError> {
        let found = self
            .memberships_query(member.user_id, "user_id = :user AND room_id = :room")
            .expression_attribute_values(":room", text(member.room_id.as_str()))
            .call()
            .await
            .map_err(|error| StoreError::from_sdk("Query", &error))?;
        Ok(!found.items().is_empty())
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
            .call()
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
            .call()
            .await;
        condition_held("UpdateItem", copied).map(|_| ())
    }

    /// Copies a joined member's statistics into the membership, unless the membership has a later version of
    /// them.
    pub async fn copy_stats(&self, member: Key, stats: &VersionedStats) -> Result<(), StoreError> {
        let VersionedStats { stats, unranked, version } = stats;
        let (mut set, mut removed) =
            ("SET settled = :settled, correct = :correct, ranked = :version".to_owned(), Vec::new());
        let mut update = self.member_update(member);
        match stats.ranking_key() {
            Some(standing) => {
                set.push_str(", standing = :standing");
                update = update.expression_attribute_values(":standing", number(standing));
            }
            // The user has no settled predictions any more, because results were withdrawn.
            None => removed.push("standing"),
        }
        if *unranked {
            set.push_str(", unranked = :unranked");
            update = update.expression_attribute_values(":unranked", AttributeValue::Bool(true));
        } else {
            removed.push("unranked");
        }
        if !removed.is_empty() {
            set = format!("{set} REMOVE {}", removed.join(", "));
        }
        let copied = update
            .update_expression(set)
            .condition_expression(
                "membership = :join AND (attribute_not_exists(ranked) OR ranked < :version)",
            )
            .expression_attribute_values(":join", text(Membership::Join.as_str()))
            .expression_attribute_values(":settled", number(stats.settled))
            .expression_attribute_values(":correct", number(stats.correct))
            .expression_attribute_values(":version", number(version))
            .call()
            .await;
        condition_held("UpdateItem", copied).map(|_| ())
    }

    fn member_update(&self, member: Key) -> UpdateItemFluentBuilder {
        self.client.update_item().table_name(&self.tables.rooms).set_key(Some(member.into()))
    }
}
