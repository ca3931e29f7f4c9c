use futures_util::future::BoxFuture;
use touchline::domain::Username;
use touchline::domain::chat::Credentials;
use touchline::domain::room::{Room, RoomId};
use touchline::ports::chat::{Chat, ChatError, Closed, NewRoom};

/// A chat network that is down.
#[derive(Debug)]
pub(crate) struct NoChat;

fn down<'a, T: Send + 'a>() -> BoxFuture<'a, Result<T, ChatError>> {
    Box::pin(async { Err(ChatError::Unavailable("down".into())) })
}

impl Chat for NoChat {
    fn log_in<'a>(&'a self, _: &'a Username, _: &'a str) -> BoxFuture<'a, Result<Credentials, ChatError>> {
        down()
    }

    fn log_out<'a>(&'a self, _: &'a Username, _: &'a str) -> BoxFuture<'a, Result<(), ChatError>> {
        down()
    }

    fn log_out_everywhere<'a>(&'a self, _: &'a Username) -> BoxFuture<'a, Result<(), ChatError>> {
        down()
    }

    fn erase_user<'a>(&'a self, _: &'a Username) -> BoxFuture<'a, Result<bool, ChatError>> {
        down()
    }

    fn update_ignored_users<'a>(
        &'a self,
        _: &'a Username,
        _: &'a [Username],
        _: &'a [Username],
    ) -> BoxFuture<'a, Result<(), ChatError>> {
        down()
    }

    fn has_rooms<'a>(&'a self, _: &'a Username) -> BoxFuture<'a, Result<bool, ChatError>> {
        down()
    }

    fn ensure_user<'a>(&'a self, _: &'a Username) -> BoxFuture<'a, Result<(), ChatError>> {
        down()
    }

    fn match_room<'a>(&'a self, _: u32, _: &'a str) -> BoxFuture<'a, Result<RoomId, ChatError>> {
        down()
    }

    fn rename_match_room<'a>(&'a self, _: &'a RoomId, _: &'a str) -> BoxFuture<'a, Result<(), ChatError>> {
        down()
    }

    fn create_room<'a>(&'a self, _: NewRoom<'a>) -> BoxFuture<'a, Result<RoomId, ChatError>> {
        down()
    }

    fn join<'a>(&'a self, _: &'a Room, _: &'a Username, _: bool) -> BoxFuture<'a, Result<(), ChatError>> {
        down()
    }

    fn close_room<'a>(
        &'a self,
        _: &'a RoomId,
        _: Option<&'a Username>,
    ) -> BoxFuture<'a, Result<Closed, ChatError>> {
        down()
    }

    fn kick<'a>(
        &'a self,
        _: &'a RoomId,
        _: &'a Username,
        _: &'a Username,
    ) -> BoxFuture<'a, Result<(), ChatError>> {
        down()
    }

    fn kick_others<'a>(&'a self, _: &'a RoomId, _: &'a Username) -> BoxFuture<'a, Result<(), ChatError>> {
        down()
    }

    fn leave<'a>(&'a self, _: &'a RoomId, _: &'a Username) -> BoxFuture<'a, Result<(), ChatError>> {
        down()
    }

    fn invite<'a>(
        &'a self,
        _: &'a RoomId,
        _: &'a Username,
        _: &'a Username,
    ) -> BoxFuture<'a, Result<(), ChatError>> {
        down()
    }
}
