//! One-time codes (one per phone and purpose), and the rate limits per phone and per network.

use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure};
use chrono::serde::ts_milliseconds;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::domain::code::{self, CodeDigest, CodeRequest, VerificationError, WrongCode};
use crate::domain::limit::{self, Limit, Limited};
use crate::domain::{Address, CodeId, MAX_CLOCK_DIFFERENCE, Phone, Purpose, UserId};
use crate::storage::condition::{condition_held, item_that_failed_condition};
use crate::storage::conflict_retry::Retry;
use crate::storage::error::StoreError;
use crate::storage::item::{Item, from_item, number, text};
use crate::storage::keys;
use crate::storage::rate_limit::{self, Shift};
use crate::storage::store::Store;

/// A new code. It is stored first and sent afterwards.
#[derive(Debug)]
pub struct Issue<'a> {
    pub phone: &'a Phone,
    pub request: CodeRequest,
    pub id: &'a CodeId,
    pub digest: &'a CodeDigest,
    pub limits: &'a [Limit],
}

/// One attempt to enter a code.
#[derive(Debug)]
pub struct Attempt<'a> {
    pub phone: &'a Phone,
    pub purpose: Purpose,
    /// The user to whom the code must belong. `None` for a login code, which belongs to no user.
    pub user: Option<UserId>,
    /// A text that identifies this attempt, so that a retried write is recognised.
    pub nonce: &'a str,
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
    /// The nonce of the latest attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tried_by: Option<String>,
    #[serde(with = "ts_milliseconds")]
    valid_until: DateTime<Utc>,
    #[serde(with = "ts_milliseconds")]
    pending_until: DateTime<Utc>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user_id: Option<UserId>,
    /// The nonce of the request that spent the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    used_by: Option<String>,
}

/// The codes in a phone's `codes` item.
#[derive(Debug, Deserialize)]
struct Codes {
    login: Option<StoredCode>,
    verify: Option<StoredCode>,
}

impl Codes {
    fn of(self, purpose: Purpose) -> Option<StoredCode> {
        match purpose {
            Purpose::Login => self.login,
            Purpose::Verify => self.verify,
        }
    }
}

/// Returns whether a phone's `codes` item has a code with which a user verifies the phone.
pub(super) fn is_verifying(item: Item, user: UserId) -> Result<bool, StoreError> {
    let code = from_item::<Codes>(item)?.of(Purpose::Verify);
    Ok(code.is_some_and(|code| code.user_id == Some(user)))
}

/// A condition that holds if no newer code replaced the code since it was read, and no other request spent it.
/// It also holds if this request already spent the code, so that the SDK's retry after a lost response succeeds.
pub(super) const SPENDABLE: &str =
    "#code.issue = :issue AND (attribute_not_exists(#code.used_by) OR #code.used_by = :nonce)";

impl Store {
    /// Stores a code in place of the phone's previous code for the same purpose, if the phone's rate limits
    /// allow another message.
    pub async fn issue_code(&self, issue: &Issue<'_>, now: DateTime<Utc>) -> Result<(), IssueError> {
        let Shift { set, mut condition, values } = rate_limit::admit(issue.limits, issue.id, now);
        // A write that reaches the store late must not replace the code of a newer request. The clocks of two requests
        // differ by up to a second.
        condition.push_str(" AND (attribute_not_exists(#code) OR #code.issue <= :latest)");
        let purpose = issue.request.purpose();
        let code = StoredCode {
            issue: issue.id.clone(),
            digest: issue.digest.as_str().to_owned(),
            attempts: 0,
            tried_by: None,
            valid_until: now + code::VALID_FOR,
            pending_until: now + code::PENDING_FOR,
            user_id: issue.request.user(),
            used_by: None,
        };
        let code: AttributeValue =
            serde_dynamo::to_attribute_value(code).map_err(|_| StoreError::Unreadable("a code"))?;
        let longest = issue.limits.iter().map(|limit| limit.window).max().unwrap_or_default();
        let mut update = self
            .client
            .update_item()
            .table_name(&self.tables.users)
            .set_key(Some(keys::phone_codes(issue.phone).into()))
            .set_expression_attribute_values(Some(values))
            .expression_attribute_names("#code", purpose.as_str())
            .expression_attribute_values(":code", code)
            .expression_attribute_values(":latest", text(limit::outside(-MAX_CLOCK_DIFFERENCE, now)))
            .expression_attribute_values(":end", number((now + longest.max(code::PENDING_FOR)).timestamp()))
            .update_expression(format!("SET {set}, #code = :code, expires_at = :end"))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        if let CodeRequest::ResendVerification(user) = issue.request {
            condition.push_str(
                " AND #code.user_id = :user AND #code.pending_until > :now \
                 AND attribute_not_exists(#code.used_by)",
            );
            update = update
                .expression_attribute_values(":user", number(user))
                .expression_attribute_values(":now", number(now.timestamp_millis()));
        }
        let Err(error) = update.condition_expression(condition).send().await else { return Ok(()) };
        let Some(item) = item_that_failed_condition(&error) else {
            return Err(StoreError::from_sdk("UpdateItem", &error).into());
        };
        let admitted = rate_limit::request_ids(&item);
        if admitted.contains(issue.id) {
            // The write succeeded, but its response was lost and the SDK retried the write.
            return Ok(());
        }
        if let CodeRequest::ResendVerification(user) = issue.request {
            let pending = from_item::<Codes>(item)?.of(purpose).is_some_and(|code| {
                code.user_id == Some(user) && code.pending_until > now && code.used_by.is_none()
            });
            if !pending {
                return Err(VerificationError::NothingPending.into());
            }
        }
        Err(Limited { retry_after: limit::retry_after(&admitted, issue.limits, now) }.into())
    }

