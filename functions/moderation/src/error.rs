use touchline::Error;
use touchline::ports::chat::ChatError;
use touchline::storage::StoreError;

/// Why an order is not carried out.
#[derive(Debug, thiserror::Error)]
pub enum ModerationError {
    #[error(
        "the payload must be {{\"list_reports\": {{\"status\"}}}}, {{\"audit\": {{}}}}, or one of close_report \
         {{\"report_id\"}}, suspend {{\"user_id\"}}, restore {{\"user_id\"}}, reset_name {{\"user_id\"}} and remove_room \
         {{\"room_id\"}}, each also with \"operator\", \"reason\" and, optionally, \"id\": {0}"
    )]
    BadOrder(String),
    #[error("{field}: {problem}")]
    BadField { field: &'static str, problem: String },
    #[error("there is no user {0}")]
    UnknownUser(u32),
    #[error("there is no room {0}")]
    UnknownRoom(String),
    #[error("there is no report {0}. Reports are deleted with the account of the reporter")]
    UnknownReport(String),
    #[error(
        "the id {0} belongs to an earlier action with other fields. Choose a new id, or send the same fields"
    )]
    IdUsed(String),
    #[error(
        "the room belongs to a match, and the match needs it. Suspend the users who misuse it, or remove their messages on \
         the homeserver"
    )]
    MatchRoom,
    #[error(
        "the homeserver does not let the creator close the room, because they have lost their power in it. Set \
         ChatAdminTokenSecret, and invoke this again"
    )]
    NoPower,
    #[error("{0}")]
    Failed(#[from] Error),
}

impl From<StoreError> for ModerationError {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<ChatError> for ModerationError {
    fn from(error: ChatError) -> Self {
        Self::Failed(error.into())
    }
}
