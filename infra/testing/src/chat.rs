use touchline::domain::Username;
use touchline::ports::Answer;
use touchline::ports::chat::{Chat, ChatUnavailable, Credentials};

/// A chat network that does not answer.
#[derive(Debug)]
pub(crate) struct NoChat;

impl Chat for NoChat {
    fn log_in<'a>(&'a self, _: &'a Username, _: &'a str) -> Answer<'a, Result<Credentials, ChatUnavailable>> {
        Box::pin(async { Err(ChatUnavailable("down".into())) })
    }

    fn match_room<'a>(&'a self, _: u32, _: &'a str) -> Answer<'a, Result<String, ChatUnavailable>> {
        Box::pin(async { Err(ChatUnavailable("down".into())) })
    }

    fn log_out<'a>(&'a self, _: &'a Username, _: &'a str) -> Answer<'a, Result<(), ChatUnavailable>> {
        Box::pin(async { Err(ChatUnavailable("down".into())) })
    }
}
