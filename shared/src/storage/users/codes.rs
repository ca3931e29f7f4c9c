//! A phone's `codes` item: the code for each purpose, and the register of sendings that limits them all.

use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure};
use chrono::serde::ts_milliseconds;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::domain::code::{self, CodeDigest, VerificationError, WrongCode};
use crate::domain::limit::{self, Limit, Limited};
use crate::domain::{Address, IssueId, Phone, Purpose, UserId};
use crate::storage::register::{self, Shift};
use crate::storage::{Item, Store, StoreError, from_item, keys, number, text};

/// A code to be kept, before it is sent.
#[derive(Debug)]
pub struct Issue<'a> {
    pub phone: &'a Phone,
    pub purpose: Purpose,
    pub id: &'a IssueId,
    pub digest: &'a CodeDigest,
    /// Who asked, where the purpose is theirs alone.
    pub user: Option<UserId>,
    /// Only where the same user's verification is pending already.
    pub again: bool,
    pub limits: &'a [Limit],
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

/// A code as kept, one attempt already taken off.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct KeptCode {
    pub issue: IssueId,
    pub digest: String,
    attempts: u32,
    #[serde(with = "ts_milliseconds")]
    valid_until: DateTime<Utc>,
    #[serde(with = "ts_milliseconds")]
    pending_until: DateTime<Utc>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id: Option<UserId>,
    /// The redeeming request's nonce; a code that has one is spent.
    #[serde(skip_serializing_if = "Option::is_none")]
    used_by: Option<String>,
}

/// What of the item matters when a condition failed.
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

fn refused_item(error: &UpdateItemError) -> Option<Item> {
    match error {
        UpdateItemError::ConditionalCheckFailedException(failed) => {
            Some(failed.item().cloned().unwrap_or_default())
        }
        _ => None,
    }
}

impl Store {
    /// Keeps a code in place of the one before, if the phone's limits allow another sending.
    pub async fn issue_code(&self, issue: &Issue<'_>, now: DateTime<Utc>) -> Result<(), IssueError> {
        let Shift { set, condition, values } = register::admit(issue.limits, issue.id, now);
        let kept = KeptCode {
            issue: issue.id.clone(),
            digest: issue.digest.as_str().to_owned(),
            attempts: 0,
            valid_until: now + code::VALID_FOR,
            pending_until: now + code::PENDING_FOR,
            user_id: issue.user,
            used_by: None,
        };
        let kept: AttributeValue = serde_dynamo::to_attribute_value(kept)
            .map_err(|error| StoreError::Unreadable(error.to_string()))?;
        let longest = issue.limits.iter().map(|limit| limit.window).max().unwrap_or_default();
        let mut update = self
            .client
            .update_item()
            .table_name(&self.tables.users)
            .set_key(Some(keys::phone_codes(issue.phone).into()))
            .set_expression_attribute_values(Some(values))
            .expression_attribute_names("#code", issue.purpose.as_str())
            .expression_attribute_values(":code", kept)
            .expression_attribute_values(":end", number((now + longest.max(code::PENDING_FOR)).timestamp()))
            .update_expression(format!("SET {set}, #code = :code, expires_at = :end"))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        update = match issue.user {
            Some(user) if issue.again => update
                .condition_expression(format!(
                    "{condition} AND #code.user_id = :user AND #code.pending_until > :now \
                     AND attribute_not_exists(#code.used_by)"
                ))
                .expression_attribute_values(":user", number(user))
                .expression_attribute_values(":now", number(now.timestamp_millis())),
            _ => update.condition_expression(condition),
        };
        let Err(error) = update.send().await else { return Ok(()) };
        let Some(item) = error.as_service_error().and_then(refused_item) else {
            return Err(StoreError::from_sdk("UpdateItem", &error).into());
        };
        let marks = register::marks(&item);
        if marks.first() == Some(issue.id) {
            // Our own write, whose answer was lost and which the SDK sent again.
            return Ok(());
        }
        if issue.again {
            let pending = from_item::<Codes>(item)?.of(issue.purpose).is_some_and(|code| {
                code.user_id == issue.user && code.pending_until > now && code.used_by.is_none()
            });
            if !pending {
                return Err(VerificationError::NothingPending.into());
            }
        }
        Err(Limited { retry_after: limit::retry_after(&marks, issue.limits, now) }.into())
    }

