use std::ops::RangeInclusive;
use std::time::Duration;

use super::Secret;
use super::secret::read_token;
use super::variables::{ConfigError, Variables};
use crate::domain::limit::{
    DailyAction, EXPORTS_PER_DAY, INVITATIONS_TO_ONE_USER_PER_DAY, INVITE_LINKS_PER_DAY, LINK_CODES_PER_DAY,
    PHONE_CHANGES_PER_DAY, PRIMARY_TEAMS_PER_DAY,
};

/// Settings of the chat.
#[derive(Debug, Clone)]
pub struct ChatSettings {
    /// The server name in Matrix ids, after the colon.
    pub server: String,
    /// The Matrix homeserver. `None` uses the built-in chat of the local stack.
    pub homeserver: Option<Homeserver>,
    /// The token that the homeserver sends when it pushes Matrix events to this service. Without it, every
    /// push is rejected.
    pub hs_token: Option<Secret>,
    pub limits: RoomLimits,
}

/// How many rooms and invitations a user can have, and how many reports a user can send.
#[derive(Debug, Clone, Copy)]
pub struct RoomLimits {
    /// How many rooms a user can create in a UTC day.
    pub rooms_per_day: usize,
    /// How many invitations a user can send in a UTC day.
    pub invitations_per_day: usize,
    /// How many reports a user can send in a UTC day.
    pub reports_per_day: usize,
    /// How many rooms a user can be a member of.
    pub joined_rooms: usize,
    /// How many invitations a user can have that they have neither accepted nor declined.
    pub open_invitations: usize,
}

impl RoomLimits {
    fn read(vars: &Variables<'_>) -> Result<Self, ConfigError> {
        // An item holds an id of about six bytes for each room or invitation of a day. The maximum keeps the item and
        // its writes small.
        const PER_DAY: RangeInclusive<usize> = 1..=1_000;
        Ok(Self {
            rooms_per_day: vars.within("ROOMS_PER_DAY", 50, PER_DAY)?,
            invitations_per_day: vars.within("INVITATIONS_PER_DAY", 200, PER_DAY)?,
            reports_per_day: vars.within("REPORTS_PER_DAY", 50, PER_DAY)?,
            // A join or an invitation reads all memberships of the user, about 25 in half a unit.
            joined_rooms: vars.within("MAX_JOINED_ROOMS", 1_000, 1..=10_000)?,
            open_invitations: vars.within("MAX_OPEN_INVITATIONS", 200, 1..=10_000)?,
        })
    }

    /// Returns how often a user can do something in a UTC day.
    #[must_use]
    pub fn per_day(&self, action: DailyAction) -> usize {
        match action {
            DailyAction::CreateRoom => self.rooms_per_day,
            DailyAction::SendInvitation => self.invitations_per_day,
            DailyAction::InviteOneUser => INVITATIONS_TO_ONE_USER_PER_DAY,
            DailyAction::SendReport => self.reports_per_day,
            DailyAction::ExportAccount => EXPORTS_PER_DAY,
            DailyAction::CreateInviteLink => INVITE_LINKS_PER_DAY,
            DailyAction::EnterLinkCode => LINK_CODES_PER_DAY,
            DailyAction::ChoosePrimaryTeam => PRIMARY_TEAMS_PER_DAY,
            DailyAction::ChangePhone => PHONE_CHANGES_PER_DAY,
        }
    }
}

/// A Matrix homeserver on which this service is an application service.
#[derive(Debug, Clone)]
pub struct Homeserver {
    pub url: String,
    /// The token that this service sends with its requests to the homeserver.
    pub as_token: Secret,
    /// The token of an administrator of a Synapse, with which operators delete rooms.
    pub admin_token: Option<Secret>,
    /// The maximum time to wait for a response. It is short, because clients of our API wait meanwhile. Only tests on busy
    /// machines wait longer.
    pub timeout: Duration,
}

impl ChatSettings {
    pub(super) fn read(vars: &Variables<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            server: server(vars)?,
            homeserver: homeserver(vars)?,
            hs_token: read_token(vars, "CHAT_HS_TOKEN")?,
            limits: RoomLimits::read(vars)?,
        })
    }
}

fn server(vars: &Variables<'_>) -> Result<String, ConfigError> {
    const VARIABLE: &str = "CHAT_SERVER_NAME";
    let server = vars.get(VARIABLE).unwrap_or_else(|| "touchline.local".into());
    if server.chars().all(|c| c.is_ascii_alphanumeric() || ".-:".contains(c)) {
        Ok(server)
    } else {
        Err(ConfigError::invalid(
            VARIABLE,
            &server,
            "the server name in your Matrix ids, such as example.org",
        ))
    }
}

fn homeserver(vars: &Variables<'_>) -> Result<Option<Homeserver>, ConfigError> {
    const TOKEN: &str = "CHAT_AS_TOKEN";
    let Some(url) = vars.url("CHAT_HOMESERVER_URL")? else { return Ok(None) };
    let expected = "the as_token of the registration file, because CHAT_HOMESERVER_URL is set";
    let as_token = read_token(vars, TOKEN)?.ok_or_else(|| ConfigError::not_set(TOKEN, expected))?;
    let admin_token = read_token(vars, "CHAT_ADMIN_TOKEN")?;
    let timeout = Duration::from_secs(vars.within("CHAT_TIMEOUT_SECONDS", 2, 1..=60)?);
    Ok(Some(Homeserver { url, as_token, admin_token, timeout }))
}
