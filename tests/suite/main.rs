//! The tests that look at the product from outside.
//!
//! `http` holds to any address: the local stack by default, a DynamoDB of your choice under it with
//! `TOUCHLINE_TEST_DYNAMODB`, or a deployed API with `TOUCHLINE_TEST_URL`; with
//! `TOUCHLINE_TEST_HOMESERVER` its rooms are on a real homeserver. `real` needs components that
//! `tests/real-components` brings.

mod contract;
mod costs;
mod http;
mod openapi;
mod policy;
mod real;
mod samples;
mod secrets;
mod target;
