//! Network addresses, for rate limits.

use std::net::IpAddr;

/// The network that a request came from: an IPv4 address or an IPv6 /64. Rate limits count per network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address(String);

impl Address {
    /// Returns the network of an IP address. Returns `None` for a loopback address, which has no rate limit:
    /// only local development uses loopback.
    ///
    /// An internet provider usually gives each customer a whole IPv6 /64, so all addresses of a /64 share one
    /// limit.
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

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the IPv6 /48 that an IPv6 /64 is a part of. Some customers get a whole /48, so they have 65,536 networks. But
    /// the /64 of many phones can be in one /48, so its limit is higher.
    #[must_use]
    pub fn wider(&self) -> Option<Self> {
        let groups: Vec<&str> = self.0.strip_suffix("::/64")?.split(':').take(3).collect();
        Some(Self(format!("{}::/48", groups.join(":"))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<String> {
        Address::of(text.parse().unwrap()).map(|address| address.0)
    }

    #[test]
    fn loopback_addresses_have_no_rate_limit() {
        assert_eq!(of("127.0.0.1"), None);
        assert_eq!(of("::1"), None);
        assert_eq!(of("::ffff:127.0.0.1"), None);
    }

    #[test]
    fn ipv6_addresses_of_the_same_64_bit_network_share_a_rate_limit() {
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("203.0.113.9").unwrap(), "203.0.113.9");
    }

    #[test]
    fn only_ipv6_networks_have_a_wider_one() {
        let wider = |text: &str| Address::of(text.parse().unwrap()).unwrap().wider();
        assert_eq!(wider("2001:db8:1:2::1").unwrap().as_str(), "2001:db8:1::/48");
        assert_eq!(wider("2001:db8:1:2::1"), wider("2001:db8:1:ffff::1"));
        assert_ne!(wider("2001:db8:1:2::1"), wider("2001:db8:2:2::1"));
        assert_eq!(wider("203.0.113.9"), None);
    }
}
