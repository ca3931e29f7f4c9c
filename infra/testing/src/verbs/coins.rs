use lambda_http::http::Method;

use crate::persona::Persona;
use crate::{Api, Request};

#[derive(Debug)]
pub struct Deduct;

#[derive(Debug)]
pub struct ViewCoins;

impl<A: Api> Persona<A> {
    /// Spends coins, for the reason `purchase` unless `.reason(…)` sets another reason.
    pub fn deducts(&self, amount: u32) -> Request<A, Deduct> {
        self.verb(Method::POST, "/api/auth/coins/deduct").field("amount", amount).field("reason", "purchase")
    }

    pub fn claims_daily_coins(&self) -> Request<A> {
        self.request(Method::POST, "/api/auth/daily-coins")
    }

    /// Reads the balance, the streak and a page of the history.
    pub fn views_coins(&self) -> Request<A, ViewCoins> {
        self.verb(Method::GET, "/api/auth/coins")
    }
}

impl<A: Api> Request<A, Deduct> {
    pub fn reason(self, reason: &str) -> Self {
        self.field("reason", reason)
    }

    /// Sets `reference_id`. Requests with the same reference id deduct once.
    pub fn reference(self, reference: impl Into<String>) -> Self {
        self.field("reference_id", reference.into())
    }
}

impl<A: Api> Request<A, ViewCoins> {
    pub fn per_page(self, count: u32) -> Self {
        self.query("per_page", count)
    }

    pub fn cursor(self, cursor: &str) -> Self {
        self.query("cursor", cursor)
    }
}
