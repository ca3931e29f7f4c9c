//! Ports: what the service needs from the outside world. Each port is a trait with a real implementation. The
//! ports for chat and text messages also have an implementation for local use. Secrets have no
//! trait, because only a starting Lambda function reads them. Invocations of functions have no trait, because only `standings`
//! invokes one.
//!
//! Asynchronous methods return boxed futures, because a `dyn` trait cannot have `async fn`.

mod aws_call;
pub mod aws_http;
pub mod chat;
pub mod clock;
pub mod lambda_invoke;
pub mod random;
pub mod secrets;
pub mod sms;
pub mod web;
