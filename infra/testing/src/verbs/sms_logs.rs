use lambda_http::http::Method;

use crate::persona::Persona;
use crate::{Api, Request};

#[derive(Debug)]
pub struct ListSmsLogs;

impl<A: Api> Persona<A> {
    pub fn lists_sms_logs(&self) -> Request<A, ListSmsLogs> {
        self.verb(Method::GET, "/api/logs/sms")
    }
}

impl<A: Api> Request<A, ListSmsLogs> {
    pub fn phone(self, phone: &str) -> Self {
        self.query("phone", phone)
    }

    /// Lists only messages of this date: `YYYY-MM-DD`.
    pub fn date(self, date: &str) -> Self {
        self.query("date", date)
    }

    /// Lists only messages with this status: `sent` or `failed`.
    pub fn status(self, status: &str) -> Self {
        self.query("status", status)
    }

    pub fn per_page(self, count: u32) -> Self {
        self.query("per_page", count)
    }

    pub fn cursor(self, cursor: &str) -> Self {
        self.query("cursor", cursor)
    }
}
