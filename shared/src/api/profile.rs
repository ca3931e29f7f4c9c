//! A user's own record, and verifying a phone.

use chrono::NaiveDate;
use serde::Serialize;

use super::login::{CodeSent, PhoneOnly};
use super::matches::Named;
use super::{Data, Message, Nothing, endpoint, input};
use crate::domain::catalog::Catalog;
use crate::domain::username::ChosenUsername;
use crate::domain::{BirthDate, Email, Name, OneTimeCode, Phone, Timestamp, User, UserId, Username};
use crate::http::SignedIn;

endpoint! {
    /// The caller's own record.
    Me: GET "/api/auth/me", in "profile", by SignedIn, Nothing => Data<WholeUser>,
        refuses ["no_catalogue"]
}

endpoint! {
    /// Update the caller's own record.
    UpdateUserInfo: POST "/api/auth/update-user-info", in "profile", by SignedIn, UserInfo => Message<UpdatedUser>,
        refuses ["username_taken", "username_locked"]
}

endpoint! {
    /// Start verifying a phone.
    InitiateVerification:
        POST "/api/auth/verify-phone/initiate", in "profile", by SignedIn, PhoneOnly => Message<VerificationStarted>,
        refuses ["phone_taken", "rate_limited", "sms_unavailable"]
}

endpoint! {
    /// Complete verifying a phone.
    VerifyPhone: POST "/api/auth/verify-phone", in "profile", by SignedIn, VerificationCode => Message<Verified>,
        refuses ["invalid_code", "phone_taken", "phone_mismatch"]
}

endpoint! {
    /// Send a new code for a pending verification.
    ResendCode: POST "/api/auth/resend-code", in "profile", by SignedIn, PhoneOnly => Message<CodeSent>,
        refuses ["no_pending_verification", "rate_limited", "sms_unavailable"]
}

input! {
    /// Absent fields stay as they are.
    UserInfo {
        name: Option<Name>,
        email: Option<Email>,
        date_of_birth: Option<BirthDate>,
        username: Option<ChosenUsername>,
    }
}

input! {
    VerificationCode { phone: Phone, code: OneTimeCode }
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct WholeUser {
    pub id: UserId,
    pub phone: Phone,
    pub username: Username,
    pub created_at: Timestamp,
    pub name: Option<Name>,
    pub email: Option<Email>,
    pub date_of_birth: Option<NaiveDate>,
    pub primary_team: Option<Named>,
    pub other_teams: Vec<Named>,
}

impl WholeUser {
    /// With the teams as the catalog names them; one that is no longer there is left out.
    #[must_use]
    pub fn of(user: User, catalog: Option<&Catalog>) -> Self {
        let named = |id: u32| catalog.and_then(|catalog| Named::team(catalog, id));
        Self {
            id: user.id,
            phone: user.phone,
            username: user.username,
            created_at: user.created_at.into(),
            name: user.name,
            email: user.email,
            date_of_birth: user.date_of_birth,
            primary_team: user.primary_team.and_then(named),
            other_teams: user.other_teams.into_iter().filter_map(named).collect(),
        }
    }
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct UpdatedUser {
    pub id: UserId,
    pub name: Option<Name>,
    pub email: Option<Email>,
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct VerificationStarted {
    /// Seconds.
    pub expires_in: i64,
    pub phone: Phone,
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Verified {
    pub verified: bool,
    pub phone: Phone,
}
