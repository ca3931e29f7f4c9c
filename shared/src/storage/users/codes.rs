//! Login codes (one per phone), attempts to enter a code, and the rate limits per phone and per network.

use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure};
use chrono::serde::ts_milliseconds;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::super::client::Call as _;
use crate::domain::code::{self, CodeDigest, NetworkDigest, Requester, VerificationError, WrongCode};
use crate::domain::limit::{self, Limit, Limited};
use crate::domain::{Address, CodeId, MAX_CLOCK_DIFFERENCE, Phone, Purpose, UserId};
use crate::storage::condition::{condition_held, item_that_failed_condition};
use crate::storage::conflict_retry::Retry;
use crate::storage::error::StoreError;
use crate::storage::item::{Key, from_item, number, text};
use crate::storage::keys;
use crate::storage::rate_limit::{self, Shift};
use crate::storage::store::Store;

/// Whose attempts to enter a code are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempts {
    /// Those of the network that requested the code.
    Requester,
    /// Those of all other networks together.
    Others,
}

impl Attempts {
    fn counter(self) -> &'static str {
        match self {
            Self::Requester => "attempts",
            Self::Others => "other_attempts",
        }
    }
}

/// The attribute with the code in the items of users.
pub(super) const USER_CODE: &str = "verify";

/// A code that belongs to a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserCode {
    Verification(UserId),
    Deletion(UserId),
}

impl UserCode {
    pub(super) fn key(self) -> Key {
        match self {
            Self::Verification(user) => keys::verification(user),
            Self::Deletion(user) => keys::deletion(user),
        }
    }
}

/// A new code. It is stored first and sent afterwards.
#[derive(Debug)]
pub struct Issue<'a> {
    pub phone: &'a Phone,
    pub id: &'a CodeId,
    pub digest: &'a CodeDigest,
    /// The network that requests the code. `None` for loopback.
    pub requester: Option<&'a Requester>,
    /// Whether the phone is a test phone, to which no message is sent.
    pub is_test: bool,
}

/// A register of the latest requests, and the limits that a new request is checked against.
#[derive(Debug, Clone, Copy)]
pub struct Admission<'a> {
    pub limits: &'a [Limit],
    /// The number of requests that the register holds. Larger than the limits need if other requests have higher limits.
    pub depth: usize,
}

impl<'a> Admission<'a> {
    /// Returns an admission to a register for these limits alone.
    #[must_use]
    pub fn new(limits: &'a [Limit]) -> Self {
        Self { limits, depth: limit::depth(limits) }
    }
}

/// One attempt to enter a code.
#[derive(Debug)]
pub struct Attempt<'a> {
    pub phone: &'a Phone,
    /// The code, if it belongs to a user. `None` for a login.
    pub of_user: Option<UserCode>,
    /// The network from which a login code is entered. `None` for loopback, and for the code of a user.
    pub network: Option<&'a NetworkDigest>,
    /// A text that identifies this attempt, so that a retried write is recognised.
    pub nonce: &'a str,
}

