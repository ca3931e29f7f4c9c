use lambda_http::http::Method;

use crate::persona::Persona;
use crate::{Api, Request};

#[derive(Debug)]
pub struct VerifyCode;

#[derive(Debug)]
pub struct GenerateUsernames;

impl<A: Api> Persona<A> {
    pub fn requests_code(&self, phone: &str) -> Request<A> {
        self.request(Method::POST, "/api/code/request").field("phone", phone)
    }

    /// Requests a login code and reads it from the text message.
    pub async fn receives_code(&self, phone: &str) -> String {
        self.requests_code(phone).await.expect(200);
        self.api().last_code(phone).await
    }

    /// Logs in through `/api/code/verify`.
    pub fn verifies_code(&self, phone: &str, code: &str) -> Request<A, VerifyCode> {
        self.verb(Method::POST, "/api/code/verify").field("phone", phone).field("code", code)
    }

    /// Logs in through `/api/auth/login`.
    pub fn logs_in(&self, phone: &str, code: &str) -> Request<A, VerifyCode> {
        self.verb(Method::POST, "/api/auth/login").field("phone", phone).field("code", code)
    }

    pub fn logs_out(&self) -> Request<A> {
        self.request(Method::POST, "/api/auth/logout")
    }

    pub fn lists_sessions(&self) -> Request<A> {
        self.get("/api/auth/sessions")
    }

    pub fn revokes_session(&self, session: &str) -> Request<A> {
        self.request(Method::POST, format!("/api/auth/sessions/{session}/revoke"))
    }

    /// Takes an account back to its previous phone.
    pub fn undoes_phone_change(&self, phone: &str, code: &str) -> Request<A> {
        self.request(Method::POST, "/api/phone/undo").field("phone", phone).field("code", code)
    }

    pub fn checks_username(&self, username: &str) -> Request<A> {
        self.request(Method::POST, "/api/auth/username/check").field("username", username)
    }

    pub fn generates_usernames(&self, base: &str) -> Request<A, GenerateUsernames> {
        self.verb(Method::POST, "/api/auth/username/generate").field("base", base)
    }
}

impl<A: Api> Request<A, VerifyCode> {
    /// Sets the username that a new user wants.
    pub fn username(self, username: &str) -> Self {
        self.field("username", username)
    }

    /// Sets the date of birth of a new user: `YYYY-MM-DD`.
    pub fn date_of_birth(self, date: &str) -> Self {
        self.field("date_of_birth", date)
    }
}

impl<A: Api> Request<A, GenerateUsernames> {
    pub fn include_numbers(self, include: bool) -> Self {
        self.field("include_numbers", include)
    }
}
