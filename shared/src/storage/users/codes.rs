//! A phone's `codes` item: the code for each purpose, and the register of sendings that limits them all.

use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure};
use chrono::serde::ts_milliseconds;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::domain::code::{self, CodeDigest, CodeRequest, VerificationError, WrongCode};
use crate::domain::limit::{self, Limit, Limited};
use crate::domain::{Address, IssueId, Phone, Purpose, UserId};
use crate::storage::register::{self, Shift};
use crate::storage::{Store, StoreError, from_item, keys, number, refused_item, text};

/// A code to be kept, before it is sent.
#[derive(Debug)]
pub struct Issue<'a> {
    pub phone: &'a Phone,
    pub request: CodeRequest,
    pub id: &'a IssueId,
    pub digest: &'a CodeDigest,
    pub limits: &'a [Limit],
}

/// One try at a code.
#[derive(Debug)]
pub struct Attempt<'a> {
    pub phone: &'a Phone,
    pub purpose: Purpose,
    /// Who tries, where the code is for one user alone.
    pub user: Option<UserId>,
    /// Tells this try from every other.
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

/// A code as kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct KeptCode {
    pub issue: IssueId,
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
    /// The nonce of the request that spent it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    used_by: Option<String>,
}

/// What of the item matters once a write has returned it.
#[derive(Debug, Deserialize)]
struct Codes {
    login: Option<KeptCode>,
    verify: Option<KeptCode>,
}

impl Codes {
    fn of(self, purpose: Purpose) -> Option<KeptCode> {
        match purpose {
            Purpose::Login => self.login,
            Purpose::Verify => self.verify,
        }
    }
}

/// A code that is still the one compared, and unspent; or spent by this very request, whose first write
/// went through and whose answer was lost.
pub(super) const SPENDABLE: &str =
    "#code.issue = :issue AND (attribute_not_exists(#code.used_by) OR #code.used_by = :nonce)";

