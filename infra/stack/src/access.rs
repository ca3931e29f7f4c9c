//! Which requests the servers of this machine accept.
//!
//! A page that is open in the developer's browser can send requests to this machine. It can also give its own host name
//! the address of this machine (DNS rebinding): for the browser, the page and the server then have the same origin. So a
//! server accepts only host names that no page can choose, and rejects requests from pages of other origins.

use std::net::IpAddr;

use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The names by which containers reach their host.
const NAMES_FOR_CONTAINERS: [&str; 2] = ["host.docker.internal", "host.containers.internal"];

/// The hosts that a server accepts.
#[derive(Debug, Clone)]
pub struct Access {
    listening: IpAddr,
    names: Vec<String>,
}

/// Who sent an accepted request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender<'a> {
    /// A program, or a page of this server.
    Local,
    /// A page of this other origin. The server rejects the request, unless it allows the origin.
    Page(&'a str),
}

/// Why a request is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    #[error("The header Host is invalid.")]
    InvalidHost,
    #[error(
        "The host {0} is not allowed. Use localhost or the IP address, or start the stack with --allow-host {0}."
    )]
    Host(String),
}

impl Access {
    /// Accepts loopback addresses, the address that the server listens on, `localhost` and the given names. A server
    /// that listens on all addresses accepts each IP address: a page that uses one is recognised by its origin.
    #[must_use]
    pub fn new(listening: IpAddr, names: &[String]) -> Self {
        let mut names = names.to_vec();
        names.push("localhost".into());
        // Containers cannot reach a loopback address, so the names are only needed for other addresses.
        if !listening.is_loopback() {
            names.extend(NAMES_FOR_CONTAINERS.map(str::to_owned));
        }
        Self { listening, names }
    }

    /// Checks the headers of a request. A request without `Host` is accepted, because every browser sends one.
    pub fn check<'a>(&self, headers: &'a HeaderMap) -> Result<Sender<'a>, Denied> {
        let mut own = "";
        for host in headers.get_all(HOST) {
            own = host.to_str().map_err(|_| Denied::InvalidHost)?;
            let authority: Authority = own.parse().map_err(|_| Denied::InvalidHost)?;
            if !self.accepts(authority.host()) {
                return Err(Denied::Host(authority.host().to_owned()));
            }
        }
        Ok(sender(headers, own))
    }

    fn accepts(&self, host: &str) -> bool {
        match host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            Ok(ip) => {
                let ip = ip.to_canonical();
                ip.is_loopback() || self.listening.is_unspecified() || ip == self.listening
            }
            Err(_) => self.names.iter().any(|name| name.eq_ignore_ascii_case(host)),
        }
    }
}

/// Returns the sender of a request, according to the headers `origin` and `sec-fetch-site`. Browsers set these headers;
/// other programs send neither. The value `same-site` also means another origin, for example another port of the same
/// host.
fn sender<'a>(headers: &'a HeaderMap, host: &str) -> Sender<'a> {
    let header = |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let is_own = |origin: &str| origin.split_once("://").is_some_and(|(_, authority)| authority == host);
    match (header(&ORIGIN), header(&SEC_FETCH_SITE)) {
        (Some(origin), _) if !is_own(origin) => Sender::Page(origin),
        (_, Some("cross-site" | "same-site")) => Sender::Page(""),
        _ => Sender::Local,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(headers: &[(&'static str, &'static str)]) -> HeaderMap {
        let header = |(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value));
        headers.iter().copied().map(header).collect()
    }

    fn accepts(listening: &str, host: &'static str) -> bool {
        let access = Access::new(listening.parse().unwrap(), &["my.test".into()]);
        access.check(&headers(&[("host", host)])).is_ok()
    }

    #[test]
    fn only_local_addresses_and_allowed_names_are_accepted() {
        for host in ["127.0.0.1:3000", "127.9.9.9", "[::1]:3000", "localhost", "LOCALHOST:3000", "my.test:1"]
        {
            assert!(accepts("127.0.0.1", host), "{host}");
        }
        for host in
            ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "192.168.0.7", "0.0.0.0"]
        {
            assert!(!accepts("127.0.0.1", host), "{host}");
        }
        assert!(accepts("192.168.0.7", "192.168.0.7:3000") && !accepts("192.168.0.7", "192.168.0.8"));
        assert!(accepts("0.0.0.0", "192.168.0.8") && !accepts("0.0.0.0", "evil.example"));
    }

    #[test]
    fn containers_are_accepted_if_they_can_reach_the_server() {
        assert!(accepts("0.0.0.0", "host.docker.internal:8000"));
        assert!(!accepts("127.0.0.1", "host.docker.internal:8000"));
    }

    #[test]
    fn a_rejected_host_is_named_with_the_flag_that_allows_it() {
        let access = Access::new("127.0.0.1".parse().unwrap(), &[]);
        let denied = access.check(&headers(&[("host", "my.test:3000")])).unwrap_err();
        assert!(denied.to_string().contains("--allow-host my.test."), "{denied}");
        assert_eq!(access.check(&headers(&[("host", "[")])), Err(Denied::InvalidHost));
    }

    #[test]
    fn only_requests_from_pages_of_other_origins_are_cross_origin() {
        let own = "127.0.0.1:3000";
        let from = |name: &'static str, value: &'static str| {
            sender(&headers(&[(name, value)]), own) != Sender::Local
        };
        assert_eq!(sender(&HeaderMap::new(), own), Sender::Local);
        assert!(!from("origin", "http://127.0.0.1:3000") && !from("sec-fetch-site", "same-origin"));
        assert!(!from("sec-fetch-site", "none"), "an address typed by the user");
        for origin in ["http://evil.example", "http://127.0.0.1:3001", "null", ""] {
            assert!(from("origin", origin), "{origin}");
        }
        assert!(from("sec-fetch-site", "cross-site"));
    }
}