    /// Rolls back [`Store::issue_code`] when the message could not be sent.
    ///
    /// The code becomes void and no longer counts against the rate limit. If the user requested the code for a
    /// verification that was already pending, the verification stays pending.
    pub async fn withdraw_code(&self, issue: &Issue<'_>) -> Result<(), StoreError> {
        // The first attempt assumes that no newer code was issued, which is nearly always true. If the
        // assumption is wrong, the condition fails and the error contains the current item.
        let mut position = 0;
        let mut is_current = true;
        let mut retry = Retry::immediate("codes of a phone", rate_limit::release_attempts(issue.limits));
        loop {
            let Shift { set, condition, values } = rate_limit::release(issue.limits, position, issue.id);
            let mut update = self
                .client
                .update_item()
                .table_name(&self.tables.users)
                .set_key(Some(keys::phone_codes(issue.phone).into()))
                .set_expression_attribute_values(Some(values))
                .expression_attribute_names("#code", issue.request.purpose().as_str())
                .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
            update = match (is_current, issue.request) {
                (true, CodeRequest::ResendVerification(_)) => update
                    .update_expression(format!("SET {set}, #code.valid_until = :past"))
                    .condition_expression(format!("{condition} AND #code.issue = :request"))
                    .expression_attribute_values(":past", number(0)),
                (true, _) => update
                    .update_expression(format!("SET {set} REMOVE #code"))
                    .condition_expression(format!("{condition} AND #code.issue = :request")),
                (false, _) => update.update_expression(format!("SET {set}")).condition_expression(format!(
                    "{condition} AND (attribute_not_exists(#code) OR #code.issue <> :request)"
                )),
            };
            let Err(error) = update.send().await else { return Ok(()) };
            let Some(item) = item_that_failed_condition(&error) else {
                return Err(StoreError::from_sdk("UpdateItem", &error));
            };
            let Some(found) = rate_limit::request_ids(&item).iter().position(|id| id == issue.id) else {
                // The write removed the id, but its response was lost and the SDK retried the write.
                return Ok(());
            };
            position = found;
            is_current = from_item::<Codes>(item)?
                .of(issue.request.purpose())
                .is_some_and(|code| code.issue == *issue.id);
            retry.again().await?;
        }
    }

