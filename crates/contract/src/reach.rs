//! Which machines nobody is sent to, whoever wrote the address and whatever name stands for it. Clouds
//! hand out credentials at link-local addresses, and what is unspecified or for many is no machine's.
//! Pure: names are looked up by those who connect, and they connect to what was looked at.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where clouds keep credentials, beyond the link-local ones.
const METADATA: [IpAddr; 6] = [
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
];

/// What leads to an address of the older kind through a gateway, for everyone (RFC 6052) or in a network
/// of one's own (RFC 8215).
const GATEWAY: [u16; 6] = [0x64, 0xff9b, 0, 0, 0, 0];
const OWN_GATEWAY: [u16; 3] = [0x64, 0xff9b, 1];
/// The same by a tunnel (RFC 3056), which has the address at its beginning.
const TUNNEL: u16 = 0x2002;

/// An address of the newer kind that only wraps one of the older, unwrapped.
pub fn plain(ip: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = ip else { return ip };
    let parts = v6.segments();
    let older = |high: u16, low: u16| {
        IpAddr::V4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
    };
    let compatible = parts[..6] == [0; 6] && !v6.is_unspecified() && !v6.is_loopback();
    let by_gateway = parts[..6] == GATEWAY || parts[..3] == OWN_GATEWAY;
    if v6.to_ipv4_mapped().is_some() || compatible || by_gateway {
        older(parts[6], parts[7])
    } else if parts[0] == TUNNEL {
        older(parts[1], parts[2])
    } else {
        ip
    }
}

/// Why nobody is sent to this address; nothing where one may be.
pub fn refusal(ip: IpAddr) -> Option<&'static str> {
    let ip = plain(ip);
    let link_local = match ip {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_broadcast() || v4.octets()[0] == 0,
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    if link_local || METADATA.contains(&ip) {
        Some("which is a link-local address: cloud machines offer their credentials there")
    } else if ip.is_unspecified() || ip.is_multicast() {
        Some("which is no machine's address")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_credentials_and_of_no_machine_are_refused_however_they_are_wrapped() {
        let refused = [
            "169.254.169.254",
            "169.254.0.1",
            "::ffff:169.254.169.254",
            "::169.254.169.254",
            "64:ff9b::169.254.169.254",
            "64:ff9b::100.100.100.200",
            "64:ff9b:1::169.254.169.254",
            "64:ff9b:1:2:3:4:169.254.169.254",
            "2002:a9fe:a9fe::1",
            "168.63.129.16",
            "fd20:ce::254",
            "fd00:c1::a9fe:a9fe",
            "fe80::1",
            "febf::1",
            "fd00:ec2::254",
            "100.100.100.200",
            "192.0.0.192",
            "0.0.0.0",
            "0.1.2.3",
            "::",
            "255.255.255.255",
            "224.0.0.1",
            "ff02::1",
        ];
        for ip in refused {
            assert!(refusal(ip.parse().unwrap()).is_some(), "{ip}");
        }
        let reached = [
            "127.0.0.1",
            "::1",
            "10.0.0.7",
            "192.168.1.1",
            "fd12::1",
            "93.184.216.34",
            "64:ff9b::93.184.216.34",
            "2002:5db8:d822::1",
            "169.253.0.1",
            "2001:db8::a9fe:a9fe",
        ];
        for ip in reached {
            assert_eq!(refusal(ip.parse().unwrap()), None, "{ip}");
        }
    }
}