    /// Undoes [`Store::issue_code`] after the message could not be sent: the code is void and its place
    /// in the limit is free again.
    pub async fn withdraw_code(&self, issue: &Issue<'_>) -> Result<(), StoreError> {
        // Nearly always ours is still the newest; where not, the refusal says how things stand.
        let mut place = 0;
        let mut ours_is_kept = true;
        for _ in 0..4 {
            let Shift { set, condition, values } = register::give_back(issue.limits, place, issue.id);
            let (void, still) = if ours_is_kept {
                (" REMOVE #code", "#code.issue = :mark")
            } else {
                ("", "(attribute_not_exists(#code) OR #code.issue <> :mark)")
            };
            let withdrawn = self
                .client
                .update_item()
                .table_name(&self.tables.users)
                .set_key(Some(keys::phone_codes(issue.phone).into()))
                .set_expression_attribute_values(Some(values))
                .expression_attribute_names("#code", issue.purpose.as_str())
                .update_expression(format!("SET {set}{void}"))
                .condition_expression(format!("{condition} AND {still}"))
                .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
                .send()
                .await;
            let Err(error) = withdrawn else { return Ok(()) };
            let Some(item) = error.as_service_error().and_then(refused_item) else {
                return Err(StoreError::from_sdk("UpdateItem", &error));
            };
            let Some(found) = register::marks(&item).iter().position(|mark| mark == issue.id) else {
                // Already out: this write arrived before.
                return Ok(());
            };
            place = found;
            ours_is_kept =
                from_item::<Codes>(item)?.of(issue.purpose).is_some_and(|code| code.issue == *issue.id);
        }
        Err(StoreError::Busy { operation: "UpdateItem", code: "Contended".into() })
    }

    /// Takes one attempt off a code and returns it for comparison.
    ///
    /// The attempt is gone before anybody compares, so that guesses in parallel cannot share one.
    pub async fn reserve_attempt(
        &self,
        phone: &Phone,
        purpose: Purpose,
        user: Option<UserId>,
        now: DateTime<Utc>,
    ) -> Result<KeptCode, ReserveError> {
        let mut condition = "#code.attempts < :most AND #code.valid_until > :now \
                             AND attribute_not_exists(#code.used_by)"
            .to_owned();
        let mut update = self
            .client
            .update_item()
            .table_name(&self.tables.users)
            .set_key(Some(keys::phone_codes(phone).into()))
            .update_expression("SET #code.attempts = #code.attempts + :one")
            .expression_attribute_names("#code", purpose.as_str())
            .expression_attribute_values(":one", number(1))
            .expression_attribute_values(":most", number(code::MAX_ATTEMPTS))
            .expression_attribute_values(":now", number(now.timestamp_millis()))
            .return_values(ReturnValue::AllNew)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        if let Some(user) = user {
            condition.push_str(" AND #code.user_id = :user");
            update = update.expression_attribute_values(":user", number(user));
        }
        match update.condition_expression(condition).send().await {
            Ok(updated) => {
                let item = updated.attributes.unwrap_or_default();
                from_item::<Codes>(item)?.of(purpose).ok_or_else(|| WrongCode.into())
            }
            Err(error) => {
                let Some(item) = error.as_service_error().and_then(refused_item) else {
                    return Err(StoreError::from_sdk("UpdateItem", &error).into());
                };
                let theirs = from_item::<Codes>(item)?.of(purpose).filter(|code| code.user_id == user);
                match (user, theirs) {
                    (Some(_), None) => Err(VerificationError::PhoneMismatch.into()),
                    _ => Err(WrongCode.into()),
                }
            }
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
            Err(error) if error.as_service_error().is_some_and(|error| refused_item(error).is_some()) => {
                Err(WrongCode.into())
            }
            Err(error) => Err(StoreError::from_sdk("UpdateItem", &error).into()),
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
        let Some(item) = error.as_service_error().and_then(refused_item) else {
            return Err(StoreError::from_sdk("UpdateItem", &error).into());
        };
        let marks = register::marks(&item);
        if marks.first().is_some_and(|first| first == mark) {
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
        for _ in 0..4 {
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
            let Some(item) = error.as_service_error().and_then(refused_item) else {
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

/// A code that is still the one compared, and unspent; or spent by this very request, whose first write
/// went through and whose answer was lost.
pub(super) const SPENDABLE: &str =
    "#code.issue = :issue AND (attribute_not_exists(#code.used_by) OR #code.used_by = :nonce)";
