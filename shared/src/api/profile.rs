//! The caller's own profile, and phone verification.

use chrono::NaiveDate;
use serde::Serialize;

use super::login::{CodeSent, PhoneInput};
use super::matches::Named;
use super::{Data, Message, NoInput, SignedIn, endpoint, input};
use crate::domain::catalog::Catalog;
use crate::domain::tally::UserStats;
use crate::domain::{BirthDate, Email, Name, OneTimeCode, Phone, Timestamp, User, UserId, Username};

endpoint! {
    /// Read the caller's own profile
    ///
    /// Returns the user with their favourite teams, statistics and coins.
    Me: GET "/api/auth/me", in "profile", by SignedIn, NoInput => Data<WholeUser>,
        errors [NoCatalogue]
}

endpoint! {
    /// Update the caller's own profile
    ///
    /// Absent fields keep their values. The username can change until the user joins or is invited to their first chat room.
    UpdateUserInfo: POST "/api/auth/update-user-info", in "profile", by SignedIn, UserInfoInput => Message<UpdatedUser>,
        errors [UsernameTaken, UsernameLocked, ConcurrentChange, ChatUnavailable]
}

endpoint! {
    /// Start phone verification
    ///
    /// Sends a code to the given phone number.
    InitiateVerification:
        POST "/api/auth/verify-phone/initiate", in "profile", by SignedIn, PhoneInput => Message<VerificationStarted>,
        errors [RateLimited, SmsUnavailable]
}

endpoint! {
    /// Complete phone verification
    ///
    /// With the right code, the given phone number replaces the caller's previous phone number. If it is
    /// another number, all other sessions end.
    VerifyPhone: POST "/api/auth/verify-phone", in "profile", by SignedIn, VerificationInput => Message<Verified>,
        errors [InvalidCode, PhoneTaken, PhoneMismatch, RateLimited]
}

endpoint! {
    /// Send a new verification code
    ///
    /// Works only while a verification of this phone number is pending.
    ResendCode: POST "/api/auth/resend-code", in "profile", by SignedIn, PhoneInput => Message<CodeSent>,
        errors [NoPendingVerification, RateLimited, SmsUnavailable]
}

input! {
    UserInfoInput {
        name: Option<Name>,
        email: Option<Email>,
        date_of_birth: Option<BirthDate>,
        username: Option<Username>,
    }
}

input! {
    VerificationInput { phone: Phone, code: OneTimeCode }
}

/// The caller's own profile.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct WholeUser {
    /// The user's id.
    pub id: UserId,
    /// The verified phone number.
    pub phone: Phone,
    /// The username.
    pub username: Username,
    /// Whether the username can no longer change, because chat rooms know the user by it.
    pub is_username_locked: bool,
    /// When the user was created.
    pub created_at: Timestamp,
    /// The name; `null` if none was given.
    pub name: Option<Name>,
    /// The e-mail address; `null` if none was given.
    pub email: Option<Email>,
    /// The date of birth; `null` if none was given.
    pub date_of_birth: Option<NaiveDate>,
    /// The primary team; `null` if none was chosen.
    pub primary_team: Option<Named>,
    /// The favourite teams other than the primary team, at most 5.
    pub other_teams: Vec<Named>,
    /// Statistics of the user's predictions.
    pub stats: OwnStats,
    /// How many coins the user has.
    pub balance: i64,
}

/// Statistics of a user's predictions for all matches.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct OwnStats {
    /// Predictions whose points were calculated, including predictions with 0 points.
    pub settled: i64,
    /// Settled predictions with the right outcome.
    pub correct: i64,
    /// All points together.
    pub points: i64,
    /// The share of correct predictions, from 0 to 1; 0 without settled predictions.
    pub accuracy: f64,
}

impl OwnStats {
    #[must_use]
    pub fn of(stats: &UserStats) -> Self {
        let UserStats { settled, correct, points, .. } = *stats;
        Self { settled, correct, points, accuracy: stats.accuracy() }
    }
}

impl WholeUser {
    /// Describes a user. Teams have their current names. Teams that the catalog does not have are left out.
    #[must_use]
    pub fn of(user: User, catalog: Option<&Catalog>, stats: &UserStats, balance: i64) -> Self {
        let named = |id: u32| catalog.and_then(|catalog| Named::team(catalog, id));
        Self {
            id: user.id,
            phone: user.phone,
            username: user.username,
            is_username_locked: user.username_locked_at.is_some(),
            created_at: user.created_at.into(),
            name: user.name,
            email: user.email,
            date_of_birth: user.date_of_birth,
            primary_team: user.primary_team.and_then(named),
            other_teams: user.other_teams.into_iter().filter_map(named).collect(),
            stats: OwnStats::of(stats),
            balance,
        }
    }
}

/// A user after an update.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct UpdatedUser {
    /// The user's id.
    pub id: UserId,
    /// The name; `null` if none was given.
    pub name: Option<Name>,
    /// The e-mail address; `null` if none was given.
    pub email: Option<Email>,
}

/// A started phone verification.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct VerificationStarted {
    /// How long the code is valid, in seconds.
    pub expires_in: i64,
    /// The phone number that the code was sent to.
    pub phone: Phone,
}

/// A completed phone verification.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Verified {
    /// Always `true`.
    pub verified: bool,
    /// The verified phone number.
    pub phone: Phone,
}