impl Attempt<'_> {
    fn key(&self) -> Key {
        self.of_user.map_or_else(|| keys::phone_codes(self.phone), UserCode::key)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    #[error(transparent)]
    Limited(#[from] Limited),
    #[error(transparent)]
    Verification(#[from] VerificationError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Debug, thiserror::Error)]
pub enum ReserveError {
    #[error(transparent)]
    Wrong(#[from] WrongCode),
    #[error(transparent)]
    Verification(#[from] VerificationError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A code as stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StoredCode {
    pub issue: CodeId,
    pub digest: String,
    attempts: u32,
    /// The attempts from networks that did not request the code.
    #[serde(default)]
    other_attempts: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    network: Option<NetworkDigest>,
    /// The network for which the message is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_for: Option<NetworkDigest>,
    /// The nonce of the latest attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tried_by: Option<String>,
    #[serde(with = "ts_milliseconds")]
    valid_until: DateTime<Utc>,
    /// Not read. The previous version of the functions, which runs beside this one during a deployment, needs it.
    #[serde(with = "ts_milliseconds", skip_deserializing)]
    pending_until: DateTime<Utc>,
    /// The nonce of the request that spent the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) used_by: Option<String>,
    /// Whether the code is the fixed one of a test phone.
    #[serde(default, rename = "test", skip_serializing_if = "std::ops::Not::not")]
    pub is_test: bool,
    /// Whether the code was read from the item of its network.
    #[serde(skip)]
    is_own: bool,
}

impl StoredCode {
    /// Returns a code that nobody has tried to enter. `network` is the one whose attempts are counted apart.
    pub(super) fn new(issue: &Issue<'_>, network: Option<&NetworkDigest>, now: DateTime<Utc>) -> Self {
        Self {
            issue: issue.id.clone(),
            digest: issue.digest.as_str().to_owned(),
            attempts: 0,
            other_attempts: 0,
            network: network.cloned(),
            counted_for: issue.requester.map(|requester| requester.counted_for.clone()),
            tried_by: None,
            valid_until: now + code::VALID_FOR,
            pending_until: now + code::PENDING_FOR,
            used_by: None,
            is_test: issue.is_test,
            is_own: false,
        }
    }

    /// Returns the key of the item with this login code.
    pub(super) fn key(&self, phone: &Phone) -> Key {
        match &self.network {
            Some(network) if self.is_own => keys::own_code(phone, network),
            _ => keys::phone_codes(phone),
        }
    }

    /// Returns whether attempts from this network count as those of the network that requested the code.
    fn attempts_of(&self, network: Option<&NetworkDigest>) -> Attempts {
        if self.network.is_none() || self.network.as_ref() == network {
            Attempts::Requester
        } else {
            Attempts::Others
        }
    }
}

/// An item with a code: a phone's `codes` item, or a user's `verification` or `deletion` item.
#[derive(Debug, Deserialize)]
struct CodeItem {
    login: Option<StoredCode>,
    verify: Option<StoredCode>,
    /// The phone that a user verifies, or the phone of the account.
    phone: Option<Phone>,
}

impl CodeItem {
    fn of(self, purpose: Purpose) -> Option<StoredCode> {
        match purpose {
            Purpose::Login => self.login,
            Purpose::Verify | Purpose::Delete => self.verify,
        }
    }
}

fn login_code(issue: &Issue<'_>, now: DateTime<Utc>) -> Result<AttributeValue, StoreError> {
    let network = issue.requester.map(|requester| &requester.network);
    let code = StoredCode::new(issue, network, now);
    serde_dynamo::to_attribute_value(code).map_err(|_| StoreError::Unreadable("a code"))
}

/// A condition that holds if no newer code replaced the code since it was read, and no other request spent it.
/// It also holds if this request already spent the code, so that the SDK's retry after a lost response succeeds.
pub(super) const SPENDABLE: &str =
    "#code.issue = :issue AND (attribute_not_exists(#code.used_by) OR #code.used_by = :nonce)";

impl Store {
    /// Stores a login code in place of the phone's previous one, if the phone's rate limits allow another message.
    pub async fn issue_code(
        &self,
        issue: &Issue<'_>,
        Admission { limits, depth }: Admission<'_>,
        now: DateTime<Utc>,
    ) -> Result<(), IssueError> {
        let Shift { set, mut condition, values } = rate_limit::admit(limits, depth, issue.id, now);
        // A write that reaches the store late must not replace the code of a newer request. The clocks of two requests
        // differ by up to a second.
        condition.push_str(" AND (attribute_not_exists(#code) OR #code.issue <= :latest)");
        let code = login_code(issue, now)?;
        let issued = self
            .client
            .update_item()
            .table_name(&self.tables.users)
            .set_key(Some(keys::phone_codes(issue.phone).into()))
            .update_expression(format!("SET {set}, #code = :code, expires_at = :end"))
            .condition_expression(condition)
            .set_expression_attribute_values(Some(values))
            .expression_attribute_names("#code", Purpose::Login.as_str())
            .expression_attribute_values(":code", code)
            .expression_attribute_values(":latest", text(limit::outside(-MAX_CLOCK_DIFFERENCE, now)))
            .expression_attribute_values(":end", number((now + limit::longest(limits)).timestamp()))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .call()
            .await;
        let Err(error) = issued else { return Ok(()) };
        admitted_after_all(&error, limits, issue.id, now)
    }

    /// Stores the login code of a test phone for the network that requested it, too. Other networks can replace the code of the
    /// phone and use up its attempts, but not this one.
    pub async fn issue_own_code(&self, issue: &Issue<'_>, now: DateTime<Utc>) -> Result<(), StoreError> {
        let Some(requester) = issue.requester else { return Ok(()) };
        self.client
            .put_item()
            .table_name(&self.tables.users)
            .set_item(Some(keys::own_code(issue.phone, &requester.network).into()))
            .item(Purpose::Login.as_str(), login_code(issue, now)?)
            .item("expires_at", number((now + code::VALID_FOR).timestamp()))
            .call()
            .await
            .map_err(|error| StoreError::from_sdk("PutItem", &error))?;
        Ok(())
    }

    /// Rolls back [`Store::issue_code`] when the message could not be sent: the code becomes void and no longer counts
    /// against the rate limit.
    pub async fn withdraw_code(&self, issue: &Issue<'_>, depth: usize) -> Result<(), StoreError> {
        // The first attempt assumes that no newer code was issued, which is nearly always true. If the
        // assumption is wrong, the condition fails and the error contains the current item.
        let mut position = 0;
        let mut is_current = true;
        let mut retry = Retry::immediate("codes of a phone", rate_limit::release_attempts(depth));
        loop {
            let Shift { set, condition, values } = rate_limit::release(depth, position, issue.id);
            let (set, condition) = if is_current {
                (format!("SET {set} REMOVE #code"), format!("{condition} AND #code.issue = :request"))
            } else {
                let is_other = "(attribute_not_exists(#code) OR #code.issue <> :request)";
                (format!("SET {set}"), format!("{condition} AND {is_other}"))
            };
            let withdrawn = self
                .client
                .update_item()
                .table_name(&self.tables.users)
                .set_key(Some(keys::phone_codes(issue.phone).into()))
                .update_expression(set)
                .condition_expression(condition)
                .set_expression_attribute_values(Some(values))
                .expression_attribute_names("#code", Purpose::Login.as_str())
                .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
                .call()
                .await;
            let Err(error) = withdrawn else { return Ok(()) };
            let Some(item) = item_that_failed_condition(&error) else {
                return Err(StoreError::from_sdk("UpdateItem", &error));
            };
            let Some(found) = rate_limit::request_ids(&item).iter().position(|id| id == issue.id) else {
                // The write removed the id, but its response was lost and the SDK retried the write.
                return Ok(());
            };
            position = found;
            is_current = from_item::<CodeItem>(item)?.login.is_some_and(|code| code.issue == *issue.id);
            retry.again().await?;
        }
    }

    /// Uses up one attempt to enter a code and returns the stored code for comparison. Does nothing and returns `None` if
    /// there is no login code, or if another network requested it.
    ///
    /// The attempt is counted before the comparison, so that concurrent guesses cannot share one attempt.
    pub async fn reserve_attempt(
        &self,
        attempt: &Attempt<'_>,
        now: DateTime<Utc>,
    ) -> Result<Option<StoredCode>, ReserveError> {
        self.reserve(attempt, Attempts::Requester, attempt.key(), now).await
    }

    /// Uses up one attempt to enter the login code of a test phone that the attempt's network requested.
    pub async fn reserve_own_attempt(
        &self,
        attempt: &Attempt<'_>,
        now: DateTime<Utc>,
    ) -> Result<StoredCode, ReserveError> {
        let network = attempt.network.ok_or(WrongCode)?;
        let key = keys::own_code(attempt.phone, network);
        let code = self.reserve(attempt, Attempts::Requester, key, now).await?.ok_or(WrongCode)?;
        Ok(StoredCode { is_own: true, ..code })
    }

    /// Uses up one of the attempts that all networks share which did not request the code.
    pub async fn reserve_other_attempt(
        &self,
        attempt: &Attempt<'_>,
        now: DateTime<Utc>,
    ) -> Result<StoredCode, ReserveError> {
        self.reserve(attempt, Attempts::Others, attempt.key(), now).await?.ok_or_else(|| WrongCode.into())
    }

    async fn reserve(
        &self,
        attempt: &Attempt<'_>,
        attempts: Attempts,
        key: Key,
        now: DateTime<Utc>,
    ) -> Result<Option<StoredCode>, ReserveError> {
        let (purpose, name) = match attempt.of_user {
            None => (Purpose::Login, Purpose::Login.as_str()),
            Some(_) => (Purpose::Verify, USER_CODE),
        };
        let mut condition = "#code.#counter < :max AND #code.valid_until > :now \
                             AND attribute_not_exists(#code.used_by) \
                             AND (attribute_not_exists(#code.tried_by) OR #code.tried_by <> :nonce)"
            .to_owned();
        let mut update = self
            .client
            .update_item()
            .table_name(&self.tables.users)
            .set_key(Some(key.into()))
            .update_expression("SET #code.#counter = #code.#counter + :one, #code.tried_by = :nonce")
            .expression_attribute_names("#code", name)
            .expression_attribute_names("#counter", attempts.counter())
            .expression_attribute_values(":one", number(1))
            .expression_attribute_values(":nonce", text(attempt.nonce))
            .expression_attribute_values(":max", number(code::MAX_ATTEMPTS))
            .expression_attribute_values(":now", number(now.timestamp_millis()))
            .return_values(ReturnValue::AllNew)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        if attempt.of_user.is_some() {
            condition.push_str(" AND phone = :phone");
            update = update.expression_attribute_values(":phone", text(attempt.phone.as_str()));
        }
        let is_requester = attempts == Attempts::Requester;
        if is_requester {
            if let Some(network) = attempt.network {
                // The previous version of the functions stores no network.
                condition.push_str(" AND (attribute_not_exists(#code.network) OR #code.network = :network)");
                update = update.expression_attribute_values(":network", text(network.as_str()));
            } else {
                condition.push_str(" AND attribute_not_exists(#code.network)");
            }
        }
        let error = match update.condition_expression(condition).call().await {
            Ok(updated) => {
                let item = updated.attributes.unwrap_or_default();
                return Ok(from_item::<CodeItem>(item)?.of(purpose));
            }
            Err(error) => error,
        };
        let Some(item) = item_that_failed_condition(&error) else {
            return Err(StoreError::from_sdk("UpdateItem", &error).into());
        };
        let item: CodeItem = from_item(item)?;
        let is_verification = matches!(attempt.of_user, Some(UserCode::Verification(_)));
        if is_verification && item.phone.as_ref() != Some(attempt.phone) {
            return Err(VerificationError::PhoneMismatch.into());
        }
        match item.of(purpose) {
            // The write succeeded, but its response was lost and the SDK retried the write.
            Some(code) if code.tried_by.as_deref() == Some(attempt.nonce) => Ok(Some(code)),
            // A stranger gets the same response for a phone without a code as for a phone with one.
            None if is_requester && attempt.of_user.is_none() => Ok(None),
            Some(code)
                if is_requester && code.network.is_some() && code.network.as_ref() != attempt.network =>
            {
                Ok(None)
            }
            _ => Err(WrongCode.into()),
        }
    }

    /// Spends a login code. Of several concurrent requests with the right code, only one succeeds.
    pub async fn spend_code(
        &self,
        phone: &Phone,
        code: &StoredCode,
        nonce: &str,
    ) -> Result<(), ReserveError> {
        let spent = self
            .client
            .update_item()
            .table_name(&self.tables.users)
            .set_key(Some(code.key(phone).into()))
            .update_expression("SET #code.used_by = :nonce")
            .condition_expression(SPENDABLE)
            .expression_attribute_names("#code", Purpose::Login.as_str())
            .expression_attribute_values(":issue", text(&code.issue))
            .expression_attribute_values(":nonce", text(nonce))
            .call()
            .await;
        if condition_held("UpdateItem", spent)? { Ok(()) } else { Err(WrongCode.into()) }
    }

    /// Rolls back [`Store::spend_code`] when the login fails afterwards.
    pub async fn unspend_code(
        &self,
        phone: &Phone,
        code: &StoredCode,
        nonce: &str,
    ) -> Result<(), StoreError> {
        let restored = self
            .client
            .update_item()
            .table_name(&self.tables.users)
            .set_key(Some(code.key(phone).into()))
            .update_expression("REMOVE #code.used_by")
            .condition_expression("#code.issue = :issue AND #code.used_by = :nonce")
            .expression_attribute_names("#code", Purpose::Login.as_str())
            .expression_attribute_values(":issue", text(&code.issue))
            .expression_attribute_values(":nonce", text(nonce))
            .call()
            .await;
        // The condition fails if this request did not spend the code, or if a newer code replaced it. Then there
        // is nothing to roll back.
        condition_held("UpdateItem", restored).map(|_| ())
    }

    /// Rolls back [`Store::spend_code`] and the attempt, if the right code was entered from this network but the request
    /// lacks a field.
    pub async fn return_attempt(
        &self,
        phone: &Phone,
        code: &StoredCode,
        network: Option<&NetworkDigest>,
        nonce: &str,
    ) -> Result<(), StoreError> {
        let returned = self
            .client
            .update_item()
            .table_name(&self.tables.users)
            .set_key(Some(code.key(phone).into()))
            .update_expression("SET #code.#counter = #code.#counter - :one REMOVE #code.used_by")
            // After a lost response, the retry does not return another attempt.
            .condition_expression(
                "#code.issue = :issue AND #code.used_by = :nonce AND #code.#counter >= :one",
            )
            .expression_attribute_names("#code", Purpose::Login.as_str())
            .expression_attribute_names("#counter", code.attempts_of(network).counter())
            .expression_attribute_values(":issue", text(&code.issue))
            .expression_attribute_values(":nonce", text(nonce))
            .expression_attribute_values(":one", number(1))
            .call()
            .await;
        condition_held("UpdateItem", returned).map(|_| ())
    }

    /// Counts a request against a rate limit of its network, or of the phone that it is about.
    pub async fn admit(
        &self,
        counted: Counted<'_>,
        Admission { limits, depth }: Admission<'_>,
        request_id: &str,
        now: DateTime<Utc>,
    ) -> Result<(), IssueError> {
        let Shift { set, condition, values } = rate_limit::admit(limits, depth, request_id, now);
        let admitted = self
            .client
            .update_item()
            .table_name(&self.tables.users)
            .set_key(Some(counted.key().into()))
            .update_expression(format!("SET {set}, expires_at = :end"))
            .condition_expression(condition)
            .set_expression_attribute_values(Some(values))
            .expression_attribute_values(":end", number((now + limit::longest(limits)).timestamp()))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .call()
            .await;
        let Err(error) = admitted else { return Ok(()) };
        admitted_after_all(&error, limits, request_id, now)
    }

    /// Rolls back [`Store::admit`].
    pub async fn release(
        &self,
        counted: Counted<'_>,
        depth: usize,
        request_id: &str,
    ) -> Result<(), StoreError> {
        let mut position = 0;
        let mut retry = Retry::immediate("a rate limit", rate_limit::release_attempts(depth));
        loop {
            let Shift { set, condition, values } = rate_limit::release(depth, position, request_id);
            let released = self
                .client
                .update_item()
                .table_name(&self.tables.users)
                .set_key(Some(counted.key().into()))
                .update_expression(format!("SET {set}"))
                .condition_expression(condition)
                .set_expression_attribute_values(Some(values))
                .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
                .call()
                .await;
            let Err(error) = released else { return Ok(()) };
            let Some(item) = item_that_failed_condition(&error) else {
                return Err(StoreError::from_sdk("UpdateItem", &error));
            };
            let Some(found) = rate_limit::request_ids(&item).iter().position(|id| id == request_id) else {
                // The write removed the id, but its response was lost and the SDK retried the write.
                return Ok(());
            };
            position = found;
            retry.again().await?;
        }
    }
}

/// Which rate limit counts a request.
#[derive(Debug, Clone, Copy)]
pub enum Counted<'a> {
    /// The codes that a network requests.
    Address(&'a Address),
    /// The wrong codes that a network enters, for codes that another network requested.
    WrongCodes(&'a Address),
    /// The codes that are sent to a phone.
    Phone(&'a Phone),
    /// The rooms that a user joins.
    Rooms(UserId),
}

impl Counted<'_> {
    fn key(self) -> Key {
        match self {
            Self::Address(address) => keys::address_limit(address),
            Self::WrongCodes(address) => keys::wrong_codes(address),
            Self::Phone(phone) => keys::phone_codes(phone),
            Self::Rooms(user) => keys::rooms_limit(user),
        }
    }
}

/// Explains why a request was not admitted. Returns `Ok` if it was: the write succeeded, but its response was lost and the
/// SDK retried the write.
fn admitted_after_all(
    error: &SdkError<UpdateItemError>,
    limits: &[Limit],
    request_id: &str,
    now: DateTime<Utc>,
) -> Result<(), IssueError> {
    let Some(item) = item_that_failed_condition(error) else {
        return Err(StoreError::from_sdk("UpdateItem", error).into());
    };
    let admitted = rate_limit::request_ids(&item);
    if admitted.iter().any(|admitted| admitted == request_id) {
        return Ok(());
    }
    Err(Limited { retry_after: limit::retry_after(&admitted, limits, now) }.into())
}
