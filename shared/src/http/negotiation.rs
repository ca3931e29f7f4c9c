//! Decides in which form a response goes out: as it is, compressed, or without a body because the client has it already.
//! Also says which caches may keep it.

use std::borrow::Cow;

use lambda_http::Body;
use lambda_http::http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, VARY,
};
use lambda_http::http::{Response, StatusCode};

use super::compression::{self, MIN_LENGTH};
use super::etag::{EntityTag, IfNoneMatch};
use crate::api::Route;

/// What a request says about the form of its response.
#[derive(Debug)]
pub(super) struct Negotiation {
    accepts_gzip: bool,
    if_none_match: IfNoneMatch,
}

impl Negotiation {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        Self { accepts_gzip: compression::accepts_gzip(headers), if_none_match: IfNoneMatch::of(headers) }
    }

    /// Gives the response of an endpoint the form that the client accepts.
    pub(super) fn apply(&self, route: &Route, mut response: Response<Body>) -> Response<Body> {
        let caching = caching(route, response.status());
        response.headers_mut().insert(CACHE_CONTROL, caching);
        let Body::Text(text) = response.body() else { return response };
        let is_long = text.len() >= MIN_LENGTH;
        let is_compressed = is_long && self.accepts_gzip;
        let has_etag = route.has_etag && response.status().is_success();
        let tag = has_etag.then(|| EntityTag::of(text, is_compressed));
        let is_known = tag.as_ref().is_some_and(|tag| self.if_none_match.includes(tag));
        let compressed = (is_compressed && !is_known).then(|| compression::gzip(text));

        let headers = response.headers_mut();
        if is_long {
            headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
        }
        if let Some(tag) = tag {
            headers.insert(ETAG, tag.header());
        }
        if is_known {
            headers.remove(CONTENT_TYPE);
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            *response.body_mut() = Body::Empty;
        }
        // Writing to memory does not fail.
        if let Some(Ok(bytes)) = compressed {
            response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            // `lambda_http` encodes a binary body in base64, which API Gateway decodes.
            *response.body_mut() = Body::Binary(bytes);
        }
        response
    }
}

/// Returns the `Cache-Control` of a response.
fn caching(route: &Route, status: StatusCode) -> HeaderValue {
    let text: Cow<'static, str> = match route.public_for {
        Some(seconds) if status.is_success() => format!("public, max-age={seconds}").into(),
        // A response to a user's token is for this user, and may change with the next goal: a cache can keep it, but has
        // to ask each time.
        None if route.has_etag && status.is_success() => "private, no-cache".into(),
        // Other responses can contain a token, a phone number or a balance, or are errors.
        _ => "no-store".into(),
    };
    HeaderValue::try_from(&*text).unwrap_or_else(|_| HeaderValue::from_static("no-store"))
}

#[cfg(test)]
mod tests {
    use lambda_http::http::header::{ACCEPT_ENCODING, HeaderName, IF_NONE_MATCH};

    use super::*;
    use crate::api::endpoint::JSON;
    use crate::api::matches::{ListEvents, ListUpcoming};
    use crate::api::profile::Me;

    fn response(status: u16, length: usize) -> Response<Body> {
        let mut response = Response::new(Body::Text("x".repeat(length)));
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        response
    }

    fn sent(request: &[(HeaderName, &str)], has_etag: bool, response: Response<Body>) -> Response<Body> {
        let route = if has_etag { Route::of::<ListEvents>() } else { Route::of::<Me>() };
        let headers = request.iter().map(|(name, value)| (name.clone(), value.parse().unwrap()));
        Negotiation::of(&headers.collect()).apply(&route, response)
    }

    fn header(response: &Response<Body>, name: HeaderName) -> Option<&str> {
        response.headers().get(name).map(|value| value.to_str().unwrap())
    }

    const GZIP: (HeaderName, &str) = (ACCEPT_ENCODING, "gzip");

    #[test]
    fn long_bodies_are_compressed_for_clients_that_accept_it() {
        for (request, length, has_vary, is_compressed) in [
            (&[] as &[_], MIN_LENGTH, true, false),
            (&[GZIP], MIN_LENGTH, true, true),
            (&[GZIP], MIN_LENGTH - 1, false, false),
            (&[(ACCEPT_ENCODING, "gzip;q=0")], MIN_LENGTH, true, false),
        ] {
            let response = sent(request, false, response(200, length));
            assert_eq!(header(&response, VARY), has_vary.then_some("accept-encoding"), "{request:?}");
            assert_eq!(header(&response, CONTENT_ENCODING), is_compressed.then_some("gzip"), "{request:?}");
            assert_eq!(matches!(response.body(), Body::Binary(_)), is_compressed, "{request:?}");
            assert_eq!(header(&response, CONTENT_TYPE), Some(JSON));
            assert_eq!((header(&response, ETAG), header(&response, CACHE_CONTROL)), (None, Some("no-store")));
        }
    }

    #[test]
    fn a_body_that_the_client_has_is_304_in_the_same_encoding() {
        for (length, encoding) in [(10, "gzip"), (2_000, "identity"), (2_000, "gzip")] {
            let encoding = (ACCEPT_ENCODING, encoding);
            let first = sent(std::slice::from_ref(&encoding), true, response(200, length));
            assert_eq!(first.status(), 200);
            assert_eq!(header(&first, CACHE_CONTROL), Some("private, no-cache"));
            let tag = header(&first, ETAG).unwrap();
            let weak = format!("W/{tag}");
            for condition in [tag, &weak, "*"] {
                let second =
                    sent(&[encoding.clone(), (IF_NONE_MATCH, condition)], true, response(200, length));
                assert_eq!(second.status(), 304);
                assert!(matches!(second.body(), Body::Empty));
                for name in [ETAG, VARY, CACHE_CONTROL] {
                    assert_eq!(header(&second, name.clone()), header(&first, name));
                }
                assert_eq!((header(&second, CONTENT_TYPE), header(&second, CONTENT_ENCODING)), (None, None));
            }
            let changed = sent(&[encoding, (IF_NONE_MATCH, tag)], true, response(200, length + 1));
            assert_eq!(changed.status(), 200);
        }
    }

    #[test]
    fn the_tag_of_the_other_encoding_does_not_match() {
        let plain = sent(&[], true, response(200, 2_000));
        let condition = (IF_NONE_MATCH, header(&plain, ETAG).unwrap());
        assert_eq!(sent(&[GZIP, condition.clone()], true, response(200, 2_000)).status(), 200);
        assert_eq!(sent(&[condition], true, response(200, 2_000)).status(), 304);
    }

    #[test]
    fn errors_and_other_endpoints_have_no_etag_and_are_never_304() {
        for (status, has_etag) in [(404, true), (503, true), (200, false)] {
            let response = sent(&[(IF_NONE_MATCH, "*")], has_etag, response(status, 10));
            assert_eq!((response.status().as_u16(), header(&response, ETAG)), (status, None));
            assert_eq!(header(&response, CACHE_CONTROL), Some("no-store"), "{status}");
        }
    }

    #[test]
    fn only_successful_public_responses_can_be_kept_by_any_cache() {
        let route = Route::of::<ListUpcoming>();
        for (status, caching) in [(200, "public, max-age=30"), (422, "no-store"), (503, "no-store")] {
            let response = Negotiation::of(&HeaderMap::new()).apply(&route, response(status, 10));
            assert_eq!(header(&response, CACHE_CONTROL), Some(caching), "{status}");
        }
    }
}
