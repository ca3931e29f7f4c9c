use lambda_http::http::Method;

use crate::persona::Persona;
use crate::{Api, Request};

#[derive(Debug)]
pub struct ListBlocks;

impl<A: Api> Persona<A> {
    pub fn blocks(&self, user: u32) -> Request<A> {
        self.request(Method::POST, format!("/api/auth/users/{user}/block"))
    }

    pub fn unblocks(&self, user: u32) -> Request<A> {
        self.request(Method::POST, format!("/api/auth/users/{user}/unblock"))
    }

    pub fn lists_blocks(&self) -> Request<A, ListBlocks> {
        self.verb(Method::GET, "/api/auth/blocks")
    }
}

impl<A: Api> Request<A, ListBlocks> {
    pub fn per_page(self, count: u32) -> Self {
        self.query("per_page", count)
    }

    pub fn cursor(self, cursor: &str) -> Self {
        self.query("cursor", cursor)
    }
}
