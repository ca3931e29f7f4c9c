//! Profiles: registration, changes, renames and teams.

use std::collections::HashMap;
use std::fmt::Write as _;

use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{
    AttributeValue, Put, ReturnValue, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update,
};
use chrono::serde::{ts_milliseconds, ts_milliseconds_option};
use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::super::client::Call as _;
use super::ages::AGE_REFUSED_AT;
use super::names::NameOwner;
use super::phones::PhoneOwner;
use super::sessions::Session;
use crate::domain::cleanup::Work;
use crate::domain::code::NetworkDigest;
use crate::domain::profile::{BirthDateError, Person, PublicProfile, RenameError};
use crate::domain::recovery::Recovery;
use crate::domain::{Email, MAX_CLOCK_DIFFERENCE, Name, Phone, Token, User, UserId, Username};
use crate::storage::condition::{
    condition_held, item_that_failed_condition, item_that_failed_in_transaction, own_transaction_error,
};
use crate::storage::conflict_retry::Retry;
use crate::storage::error::StoreError;
use crate::storage::item::{Item, from_item, number, text, to_item};
use crate::storage::keys;
use crate::storage::store::{Reads, Store};

#[derive(Debug, Serialize, Deserialize)]
struct ProfileItem {
    id: UserId,
    phone: Phone,
    username: Username,
    #[serde(with = "ts_milliseconds")]
    created_at: DateTime<Utc>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<Name>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    email: Option<Email>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    date_of_birth: Option<NaiveDate>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    primary_team: Option<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    other_teams: Vec<u32>,
    /// When the user first joined a room. From then on the username is locked.
    #[serde(default, with = "ts_milliseconds_option", skip_serializing_if = "Option::is_none")]
    chat_since: Option<DateTime<Utc>>,
    /// The usernames that the user had before. They stay reserved for the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    former_usernames: Vec<Username>,
    #[serde(default, with = "ts_milliseconds_option", skip_serializing_if = "Option::is_none")]
    age_refused_at: Option<DateTime<Utc>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    recovery_phone: Option<Phone>,
    #[serde(default, with = "ts_milliseconds_option", skip_serializing_if = "Option::is_none")]
    recovery_until: Option<DateTime<Utc>>,
}

/// A user's primary team, and when they chose it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChosenTeam {
    pub team: u32,
    pub at: DateTime<Utc>,
}

/// Reads the primary team from a profile item. Returns `None` if the user has not chosen a team, and for the
/// oldest profiles, which lack the time of the choice.
pub(in crate::storage) fn read_team(item: Item) -> Result<Option<ChosenTeam>, StoreError> {
    #[derive(Deserialize)]
    struct Choice {
        primary_team: Option<u32>,
        #[serde(default, with = "ts_milliseconds_option")]
        primary_team_at: Option<DateTime<Utc>>,
    }
    let Choice { primary_team, primary_team_at } = from_item(item)?;
    Ok(primary_team.zip(primary_team_at).map(|(team, at)| ChosenTeam { team, at }))
}

impl From<ProfileItem> for User {
    fn from(item: ProfileItem) -> Self {
        Self {
            id: item.id,
            phone: item.phone,
            username: item.username,
            created_at: item.created_at,
            name: item.name,
            email: item.email,
            date_of_birth: item.date_of_birth,
            primary_team: item.primary_team,
            other_teams: item.other_teams,
            username_locked_at: item.chat_since,
            former_usernames: item.former_usernames,
            age_refused_at: item.age_refused_at,
            recovery: item
                .recovery_phone
                .zip(item.recovery_until)
                .map(|(phone, until)| Recovery { phone, until }),
        }
    }
}

/// A user to register at their first login.
#[derive(Debug)]
pub struct NewUser<'a> {
    pub id: UserId,
    pub phone: &'a Phone,
    pub username: &'a Username,
    pub token: &'a Token,
    pub session: &'a Session,
    /// The network of the login.
    pub network: Option<&'a NetworkDigest>,
    pub date_of_birth: Option<NaiveDate>,
}

