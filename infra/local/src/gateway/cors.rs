//! Handles requests of web pages of other origins as API Gateway does, with the settings of the template.

use axum::body::Body;
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::response::Response;
use touchline_stack::resources::Cors;

/// Returns whether a browser asks if a page can send a request, before it sends the request itself.
pub(super) fn is_preflight(parts: &Parts) -> bool {
    parts.method == Method::OPTIONS && parts.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

pub(super) fn preflight(cors: &Cors) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    insert(&mut response, ACCESS_CONTROL_ALLOW_METHODS, &cors.methods.join(","));
    insert(&mut response, ACCESS_CONTROL_ALLOW_HEADERS, &cors.headers.join(","));
    insert(&mut response, ACCESS_CONTROL_MAX_AGE, &cors.max_age_seconds.to_string());
    response
}

/// Lets pages of the allowed origin read the response.
pub(super) fn allow(cors: &Cors, origin: &str, response: &mut Response) {
    insert(response, ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    insert(response, ACCESS_CONTROL_EXPOSE_HEADERS, &cors.exposed_headers.join(","));
    // The function can have a `Vary` of its own.
    response.headers_mut().append(VARY, HeaderValue::from_name(ORIGIN));
}

/// Adds a header. A text that is no valid value of a header is left out, and then the browser blocks the page.
fn insert(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}
