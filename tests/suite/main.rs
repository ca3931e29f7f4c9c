//! Tests of the product from outside.
//!
//! `http` runs against any address: the local stack by default, with another DynamoDB under it
//! (`TOUCHLINE_TEST_DYNAMODB`), with a real homeserver (`TOUCHLINE_TEST_HOMESERVER`), or a deployed API
//! (`TOUCHLINE_TEST_URL`). `real` needs components that `tests/real-components` starts.

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
