//! Tests of the product from outside.
//!
//! The tests in `http` run on the local stack by default. `TOUCHLINE_TEST_DYNAMODB` gives the local stack
//! another DynamoDB, and `TOUCHLINE_TEST_HOMESERVER` gives it a real homeserver. `TOUCHLINE_TEST_URL`
//! replaces the local stack by a deployed API. The tests in `real` need components that
//! `tests/real-components` starts.

mod architecture;
mod contract;
mod costs;
mod http;
mod matrix_client;
mod openapi;
mod policy;
mod real;
mod samples;
mod secrets;
mod store;
mod target;
