use touchline::domain::Username;
use touchline::domain::chat::Credentials;
use touchline::domain::room::{Room, RoomId};
use touchline::ports::Answer;
use touchline::ports::chat::{Chat, ChatError, NewRoom};

/// A chat network that does not answer.
#[derive(Debug)]
pub(crate) struct NoChat;

fn down<'a, T: Send + 'a>() -> Answer<'a, Result<T, ChatError>> {
    Box::pin(async { Err(ChatError::Unavailable("down".into())) })
}

impl Chat for NoChat {
    fn log_in<'a>(&'a self, _: &'a Username, _: &'a str) -> Answer<'a, Result<Credentials, ChatError>> {
        down()
    }

    fn log_out<'a>(&'a self, _: &'a Username, _: &'a str) -> Answer<'a, Result<(), ChatError>> {
        down()
    }

    fn forget<'a>(&'a self, _: &'a Username) -> Answer<'a, Result<(), ChatError>> {
        down()
    }

    fn introduce<'a>(&'a self, _: &'a Username) -> Answer<'a, Result<(), ChatError>> {
        down()
    }

    fn match_room<'a>(&'a self, _: u32, _: &'a str) -> Answer<'a, Result<RoomId, ChatError>> {
        down()
    }

    fn create_room<'a>(&'a self, _: NewRoom<'a>) -> Answer<'a, Result<RoomId, ChatError>> {
        down()
    }

    fn join<'a>(&'a self, _: &'a Room, _: &'a Username, _: bool) -> Answer<'a, Result<(), ChatError>> {
        down()
    }

    fn leave<'a>(&'a self, _: &'a RoomId, _: &'a Username) -> Answer<'a, Result<(), ChatError>> {
        down()
    }

    fn invite<'a>(
        &'a self,
        _: &'a RoomId,
        _: &'a Username,
        _: &'a Username,
    ) -> Answer<'a, Result<(), ChatError>> {
        down()
    }
}