#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// A concurrent login with the same phone registered a user first. Holds that user.
    #[error("the phone has an owner already")]
    PhoneOwned(PhoneOwner),
    #[error("the username is taken")]
    NameTaken,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Changes of a profile. `None` leaves a field as it is.
#[derive(Debug, Default)]
pub struct Changes {
    pub name: Option<Name>,
    pub email: Option<Email>,
    pub date_of_birth: Option<NaiveDate>,
    /// Whether a user whose age was refused cannot change the date of birth.
    pub remembers_refusals: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    #[error(transparent)]
    BirthDate(#[from] BirthDateError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The attribute of a profile with the time of the last edit of its details.
const EDITED_AT: &str = "edited_at";

/// The result of a write to a profile. Each variant holds the stored item.
enum Written {
    Now(Item),
    /// A stored edit is not earlier. The item is empty if there is no such user.
    NotAfter(Item),
}

/// The result of an edit of a profile.
enum Edited {
    /// Holds the stored item.
    Now(Item),
    NoUser,
    /// The profile has the attribute that forbids the edit.
    Forbidden,
}

/// How many times a user can change their username. The number is limited, because each old username stays
/// reserved.
const MAX_RENAMES: u32 = 10;

/// The condition for taking the item of a username.
const UNLESS_OF_ANOTHER_USER: &str = "attribute_not_exists(pk) OR user_id = :user OR held_by = :user";

#[derive(Debug, thiserror::Error)]
pub enum RenameFailed {
    #[error(transparent)]
    Rejected(#[from] RenameError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Changes {
    /// Returns the attributes to set, with their values.
    fn attributes(&self) -> Vec<(&'static str, AttributeValue)> {
        let fields = [
            ("name", self.name.as_ref().map(|name| text(name.as_str()))),
            ("email", self.email.as_ref().map(|email| text(email.as_str()))),
            ("date_of_birth", self.date_of_birth.map(|date| text(date.to_string()))),
        ];
        fields.into_iter().filter_map(|(field, value)| Some((field, value?))).collect()
    }
}

impl Store {
    /// Reads a user.
    pub async fn user(&self, id: UserId, reads: Reads) -> Result<Option<User>, StoreError> {
        let item: Option<ProfileItem> = self.get(&self.tables.users, keys::profile(id), reads).await?;
        Ok(item.map(User::from))
    }

    /// Reads a user. Finds new users, too, and never returns a former username. A locked username cannot change, so an
    /// eventually consistent read is enough for it. All other users are read again, strongly consistent.
    pub async fn find_user(&self, id: UserId) -> Result<Option<User>, StoreError> {
        match self.user(id, Reads::Eventual).await? {
            Some(user) if user.username_locked_at.is_some() => Ok(Some(user)),
            _ => self.user(id, Reads::Consistent).await,
        }
    }

    /// Reads the public profiles of up to 100 users. Leaves out unknown ids and users who have deleted their accounts. Finds
    /// new users, too: users whom an eventually consistent read does not find are read again, strongly consistent.
    pub async fn people(&self, users: &[UserId]) -> Result<HashMap<UserId, Person>, StoreError> {
        self.profiles_as(users, |person: &Person| person.id).await
    }

    /// Like [`Store::people`], with everything that a public profile has.
    pub async fn public_profiles(
        &self,
        users: &[UserId],
    ) -> Result<HashMap<UserId, PublicProfile>, StoreError> {
        self.profiles_as(users, |profile: &PublicProfile| profile.id).await
    }

    async fn profiles_as<T: DeserializeOwned>(
        &self,
        users: &[UserId],
        id: fn(&T) -> UserId,
    ) -> Result<HashMap<UserId, T>, StoreError> {
        let mut people = HashMap::new();
        for reads in [Reads::Eventual, Reads::Consistent] {
            let missing = users.iter().filter(|user| !people.contains_key(*user));
            let keys: Vec<Item> = missing.map(|user| keys::profile(*user).into()).collect();
            for item in self.batch_get(&self.tables.users, keys, reads).await? {
                let person: T = from_item(item)?;
                people.insert(id(&person), person);
            }
        }
        Ok(people)
    }

    /// Allocates the next user id. An id that the caller does not use leaves a harmless gap.
    pub async fn draw_user_id(&self) -> Result<UserId, StoreError> {
        let drawn = self
            .client
            .update_item()
            .table_name(&self.tables.users)
            .set_key(Some(keys::user_counter().into()))
            .update_expression("ADD last_id :one")
            .expression_attribute_values(":one", number(1))
            .return_values(ReturnValue::UpdatedNew)
            .call()
            .await
            .map_err(|error| StoreError::from_sdk("UpdateItem", &error))?;
        drawn
            .attributes()
            .and_then(|attributes| attributes.get("last_id")?.as_n().ok()?.parse().ok())
            .ok_or(StoreError::Unreadable("the user counter"))
    }

    /// Returns the highest user id that was drawn. Ids begin with 1. Some belong to no user, because a registration that
    /// fails leaves a gap.
    pub async fn last_user_id(&self) -> Result<UserId, StoreError> {
        #[derive(Deserialize)]
        struct Counter {
            last_id: UserId,
        }
        let counter: Option<Counter> =
            self.get(&self.tables.users, keys::user_counter(), Reads::Consistent).await?;
        Ok(counter.map_or(UserId(0), |counter| counter.last_id))
    }

    /// Creates a user with their phone, username and first session, in one transaction.
    pub async fn register(&self, new: &NewUser<'_>, now: DateTime<Utc>) -> Result<User, RegisterError> {
        let profile = ProfileItem {
            id: new.id,
            phone: new.phone.clone(),
            username: new.username.clone(),
            created_at: now,
            name: None,
            email: None,
            date_of_birth: new.date_of_birth,
            primary_team: None,
            other_teams: Vec::new(),
            chat_since: None,
            former_usernames: Vec::new(),
            age_refused_at: None,
            recovery_phone: None,
            recovery_until: None,
        };
        let profile_item = to_item(keys::profile(new.id), &profile)?;
        let user = User::from(profile);
        let networks = new.network.into_iter().cloned().collect();
        let mut items = vec![
            to_item(keys::phone_owner(new.phone), &PhoneOwner { networks, ..PhoneOwner::from(&user) })?,
            to_item(
                keys::username_owner(new.username),
                &NameOwner { user_id: Some(new.id), ..NameOwner::default() },
            )?,
            profile_item,
            to_item(keys::session(new.id, &new.token.digest()), new.session)?,
        ];
        if let Some(lookalikes) = keys::username_lookalikes(new.username) {
            items.push(to_item(lookalikes, &NameOwner { held_by: Some(new.id), ..NameOwner::default() })?);
        }
        let mut writes = Vec::with_capacity(items.len());
        for item in items {
            let put = Put::builder()
                .table_name(&self.tables.users)
                .set_item(Some(item))
                .condition_expression("attribute_not_exists(pk)")
                .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
                .build()
                .map_err(StoreError::from)?;
            writes.push(TransactWriteItem::builder().put(put).build());
        }
        writes.extend(self.search_writes(new.id, new.username, new.username)?);
        let created = self.client.transact_write_items().set_transact_items(Some(writes)).call().await;
        let Err(error) = created else { return Ok(user) };
        if let Some(owner) = item_that_failed_in_transaction(&error, 0) {
            return Err(RegisterError::PhoneOwned(from_item(owner)?));
        }
        if [1, 4].into_iter().any(|item| item_that_failed_in_transaction(&error, item).is_some()) {
            return Err(RegisterError::NameTaken);
        }
        Err(StoreError::from_sdk("TransactWriteItems", &error).into())
    }

    /// Changes a profile and returns the changed user. Returns `None` if there is no such user.
    pub async fn update_user(
        &self,
        id: UserId,
        changes: &Changes,
        now: DateTime<Utc>,
    ) -> Result<Option<User>, UpdateError> {
        let attributes = changes.attributes();
        if attributes.is_empty() {
            return Ok(self.user(id, Reads::Consistent).await?);
        }
        let unless = changes.date_of_birth.filter(|_| changes.remembers_refusals).map(|_| AGE_REFUSED_AT);
        let profile = match self.edit_profile(id, EDITED_AT, &attributes, unless, now).await? {
            Edited::Now(profile) => profile,
            Edited::NoUser => return Ok(None),
            Edited::Forbidden => return Err(BirthDateError::RefusedBefore.into()),
        };
        Ok(Some(from_item::<ProfileItem>(profile)?.into()))
    }

    /// Sets attributes of a profile, unless the profile has the attribute `unless`.
    ///
    /// The attribute `edited_at` holds the time of the last edit. Each stored edit has a later time than the edit before
    /// it, so a delayed write cannot overwrite a later edit. The clocks of two environments differ, so the stored time can
    /// be up to a second later than `now`. Then the edit gets a time one millisecond after the stored one. If the stored
    /// time is even later, another edit was stored while this request was running. Then this edit fails, and the client
    /// can repeat it.
    async fn edit_profile(
        &self,
        id: UserId,
        edited_at: &str,
        attributes: &[(&str, AttributeValue)],
        unless: Option<&str>,
        now: DateTime<Utc>,
    ) -> Result<Edited, StoreError> {
        let mut retry = Retry::immediate("profile", 10).of_own_item();
        let mut at = now;
        loop {
            let profile = match self.write_profile(id, edited_at, attributes, unless, at).await? {
                Written::Now(profile) => return Ok(Edited::Now(profile)),
                Written::NotAfter(profile) if profile.is_empty() => return Ok(Edited::NoUser),
                Written::NotAfter(profile) if unless.is_some_and(|name| profile.contains_key(name)) => {
                    return Ok(Edited::Forbidden);
                }
                Written::NotAfter(profile) => profile,
            };
            let stored = profile.get(edited_at).and_then(|at| at.as_n().ok()?.parse().ok());
            let stored = stored.and_then(DateTime::from_timestamp_millis);
            let stored = stored.ok_or(StoreError::Unreadable("the time of an edit"))?;
            if stored - now > MAX_CLOCK_DIFFERENCE {
                return Err(StoreError::Overtaken { what: "profile" });
            }
            at = stored + TimeDelta::milliseconds(1);
            retry.again().await?;
        }
    }

    /// Sets attributes of a profile, unless a later edit is stored, or the profile has the attribute `unless`.
    async fn write_profile(
        &self,
        id: UserId,
        edited_at: &str,
        attributes: &[(&str, AttributeValue)],
        unless: Option<&str>,
        at: DateTime<Utc>,
    ) -> Result<Written, StoreError> {
        let mut set = "SET #at = :at".to_owned();
        let mut condition = "attribute_exists(pk) AND (attribute_not_exists(#at) OR #at < :at)".to_owned();
        let mut update = self
            .profile_update(id)
            .expression_attribute_names("#at", edited_at)
            .expression_attribute_values(":at", number(at.timestamp_millis()))
            .return_values(ReturnValue::AllNew)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        for (number, (name, value)) in attributes.iter().enumerate() {
            let _ = write!(set, ", #a{number} = :a{number}");
            update = update
                .expression_attribute_names(format!("#a{number}"), *name)
                .expression_attribute_values(format!(":a{number}"), value.clone());
        }
        if let Some(name) = unless {
            condition.push_str(" AND attribute_not_exists(#unless)");
            update = update.expression_attribute_names("#unless", name);
        }
        match update.update_expression(set).condition_expression(condition).call().await {
            Ok(updated) => Ok(Written::Now(updated.attributes.unwrap_or_default())),
            Err(error) => match item_that_failed_condition(&error) {
                Some(profile) => Ok(Written::NotAfter(profile)),
                None => Err(StoreError::from_sdk("UpdateItem", &error)),
            },
        }
    }

    /// Sets the user's primary team.
    ///
    /// Each stored choice has a later time than the choice before it. So a delayed write cannot overwrite a later
    /// choice, and the newest copy of the team is the one with the latest time.
    ///
    /// The clocks of two environments differ, so a new choice can have a time that is up to a second too early. Its
    /// write fails. The choice then gets a time one millisecond after the stored one and is written again.
    ///
    /// If this fails too, or if the stored time is more than a second later, another choice of the same user was stored
    /// while this request was running. This choice then counts as the earlier one and changes nothing.
    ///
    /// Returns the stored team.
    pub async fn save_primary_team(
        &self,
        id: UserId,
        team: u32,
        now: DateTime<Utc>,
    ) -> Result<u32, StoreError> {
        let mut stored = self.write_primary_team(id, ChosenTeam { team, at: now }).await?;
        if let Some(later) = stored
            && later.team != team
            && later.at - now <= MAX_CLOCK_DIFFERENCE
        {
            let at = later.at + TimeDelta::milliseconds(1);
            stored = self.write_primary_team(id, ChosenTeam { team, at }).await?;
        }
        Ok(stored.map_or(team, |later| later.team))
    }

    /// Writes a choice. Returns the stored choice if it is not earlier.
    async fn write_primary_team(
        &self,
        id: UserId,
        wanted: ChosenTeam,
    ) -> Result<Option<ChosenTeam>, StoreError> {
        let saved = self
            .profile_update(id)
            .update_expression("SET primary_team = :team, primary_team_at = :at")
            .condition_expression(
                "attribute_exists(pk) AND (attribute_not_exists(primary_team_at) OR primary_team_at < :at)",
            )
            .expression_attribute_values(":team", number(wanted.team))
            .expression_attribute_values(":at", number(wanted.at.timestamp_millis()))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .call()
            .await;
        let Err(error) = saved else { return Ok(None) };
        match item_that_failed_condition(&error) {
            Some(profile) if !profile.is_empty() => read_team(profile),
            _ => Err(StoreError::from_sdk("UpdateItem", &error)),
        }
    }

    /// Replaces the user's teams other than the primary team.
    pub async fn save_other_teams(
        &self,
        id: UserId,
        teams: &[u32],
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let teams = AttributeValue::L(teams.iter().map(number).collect());
        self.edit_profile(id, "other_teams_at", &[("other_teams", teams)], None, now).await.map(|_| ())
    }

    fn profile_update(&self, id: UserId) -> UpdateItemFluentBuilder {
        self.client.update_item().table_name(&self.tables.users).set_key(Some(keys::profile(id).into()))
    }

    /// Reads the user's primary team, strongly consistent.
    pub async fn chosen_team(&self, id: UserId) -> Result<Option<ChosenTeam>, StoreError> {
        let profile: Option<Item> =
            self.get_item(&self.tables.users, keys::profile(id), Reads::Consistent).await?;
        Ok(profile.map(read_team).transpose()?.flatten())
    }

    /// Locks a username before it appears in a room. Fails with [`StoreError::Overtaken`] if the username
    /// changed since it was read.
    pub async fn lock_username(&self, user: &User, now: DateTime<Utc>) -> Result<(), StoreError> {
        let locked = self
            .profile_update(user.id)
            .update_expression("SET chat_since = if_not_exists(chat_since, :now)")
            .condition_expression("username = :name")
            .expression_attribute_values(":now", number(now.timestamp_millis()))
            .expression_attribute_values(":name", text(user.username.as_str()))
            .call()
            .await;
        if condition_held("UpdateItem", locked)? {
            Ok(())
        } else {
            Err(StoreError::Overtaken { what: "username" })
        }
    }

    /// Renames a user.
    ///
    /// The old name stays reserved for the user. A chat account belongs to a username, so another owner of
    /// the old name would get the user's chat account.
    pub async fn rename_user(
        &self,
        user: &User,
        to: &Username,
        now: DateTime<Utc>,
    ) -> Result<(), RenameFailed> {
        let mut writes = self.rename_writes(user, to)?;
        // Chat logout works by username. After the rename, a logout would no longer reach the devices of the old username. So
        // `erasure` logs them out, now and after all requests that began before the rename.
        let logout = Work::LogOutDevices { username: user.username.clone() };
        writes.push(self.cleanup_write(&logout, now)?);
        let written = self.client.transact_write_items().set_transact_items(Some(writes)).call().await;
        let Err(error) = written else { return Ok(()) };
        if [0, 3].into_iter().any(|item| item_that_failed_in_transaction(&error, item).is_some()) {
            return Err(RenameError::Taken.into());
        }
        if let Some(profile) = item_that_failed_in_transaction(&error, 1) {
            let current = profile.get("username").and_then(|name| name.as_s().ok());
            if current.is_some_and(|name| name == to.as_str()) {
                return Ok(());
            }
            let renames = profile.get("renames").and_then(|count| count.as_n().ok()?.parse().ok());
            if profile.contains_key("chat_since") || renames.is_some_and(|count: u32| count >= MAX_RENAMES) {
                return Err(RenameError::Locked.into());
            }
        }
        // Another request of the user has changed the profile or the phone.
        if [1, 2].into_iter().any(|item| item_that_failed_in_transaction(&error, item).is_some()) {
            return Err(StoreError::Overtaken { what: "username" }.into());
        }
        Err(own_transaction_error("username", &error).into())
    }

    fn rename_writes(&self, user: &User, to: &Username) -> Result<Vec<TransactWriteItem>, StoreError> {
        let users = &self.tables.users;
        let own = Put::builder()
            .table_name(users)
            .set_item(Some(to_item(
                keys::username_owner(to),
                &NameOwner { user_id: Some(user.id), ..NameOwner::default() },
            )?))
            .condition_expression(UNLESS_OF_ANOTHER_USER)
            .expression_attribute_values(":user", number(user.id))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .build()?;
        let profile = Update::builder()
            .table_name(users)
            .set_key(Some(keys::profile(user.id).into()))
            .update_expression(
                "SET username = :new, former_usernames = list_append(if_not_exists(former_usernames, :none), :former) \
                 ADD renames :one",
            )
            // `chat_since` is set when the user first joins a room. From then on, the username is their
            // identity in chat and cannot change.
            .condition_expression(
                "username = :old AND phone = :phone AND attribute_not_exists(chat_since) \
                 AND (attribute_not_exists(renames) OR renames < :max)",
            )
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .expression_attribute_values(":one", number(1))
            .expression_attribute_values(":max", number(MAX_RENAMES))
            .expression_attribute_values(":old", text(user.username.as_str()))
            .expression_attribute_values(":new", text(to.as_str()))
            .expression_attribute_values(":none", AttributeValue::L(Vec::new()))
            .expression_attribute_values(":former", AttributeValue::L(vec![text(user.username.as_str())]))
            .expression_attribute_values(":phone", text(user.phone.as_str()))
            .build()?;
        let phone = Update::builder()
            .table_name(users)
            .set_key(Some(keys::phone_owner(&user.phone).into()))
            .update_expression("SET username = :new")
            .condition_expression("user_id = :user")
            .expression_attribute_values(":new", text(to.as_str()))
            .expression_attribute_values(":user", number(user.id))
            .build()?;
        let mut writes = vec![
            TransactWriteItem::builder().put(own).build(),
            TransactWriteItem::builder().update(profile).build(),
            TransactWriteItem::builder().update(phone).build(),
        ];
        if let Some(lookalikes) = keys::username_lookalikes(to) {
            // An update keeps `user_id`, if the user had that username before.
            let hold = Update::builder()
                .table_name(users)
                .set_key(Some(lookalikes.into()))
                .update_expression("SET held_by = :user")
                .condition_expression(UNLESS_OF_ANOTHER_USER)
                .expression_attribute_values(":user", number(user.id))
                .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
                .build()?;
            writes.push(TransactWriteItem::builder().update(hold).build());
        }
        writes.extend(self.search_writes(user.id, &user.username, to)?);
        Ok(writes)
    }
}
