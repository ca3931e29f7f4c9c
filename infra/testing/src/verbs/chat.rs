use lambda_http::http::Method;

use crate::persona::Persona;
use crate::{Api, Request, Response};

const ROOMS: &str = "/api/auth/chat-rooms";

#[derive(Debug)]
pub struct CreateRoom;

#[derive(Debug)]
pub struct ListRooms;

#[derive(Debug)]
pub struct Invite;

impl<A: Api> Persona<A> {
    /// Creates a room: public unless `private()` is added. [`Response::room_id`] returns the room's id.
    pub fn creates_room(&self, name: &str) -> Request<A, CreateRoom> {
        self.verb(Method::POST, "/api/auth/chat-room").field("name", name)
    }

    pub fn lists_rooms(&self) -> Request<A, ListRooms> {
        self.verb(Method::GET, ROOMS)
    }

    pub fn views_room(&self, room: &str) -> Request<A> {
        self.get(format!("{ROOMS}/{room}"))
    }

    pub fn joins(&self, room: &str) -> Request<A> {
        self.request(Method::POST, format!("{ROOMS}/{room}/join"))
    }

    pub fn leaves(&self, room: &str) -> Request<A> {
        self.request(Method::POST, format!("{ROOMS}/{room}/leave"))
    }

    /// Invites a user to a room: add `.user(id)` or `.username(name)`.
    pub fn invites_to(&self, room: &str) -> Request<A, Invite> {
        self.verb(Method::POST, format!("{ROOMS}/{room}/invite"))
    }

    /// Creates an invite link. [`Response::link_code`] returns its code.
    pub fn creates_invite_link(&self, room: &str) -> Request<A> {
        self.request(Method::POST, format!("{ROOMS}/{room}/invite-link"))
    }

    pub fn revokes_invite_link(&self, room: &str) -> Request<A> {
        self.request(Method::DELETE, format!("{ROOMS}/{room}/invite-link"))
    }

    pub fn accepts_invite_link(&self, code: &str) -> Request<A> {
        self.request(Method::POST, format!("/api/auth/invite-links/{code}/accept"))
    }

    pub fn views_member_stats(&self, room: &str) -> Request<A> {
        self.get(format!("{ROOMS}/{room}/member-stats"))
    }

    pub fn requests_chat_credentials(&self) -> Request<A> {
        self.request(Method::POST, "/api/auth/chat/credentials")
    }
}

impl<A: Api> Request<A, CreateRoom> {
    pub fn topic(self, topic: &str) -> Self {
        self.field("topic", topic)
    }

    pub fn about_event(self, event: u32) -> Self {
        self.field("event_id", event)
    }

    pub fn private(self) -> Self {
        self.field("is_private", true)
    }

    /// Chooses which matches count in the room's table: `match`, `tournament` or `all`.
    pub fn league(self, league: &str) -> Self {
        self.field("league", league)
    }
}

impl<A: Api> Request<A, ListRooms> {
    /// Lists only rooms that the caller has joined.
    pub fn joined(self) -> Self {
        self.query("joined", true)
    }

    pub fn about_event(self, event: u32) -> Self {
        self.query("event_id", event)
    }

    pub fn search(self, text: &str) -> Self {
        self.query("search", text)
    }

    pub fn per_page(self, count: u32) -> Self {
        self.query("per_page", count)
    }

    pub fn cursor(self, cursor: &str) -> Self {
        self.query("cursor", cursor)
    }
}

impl<A: Api> Request<A, Invite> {
    pub fn user(self, id: u32) -> Self {
        self.field("user_id", id)
    }

    pub fn username(self, username: &str) -> Self {
        self.field("username", username)
    }
}

impl Response {
    /// Checks that an invite link was created, and returns its code.
    #[track_caller]
    #[must_use]
    pub fn link_code(self) -> String {
        self.expect(201)["data"]["code"].as_str().expect("a link has a code").to_owned()
    }

    /// Checks that a room was created, and returns its id.
    #[track_caller]
    #[must_use]
    pub fn room_id(self) -> String {
        self.expect(201)["data"]["room_id"].as_str().expect("a room has an id").to_owned()
    }
}
