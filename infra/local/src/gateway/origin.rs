//! Protects the stack from pages of other origins that are open in the developer's browser.

use axum::http::HeaderMap;

/// Returns whether a page of another origin sent the request, according to the headers `origin` and
/// `sec-fetch-site`. Browsers set these headers. Other programs send neither, so their requests do not count as
/// cross-origin. The value `same-site` also means another origin, for example another port of the same host.
pub(super) fn is_cross_origin(headers: &HeaderMap, host: &str) -> bool {
    let header = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let is_own = |origin: &str| origin.split_once("://").is_some_and(|(_, authority)| authority == host);
    header("origin").is_some_and(|origin| !is_own(origin))
        || header("sec-fetch-site").is_some_and(|site| matches!(site, "cross-site" | "same-site"))
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn only_requests_from_pages_of_other_origins_are_cross_origin() {
        let from = |name: &'static str, value: &'static str| {
            let headers =
                HeaderMap::from_iter([(HeaderName::from_static(name), HeaderValue::from_static(value))]);
            is_cross_origin(&headers, "127.0.0.1:3000")
        };
        assert!(!is_cross_origin(&HeaderMap::new(), "127.0.0.1:3000"));
        assert!(!from("origin", "http://127.0.0.1:3000") && !from("sec-fetch-site", "same-origin"));
        assert!(!from("sec-fetch-site", "none"), "an address typed by the user");
        for origin in ["http://evil.example", "http://127.0.0.1:3001", "null", ""] {
            assert!(from("origin", origin), "{origin}");
        }
        assert!(from("sec-fetch-site", "cross-site"));
    }
}
