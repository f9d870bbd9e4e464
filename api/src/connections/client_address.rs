//! Addresses of clients, and of the proxies that forward their requests.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    str::FromStr,
};

/// Prefix length that distinguishes IPv6 clients: a home or a machine is assigned a network of this length, and may use
/// any address of it.
const CLIENT_BITS_V6: u32 = 64;

/// A network, or a single address: `10.0.0.0/8`, `192.0.2.7`, `2001:db8::/32`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Network {
    base: IpAddr,
    bits: u32,
}

/// Returns the address that identifies a client: an IPv4 address, or the network of an IPv6 address.
pub(crate) fn client(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let mask = u128::MAX << (u128::BITS - CLIENT_BITS_V6);
            Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
        address @ IpAddr::V4(_) => address,
    }
}

impl Network {
    pub(crate) fn has(&self, address: IpAddr) -> bool {
        match (self.base, address.to_canonical()) {
            (IpAddr::V4(base), IpAddr::V4(address)) => {
                // A prefix of 0 bits contains every address; its shift overflows.
                (base.to_bits() ^ address.to_bits()).checked_shr(32 - self.bits).unwrap_or(0) == 0
            }
            (IpAddr::V6(base), IpAddr::V6(address)) => {
                (base.to_bits() ^ address.to_bits()).checked_shr(128 - self.bits).unwrap_or(0) == 0
            }
            _ => false,
        }
    }

    /// Parses a hop as proxies write it, some with its port. Returns `None` if it is not an address.
    pub(crate) fn address_of(hop: &str) -> Option<IpAddr> {
        let hop = hop.trim();
        let bare = hop.trim_start_matches('[').trim_end_matches(']');
        let with_port = || hop.parse::<SocketAddr>().ok().map(|address| address.ip());
        bare.parse::<IpAddr>().ok().or_else(with_port).map(|address| address.to_canonical())
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no network; write e.g. 10.0.0.0/8 or 192.0.2.7");
        let (base, bits) =
            text.split_once('/').map_or((text, None), |(base, bits)| (base, Some(bits)));
        let base: IpAddr = base.parse().map_err(|_| wrong())?;
        let most = if base.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).map_err(|_| wrong())?;
        if bits > most {
            return Err(wrong());
        }
        Ok(Self { base, bits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_network_has_its_addresses_and_no_others() {
        let has =
            |network: &str, address: &str| network.parse::<Network>().unwrap().has(ip(address));
        assert!(has("10.0.0.0/8", "10.255.0.1") && !has("10.0.0.0/8", "11.0.0.1"));
        assert!(has("192.0.2.7", "192.0.2.7") && !has("192.0.2.7", "192.0.2.6"));
        assert!(has("0.0.0.0/0", "203.0.113.9") && !has("0.0.0.0/0", "2001:db8::1"));
        assert!(has("2001:db8::/32", "2001:db8:7::1") && !has("::1", "::2"));
        assert!(has("::/0", "2001:db8::1"));
        assert!(has("127.0.0.0/8", "::ffff:127.0.0.1"), "an IPv4 client of an IPv6 socket");
        for wrong in ["", "10.0.0.0/33", "10.0.0/8", "proxy", "10.0.0.0/-1", "10.0.0.0/8/8"] {
            assert!(wrong.parse::<Network>().unwrap_err().contains("10.0.0.0/8"), "{wrong}");
        }
    }

    #[test]
    fn one_client_is_an_ipv4_address_or_an_ipv6_network() {
        assert_eq!(client(ip("192.0.2.7")), ip("192.0.2.7"));
        assert_eq!(client(ip("::ffff:192.0.2.7")), ip("192.0.2.7"));
        assert_eq!(client(ip("2001:db8:1:2:3:4:5:6")), client(ip("2001:db8:1:2::1")));
        assert_ne!(client(ip("2001:db8:1:2::1")), client(ip("2001:db8:1:3::1")));
    }

    #[test]
    fn a_hop_is_read_as_proxies_write_it() {
        for hop in [" 192.0.2.7", "192.0.2.7:4711", "::ffff:192.0.2.7"] {
            assert_eq!(Network::address_of(hop), Some(ip("192.0.2.7")), "{hop}");
        }
        for hop in ["2001:db8::1", "[2001:db8::1]", "[2001:db8::1]:4711"] {
            assert_eq!(Network::address_of(hop), Some(ip("2001:db8::1")), "{hop}");
        }
        assert_eq!(Network::address_of("unknown"), None);
    }
}