impl Store {
    /// Keeps a code in place of the one before, if the phone's limits allow another sending.
    pub async fn issue_code(&self, issue: &Issue<'_>, now: DateTime<Utc>) -> Result<(), IssueError> {
        let Shift { set, mut condition, values } = register::admit(issue.limits, issue.id, now);
        let purpose = issue.request.purpose();
        let kept = KeptCode {
            issue: issue.id.clone(),
            digest: issue.digest.as_str().to_owned(),
            attempts: 0,
            tried_by: None,
            valid_until: now + code::VALID_FOR,
            pending_until: now + code::PENDING_FOR,
            user_id: issue.request.user(),
            used_by: None,
        };
        let kept: AttributeValue =
            serde_dynamo::to_attribute_value(kept).map_err(|_| StoreError::Unreadable("a code"))?;
        let longest = issue.limits.iter().map(|limit| limit.window).max().unwrap_or_default();
        let mut update = self
            .client
            .update_item()
            .table_name(&self.tables.users)
            .set_key(Some(keys::phone_codes(issue.phone).into()))
            .set_expression_attribute_values(Some(values))
            .expression_attribute_names("#code", purpose.as_str())
            .expression_attribute_values(":code", kept)
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
        let Some(item) = refused_item(&error) else {
            return Err(StoreError::from_sdk("UpdateItem", &error).into());
        };
        let marks = register::marks(&item);
        if marks.contains(issue.id) {
            // Our own write, whose answer was lost and which the SDK sent again.
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
        Err(Limited { retry_after: limit::retry_after(&marks, issue.limits, now) }.into())
    }

    /// Undoes [`Store::issue_code`] after the message could not be sent: the code is void and its place
    /// in the limit is free again. A verification that was pending before stays pending.
    pub async fn withdraw_code(&self, issue: &Issue<'_>) -> Result<(), StoreError> {
        // Nearly always ours is still the newest; where not, the refusal says how things stand. Others
        // can push it down, or pull it up, only so often.
        let mut place = 0;
        let mut ours_is_kept = true;
        for _ in 0..=2 * limit::depth(issue.limits) {
            let Shift { set, condition, values } = register::give_back(issue.limits, place, issue.id);
            let mut update = self
                .client
                .update_item()
                .table_name(&self.tables.users)
                .set_key(Some(keys::phone_codes(issue.phone).into()))
                .set_expression_attribute_values(Some(values))
                .expression_attribute_names("#code", issue.request.purpose().as_str())
                .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
            update = match (ours_is_kept, issue.request) {
                (true, CodeRequest::ResendVerification(_)) => update
                    .update_expression(format!("SET {set}, #code.valid_until = :past"))
                    .condition_expression(format!("{condition} AND #code.issue = :mark"))
                    .expression_attribute_values(":past", number(0)),
                (true, _) => update
                    .update_expression(format!("SET {set} REMOVE #code"))
                    .condition_expression(format!("{condition} AND #code.issue = :mark")),
                (false, _) => update.update_expression(format!("SET {set}")).condition_expression(format!(
                    "{condition} AND (attribute_not_exists(#code) OR #code.issue <> :mark)"
                )),
            };
            let Err(error) = update.send().await else { return Ok(()) };
            let Some(item) = refused_item(&error) else {
                return Err(StoreError::from_sdk("UpdateItem", &error));
            };
            let Some(found) = register::marks(&item).iter().position(|mark| mark == issue.id) else {
                // Already out: this write arrived before.
                return Ok(());
            };
            place = found;
            ours_is_kept = from_item::<Codes>(item)?
                .of(issue.request.purpose())
                .is_some_and(|code| code.issue == *issue.id);
        }
        Err(StoreError::Busy { operation: "UpdateItem", code: "Contended".into() })
    }

    /// Takes one attempt off a code and returns it for comparison.
    ///
    /// The attempt is gone before anybody compares, so that guesses in parallel cannot share one.
    pub async fn reserve_attempt(
        &self,
        attempt: &Attempt<'_>,
        now: DateTime<Utc>,
    ) -> Result<KeptCode, ReserveError> {
        let mut condition = "#code.attempts < :most AND #code.valid_until > :now \
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
            .expression_attribute_values(":most", number(code::MAX_ATTEMPTS))
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
        let Some(item) = refused_item(&error) else {
            return Err(StoreError::from_sdk("UpdateItem", &error).into());
        };
        let theirs =
            from_item::<Codes>(item)?.of(attempt.purpose).filter(|code| code.user_id == attempt.user);
        match theirs {
            // Our own write, whose answer was lost and which the SDK sent again.
            Some(code) if code.tried_by.as_deref() == Some(attempt.nonce) => Ok(code),
            None if attempt.user.is_some() => Err(VerificationError::PhoneMismatch.into()),
            _ => Err(WrongCode.into()),
        }
    }

    /// Spends a login code. Of many requests that hold the right code, one gets `Ok`.
    pub async fn spend_code(&self, phone: &Phone, code: &KeptCode, nonce: &str) -> Result<(), ReserveError> {
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
        match spent {
            Ok(_) => Ok(()),
            Err(error) if refused_item(&error).is_some() => Err(WrongCode.into()),
            Err(error) => Err(StoreError::from_sdk("UpdateItem", &error).into()),
        }
    }

    /// Undoes [`Store::spend_code`] for a login that could not be completed.
    pub async fn unspend_code(&self, phone: &Phone, code: &KeptCode, nonce: &str) -> Result<(), StoreError> {
        let released = self
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
        match released {
            Ok(_) => Ok(()),
            // Not spent after all, or replaced by a newer one.
            Err(error) if refused_item(&error).is_some() => Ok(()),
            Err(error) => Err(StoreError::from_sdk("UpdateItem", &error)),
        }
    }

    /// Counts one more sending for an address, if its limit allows.
    pub async fn admit_address(
        &self,
        address: &Address,
        limit: Limit,
        mark: &str,
        now: DateTime<Utc>,
    ) -> Result<(), IssueError> {
        let Shift { set, condition, values } = register::admit(&[limit], mark, now);
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
        let Some(item) = refused_item(&error) else {
            return Err(StoreError::from_sdk("UpdateItem", &error).into());
        };
        let marks = register::marks(&item);
        if marks.iter().any(|found| found == mark) {
            return Ok(());
        }
        Err(Limited { retry_after: limit::retry_after(&marks, &[limit], now) }.into())
    }

    /// Undoes [`Store::admit_address`].
    pub async fn give_back_address(
        &self,
        address: &Address,
        limit: Limit,
        mark: &str,
    ) -> Result<(), StoreError> {
        let mut place = 0;
        for _ in 0..=2 * limit.count {
            let Shift { set, condition, values } = register::give_back(&[limit], place, mark);
            let given_back = self
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
            let Err(error) = given_back else { return Ok(()) };
            let Some(item) = refused_item(&error) else {
                return Err(StoreError::from_sdk("UpdateItem", &error));
            };
            let Some(found) = register::marks(&item).iter().position(|found| found == mark) else {
                return Ok(());
            };
            place = found;
        }
        Err(StoreError::Busy { operation: "UpdateItem", code: "Contended".into() })
    }
}
