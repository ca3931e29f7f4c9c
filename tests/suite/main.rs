//! Tests of the product from outside.
//!
//! The tests in `http` run on the local stack by default. With `TOUCHLINE_TEST_DYNAMODB`, the local stack
//! uses another DynamoDB. With `TOUCHLINE_TEST_HOMESERVER`, it uses a real homeserver. With
//! `TOUCHLINE_TEST_URL`, the tests run on a deployed API instead of the local stack. The tests in `real` need
//! components that `tests/real-components` starts.

mod architecture;
mod build;
mod contract;
mod costs;
mod edge;
mod growth;
mod http;
mod matrix_client;
mod openapi;
mod policy;
mod real;
mod samples;
mod secrets;
mod store;
mod target;
