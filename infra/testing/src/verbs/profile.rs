use std::fmt::Display;

use lambda_http::http::Method;
use serde_json::json;

use crate::persona::Persona;
use crate::{Api, Request};

#[derive(Debug)]
pub struct UpdateProfile;

#[derive(Debug)]
pub struct SearchUsers;

impl<A: Api> Persona<A> {
    /// Reads the caller's profile: `GET /api/auth/me`.
    pub fn views_profile(&self) -> Request<A> {
        self.get("/api/auth/me")
    }

    /// Changes the caller's profile: `POST /api/auth/update-user-info`. Methods such as
    /// `.name("Ada")` set the fields to change.
    pub fn updates_profile(&self) -> Request<A, UpdateProfile> {
        self.verb(Method::POST, "/api/auth/update-user-info").body(json!({}))
    }

    /// Searches users by the beginning of their username.
    pub fn searches_users(&self, text: &str) -> Request<A, SearchUsers> {
        self.verb(Method::GET, "/api/auth/users").query("search", text)
    }

    /// Reads the public profile of a user, by id or username.
    pub fn views_user(&self, user: impl Display) -> Request<A> {
        self.get(format!("/api/auth/users/{user}"))
    }

    /// Starts the verification of a phone, to which a code is sent.
    pub fn initiates_verification(&self, phone: &str) -> Request<A> {
        self.request(Method::POST, "/api/auth/verify-phone/initiate").field("phone", phone)
    }

    /// Completes the verification of a phone.
    pub fn verifies_phone(&self, phone: &str, code: &str) -> Request<A> {
        self.request(Method::POST, "/api/auth/verify-phone").field("phone", phone).field("code", code)
    }

    /// Requests the code with which the caller can delete the account.
    pub fn requests_deletion(&self) -> Request<A> {
        self.request(Method::POST, "/api/auth/account/delete")
    }

    /// Deletes the caller's account.
    pub fn confirms_deletion(&self, code: &str) -> Request<A> {
        self.request(Method::POST, "/api/auth/account/delete/confirm").field("code", code)
    }

    /// Deletes the account of a phone with a login code, without a session.
    pub fn deletes_account_of(&self, phone: &str, code: &str) -> Request<A> {
        self.request(Method::POST, "/api/account/delete").field("phone", phone).field("code", code)
    }

    pub fn exports_account(&self) -> Request<A> {
        self.get("/api/auth/account/export")
    }

    /// Requests another code for the phone that is being verified.
    pub fn requests_new_code(&self, phone: &str) -> Request<A> {
        self.request(Method::POST, "/api/auth/resend-code").field("phone", phone)
    }
}

impl<A: Api> Request<A, SearchUsers> {
    pub fn per_page(self, count: u32) -> Self {
        self.query("per_page", count)
    }

    pub fn cursor(self, cursor: &str) -> Self {
        self.query("cursor", cursor)
    }
}

impl<A: Api> Request<A, UpdateProfile> {
    pub fn name(self, name: &str) -> Self {
        self.field("name", name)
    }

    pub fn email(self, email: &str) -> Self {
        self.field("email", email)
    }

    /// Sets the date of birth: `YYYY-MM-DD`.
    pub fn date_of_birth(self, date: &str) -> Self {
        self.field("date_of_birth", date)
    }

    pub fn username(self, username: &str) -> Self {
        self.field("username", username)
    }
}