    /// Uses up one attempt to enter a code and returns the stored code for comparison.
    ///
    /// The attempt is counted before the comparison, so that concurrent guesses cannot share one attempt.
    pub async fn reserve_attempt(
        &self,
        attempt: &Attempt<'_>,
        now: DateTime<Utc>,
    ) -> Result<StoredCode, ReserveError> {
        let mut condition = "#code.attempts < :max AND #code.valid_until > :now \
                             AND attribute_not_exists(#code.used_by) \
                             AND (attribute_not_exists(#code.tried_by) OR #code.tried_by <> :nonce)"
            .to_owned();
        let mut update = self
            .client
            .update_item()
            .table_name(&self.tables.users)
            .set_key(Some(keys::phone_codes(attempt.phone).into()))
            .update_expression("SET #code.attempts = #code.attempts + :one, #code.tried_by = :nonce")
            .expression_attribute_names("#code", attempt.purpose.as_str())
            .expression_attribute_values(":one", number(1))
            .expression_attribute_values(":nonce", text(attempt.nonce))
            .expression_attribute_values(":max", number(code::MAX_ATTEMPTS))
            .expression_attribute_values(":now", number(now.timestamp_millis()))
            .return_values(ReturnValue::AllNew)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        if let Some(user) = attempt.user {
            condition.push_str(" AND #code.user_id = :user");
            update = update.expression_attribute_values(":user", number(user));
        }
        let error = match update.condition_expression(condition).send().await {
            Ok(updated) => {
                let item = updated.attributes.unwrap_or_default();
                return from_item::<Codes>(item)?.of(attempt.purpose).ok_or_else(|| WrongCode.into());
            }
            Err(error) => error,
        };
        let Some(item) = item_that_failed_condition(&error) else {
            return Err(StoreError::from_sdk("UpdateItem", &error).into());
        };
        let code = from_item::<Codes>(item)?.of(attempt.purpose).filter(|code| code.user_id == attempt.user);
        match code {
            // The write succeeded, but its response was lost and the SDK retried the write.
            Some(code) if code.tried_by.as_deref() == Some(attempt.nonce) => Ok(code),
            None if attempt.user.is_some() => Err(VerificationError::PhoneMismatch.into()),
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
            .set_key(Some(keys::phone_codes(phone).into()))
            .update_expression("SET #code.used_by = :nonce")
            .condition_expression(SPENDABLE)
            .expression_attribute_names("#code", Purpose::Login.as_str())
            .expression_attribute_values(":issue", text(&code.issue))
            .expression_attribute_values(":nonce", text(nonce))
            .send()
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
            .set_key(Some(keys::phone_codes(phone).into()))
            .update_expression("REMOVE #code.used_by")
            .condition_expression("#code.issue = :issue AND #code.used_by = :nonce")
            .expression_attribute_names("#code", Purpose::Login.as_str())
            .expression_attribute_values(":issue", text(&code.issue))
            .expression_attribute_values(":nonce", text(nonce))
            .send()
            .await;
        // The condition fails if this request did not spend the code, or if a newer code replaced it. Then there
        // is nothing to roll back.
        condition_held("UpdateItem", restored).map(|_| ())
    }

    /// Counts a message against the rate limit of the network that requested it.
    pub async fn admit_address(
        &self,
        address: &Address,
        limit: Limit,
        request_id: &str,
        now: DateTime<Utc>,
    ) -> Result<(), IssueError> {
        let Shift { set, condition, values } = rate_limit::admit(&[limit], request_id, now);
        let admitted = self
            .client
            .update_item()
            .table_name(&self.tables.users)
            .set_key(Some(keys::address_limit(address).into()))
            .update_expression(format!("SET {set}, expires_at = :end"))
            .condition_expression(condition)
            .set_expression_attribute_values(Some(values))
            .expression_attribute_values(":end", number((now + limit.window).timestamp()))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .send()
            .await;
        let Err(error) = admitted else { return Ok(()) };
        let Some(item) = item_that_failed_condition(&error) else {
            return Err(StoreError::from_sdk("UpdateItem", &error).into());
        };
        let admitted = rate_limit::request_ids(&item);
        if admitted.iter().any(|admitted| admitted == request_id) {
            // The write succeeded, but its response was lost and the SDK retried the write.
            return Ok(());
        }
        Err(Limited { retry_after: limit::retry_after(&admitted, &[limit], now) }.into())
    }

    /// Rolls back [`Store::admit_address`].
    pub async fn release_address(
        &self,
        address: &Address,
        limit: Limit,
        request_id: &str,
    ) -> Result<(), StoreError> {
        let mut position = 0;
        let mut retry = Retry::immediate("rate limit of an address", rate_limit::release_attempts(&[limit]));
        loop {
            let Shift { set, condition, values } = rate_limit::release(&[limit], position, request_id);
            let released = self
                .client
                .update_item()
                .table_name(&self.tables.users)
                .set_key(Some(keys::address_limit(address).into()))
                .update_expression(format!("SET {set}"))
                .condition_expression(condition)
                .set_expression_attribute_values(Some(values))
                .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
                .send()
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
