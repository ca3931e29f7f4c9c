//! Codes of users: one for the pending verification of a phone, and one for the deletion of the account.
//!
//! The code is in an item of the user, not of the phone. So another user who verifies the same phone does not replace it.

use aws_sdk_dynamodb::types::ReturnValue;
use chrono::serde::{ts_milliseconds, ts_seconds};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::super::client::Call as _;
use super::codes::{Issue, IssueError, StoredCode, USER_CODE, UserCode};
use crate::domain::code::{self, VerificationError};
use crate::domain::limit::{self, Limited};
use crate::domain::{MAX_CLOCK_DIFFERENCE, Phone, UserId};
use crate::storage::condition::condition_held;
use crate::storage::error::StoreError;
use crate::storage::item::{from_item, number, text, to_item};
use crate::storage::keys;
use crate::storage::store::{Reads, Store};

/// A user's verification of a phone, or the deletion of an account that has the phone.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Verification {
    pub phone: Phone,
    verify: StoredCode,
    #[serde(with = "ts_milliseconds")]
    pending_until: DateTime<Utc>,
    #[serde(with = "ts_seconds")]
    expires_at: DateTime<Utc>,
}

impl Verification {
    /// Returns a verification whose code is not sent yet.
    #[must_use]
    pub fn new(issue: &Issue<'_>, now: DateTime<Utc>) -> Self {
        let pending_until = now + code::PENDING_FOR;
        let verify = StoredCode::new(issue, None, now);
        Self { phone: issue.phone.clone(), verify, pending_until, expires_at: pending_until }
    }

    /// Returns the phone, if the verification is pending.
    #[must_use]
    pub fn pending_phone(self, now: DateTime<Utc>) -> Option<Phone> {
        self.is_pending(&self.phone.clone(), now).then_some(self.phone)
    }

    fn is_pending(&self, phone: &Phone, now: DateTime<Utc>) -> bool {
        self.phone == *phone && self.pending_until > now && self.verify.used_by.is_none()
    }
}

impl Store {
    /// Checks that a user's verification of this phone is pending.
    pub async fn require_pending_verification(
        &self,
        user: UserId,
        phone: &Phone,
        now: DateTime<Utc>,
    ) -> Result<(), IssueError> {
        // The verification may have begun a moment ago, so an eventually consistent read may miss it.
        for reads in [Reads::Eventual, Reads::Consistent] {
            let found: Option<Verification> =
                self.get(&self.tables.users, keys::verification(user), reads).await?;
            if found.is_some_and(|verification| verification.is_pending(phone, now)) {
                return Ok(());
            }
        }
        Err(VerificationError::NothingPending.into())
    }

    /// Reads a user's verification, strongly consistent.
    pub async fn verification(&self, user: UserId) -> Result<Option<Verification>, StoreError> {
        self.get(&self.tables.users, keys::verification(user), Reads::Consistent).await
    }

    /// Replaces the verification with `new`, and returns the replaced one. If `resends` is true, it does so only if a
    /// verification of the same phone is pending. A write that reaches the store late does not replace a newer verification.
    ///
    /// If the response is lost and the SDK retries the write, it returns `None`, because the retry sees the new verification
    /// as the previous one.
    pub async fn save_verification(
        &self,
        which: UserCode,
        new: &Verification,
        resends: bool,
        now: DateTime<Utc>,
    ) -> Result<Option<Verification>, IssueError> {
        let mut condition = "(attribute_not_exists(#code) OR #code.issue <= :latest)".to_owned();
        let mut put = self
            .client
            .put_item()
            .table_name(&self.tables.users)
            .set_item(Some(to_item(which.key(), new)?))
            .expression_attribute_names("#code", USER_CODE)
            // The clocks of two requests differ by up to a second.
            .expression_attribute_values(":latest", text(limit::outside(-MAX_CLOCK_DIFFERENCE, now)))
            .return_values(ReturnValue::AllOld);
        if resends {
            condition.push_str(
                " AND phone = :phone AND pending_until > :now AND attribute_not_exists(#code.used_by)",
            );
            put = put
                .expression_attribute_values(":phone", text(new.phone.as_str()))
                .expression_attribute_values(":now", number(now.timestamp_millis()));
        }
        let saved = put.condition_expression(condition).call().await;
        let before = saved.as_ref().ok().and_then(|saved| saved.attributes().cloned());
        if !condition_held("PutItem", saved)? {
            return Err(if resends {
                VerificationError::NothingPending.into()
            } else {
                Limited { retry_after: MAX_CLOCK_DIFFERENCE }.into()
            });
        }
        let before: Option<Verification> = before.map(from_item).transpose()?;
        // After a retry by the SDK, the previous item is the new one.
        Ok(before.filter(|before| before.verify.issue != new.verify.issue))
    }

    /// Rolls back [`Store::save_verification`] when the message could not be sent. `before` is what it returned.
    pub async fn restore_verification(
        &self,
        which: UserCode,
        new: &Verification,
        before: Option<&Verification>,
    ) -> Result<(), StoreError> {
        const IS_NEW: &str = "#code.issue = :issue";
        let (table, key) = (&self.tables.users, which.key());
        let issue = text(&new.verify.issue);
        let restored = if let Some(before) = before {
            let put = self.client.put_item().table_name(table).set_item(Some(to_item(key, before)?));
            let put = put.condition_expression(IS_NEW).expression_attribute_names("#code", USER_CODE);
            condition_held("PutItem", put.expression_attribute_values(":issue", issue).call().await)
        } else {
            let delete = self.client.delete_item().table_name(table).set_key(Some(key.into()));
            let delete = delete.condition_expression(IS_NEW).expression_attribute_names("#code", USER_CODE);
            condition_held("DeleteItem", delete.expression_attribute_values(":issue", issue).call().await)
        };
        // If the condition fails, a newer verification has replaced this one.
        restored.map(|_| ())
    }
}
