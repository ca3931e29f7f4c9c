//! Users, as other users see them.

use serde::Serialize;

use super::endpoint::{PathParameter, Resource};
use super::matches::Named;
use super::my_prediction::PointsReason;
use super::{Cursor, CursorPage, Data, NoInput, PerPage, Position, SignedIn, endpoint, input};
use crate::domain::catalog::Catalog;
use crate::domain::profile::PublicProfile;
use crate::domain::tally::UserStats;
use crate::domain::username::UsernamePrefix;
use crate::domain::{Name, Timestamp, UserId, Username};

endpoint! {
    /// Search users
    ///
    /// Finds users by the beginning of their username. The users are sorted by username. A page can have fewer users than
    /// `per_page`, although more follow. Suspended users are left out, and so are users whom the caller has blocked or who
    /// have blocked the caller.
    SearchUsers: GET "/api/auth/users", in "profile", by SignedIn, UsersQuery => CursorPage<UserView>,
        errors [NoCatalogue]
}

endpoint! {
    /// Read the public profile of a user
    ///
    /// The response for users who have deleted the account, are suspended or have blocked the caller is the same as for
    /// unknown users.
    UserProfile { user: UserRef }: GET "/api/auth/users/{user}", in "profile", by SignedIn,
        NoInput => Data<UserProfileView>,
        errors [UserNotFound, NoCatalogue]
}

input! {
    UsersQuery {
        /// The beginning of the username.
        search: UsernamePrefix,
        per_page: PerPage<20>,
        cursor: Option<Cursor<AfterUsername>>,
    }
}

/// A user in a path: the id or the username.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserRef {
    Id(UserId),
    Name(Username),
}

impl PathParameter for UserRef {
    const RESOURCE: Resource = Resource::User;

    /// A text of digits is an id, although it could also be a username.
    fn parse(text: &str) -> Option<Self> {
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            text.parse().ok().map(Self::Id)
        } else {
            Username::parse(text).ok().map(Self::Name)
        }
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        serde_json::json!({
            "type": "string", "examples": ["alice"],
            "description": "The id or the username of a user. A text of digits is an id.",
        })
    }
}

/// A position in the results of a search: after this username.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AfterUsername(pub Username);

impl Position for AfterUsername {
    const LIST: &'static str = "users";

    fn encode(&self) -> String {
        self.0.as_str().to_owned()
    }

    fn decode(text: &str) -> Option<Self> {
        Username::parse(text).ok().map(Self)
    }
}

/// A user in a list.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct UserView {
    /// The user's id.
    pub id: UserId,
    /// The username.
    pub username: Username,
    /// The name from the profile; `null` if there is none.
    pub name: Option<Name>,
    /// The primary team; `null` if none was chosen.
    pub primary_team: Option<Named>,
}

impl UserView {
    #[must_use]
    pub fn of(profile: PublicProfile, catalog: Option<&Catalog>) -> Self {
        let team = profile.primary_team.zip(catalog);
        Self {
            id: profile.id,
            username: profile.username,
            name: profile.name,
            primary_team: team.and_then(|(team, catalog)| Named::team(catalog, team)),
        }
    }
}

/// The public profile of a user.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct UserProfileView {
    #[serde(flatten)]
    pub user: UserView,
    /// When the user was created.
    pub member_since: Timestamp,
    /// The statistics over all settled predictions.
    pub record: RecordView,
    /// The ranks on the global leaderboards.
    pub ranks: RanksView,
    /// How the last predictions of finished matches went, at most five, the latest match first: `exact`, `difference`,
    /// `outcome` or `miss`.
    pub form: Vec<PointsReason>,
}

/// The ranks of a user on the global leaderboards. Each is `null` if the user is not on the leaderboard.
#[derive(Debug, Clone, Copy, Default, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct RanksView {
    /// The rank of all times.
    pub all: Option<u32>,
    /// The rank of this season.
    pub season: Option<u32>,
    /// The rank of this month.
    pub month: Option<u32>,
}

/// The statistics of a user over all settled predictions.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct RecordView {
    /// The number of settled predictions.
    pub settled: i64,
    /// How many of them earned points.
    pub correct: i64,
    /// The points.
    pub points: i64,
    /// The fraction of the settled predictions that earned points, from 0 to 1.
    pub accuracy: f64,
}

impl RecordView {
    #[must_use]
    pub fn of(stats: &UserStats) -> Self {
        Self {
            settled: stats.settled,
            correct: stats.correct,
            points: stats.points,
            accuracy: stats.accuracy(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_an_id_and_everything_else_a_username() {
        assert_eq!(UserRef::parse("123"), Some(UserRef::Id(UserId(123))));
        assert_eq!(UserRef::parse("Alice_1"), Username::parse("alice_1").ok().map(UserRef::Name));
        for text in ["", "al", "4294967296", "a b c", "!abc"] {
            assert_eq!(UserRef::parse(text), None, "{text}");
        }
    }
}
