use std::net::IpAddr;

use super::Reason;

/// Where a request came from, at the grain that limits are counted by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address(String);

impl Address {
    /// `None` for loopback, which is never limited: it is a developer, not a stranger.
    ///
    /// An IPv6 customer commonly holds a whole /64, so the limit is counted for that network.
    #[must_use]
    pub fn of(source: IpAddr) -> Option<Self> {
        let source = source.to_canonical();
        if source.is_loopback() {
            return None;
        }
        Some(Self(match source {
            IpAddr::V4(v4) => v4.to_string(),
            IpAddr::V6(v6) => {
                let [a, b, c, d, ..] = v6.segments();
                format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
            }
        }))
    }

    pub fn parse(text: &str) -> Result<Option<Self>, Reason> {
        text.parse().map(Self::of).map_err(|_| "is not an IP address".into())
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<String> {
        Address::parse(text).unwrap().map(|address| address.0)
    }

    #[test]
    fn loopback_is_not_limited() {
        assert_eq!(of("127.0.0.1"), None);
        assert_eq!(of("::1"), None);
        assert_eq!(of("::ffff:127.0.0.1"), None);
    }

    #[test]
    fn neighbours_in_one_ipv6_network_count_together() {
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("203.0.113.9").unwrap(), "203.0.113.9");
    }
}
