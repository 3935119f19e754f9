//! Link layers down to IP: Ethernet (also VLANs, stacked), Linux cooked v1 and v2, BSD loopback, PPP (RFC 1661), PPPoE
//! (RFC 2516), raw IP.

use super::bytes::Order::{Big, Little};
use super::layers::{Around, Seen, read_ipv4, read_ipv6};

// Values of tcpdump.org/linktypes.html.
const BSD_LOOPBACK: u32 = 0;
const ETHERNET: u32 = 1;
const PPP: u32 = 9;
const PPP_HDLC: u32 = 50;
const PPPOE: u32 = 51;
const RAW: u32 = 101;
const CISCO_HDLC: u32 = 104;
const OPENBSD_LOOPBACK: u32 = 108;
const COOKED: u32 = 113;
const PPP_WITH_DIRECTION: u32 = 204;
const IPV4: u32 = 228;
const IPV6: u32 = 229;
const COOKED_2: u32 = 276;

const TYPE_IPV4: u16 = 0x0800;
const TYPE_IPV6: u16 = 0x86dd;
const TYPE_MPLS: u16 = 0x8847;
const TYPE_MPLS_MULTICAST: u16 = 0x8848;
const TYPE_PPPOE_SESSION: u16 = 0x8864;
const PPPOE_HEADER: usize = 6;

/// Whether packets of this link type can be read.
pub fn is_known(link_type: u32) -> bool {
    matches!(
        link_type,
        BSD_LOOPBACK
            | ETHERNET
            | PPP
            | PPP_HDLC
            | PPPOE
            | RAW
            | CISCO_HDLC
            | OPENBSD_LOOPBACK
            | COOKED
            | PPP_WITH_DIRECTION
            | IPV4
            | IPV6
            | COOKED_2
    )
}

/// What a link type that cannot be read is, where people meet it.
pub fn name(link_type: u32) -> Option<&'static str> {
    Some(match link_type {
        6 => "Token Ring",
        10 => "FDDI",
        105 => "IEEE 802.11",
        107 => "Frame Relay",
        127 => "IEEE 802.11 with radiotap",
        166 => "PPP of pppd",
        189 | 220 => "USB",
        187 | 201 | 251 => "Bluetooth",
        _ => return None,
    })
}

/// What is known of the link layer.
pub enum Link<'a> {
    /// Both addresses.
    Ethernet {
        source: &'a [u8; 6],
        destination: &'a [u8; 6],
    },
    /// The sender's address, as long as it is.
    Cooked { source: &'a [u8] },
    /// There is no link layer, or one without addresses.
    None,
}

/// What a packet was put into on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tunnel {
    /// With the number of its session.
    Pppoe(u16),
    /// With the number of its network.
    Vxlan(u32),
}

/// Read a packet.
pub fn read_link(link_type: u32, bytes: &[u8]) -> Seen<'_> {
    match link_type {
        ETHERNET => read_ethernet(bytes, Vec::new()),
        COOKED => read_cooked(bytes, 14, 16, 6),
        COOKED_2 => read_cooked(bytes, 0, 20, 12),
        BSD_LOOPBACK | OPENBSD_LOOPBACK => read_loopback(bytes),
        PPP | PPP_HDLC | CISCO_HDLC => read_ppp(bytes, bare(Vec::new())),
        // The first byte says which way it went.
        PPP_WITH_DIRECTION => read_ppp(bytes.get(1..).unwrap_or_default(), bare(Vec::new())),
        PPPOE => read_pppoe(bytes, bare(Vec::new())),
        IPV4 => read_ipv4(bytes, bare(Vec::new())),
        IPV6 => read_ipv6(bytes, bare(Vec::new())),
        // The first half byte is the version.
        RAW if bytes.first().is_some_and(|first| first >> 4 == 6) => {
            read_ipv6(bytes, bare(Vec::new()))
        }
        RAW => read_ipv4(bytes, bare(Vec::new())),
        _ => Seen::UnknownLink,
    }
}

/// Read an Ethernet frame that was taken out of `tunnels`.
pub fn read_ethernet(bytes: &[u8], tunnels: Vec<Tunnel>) -> Seen<'_> {
    let Some((destination, rest)) = bytes.split_first_chunk() else {
        return Seen::Malformed("too short for its link layer");
    };
    let Some((source, rest)) = rest.split_first_chunk() else {
        return Seen::Malformed("too short for its link layer");
    };
    let Some((kind, rest)) = rest.split_first_chunk() else {
        return Seen::Malformed("too short for its link layer");
    };
    let around = Around {
        link: Link::Ethernet {
            source,
            destination,
        },
        vlans: Vec::new(),
        tunnels,
    };
    read_type(u16::from_be_bytes(*kind), rest, around)
}

/// Around a packet that has no link layer of its own, taken out of `tunnels`.
pub fn bare<'a>(tunnels: Vec<Tunnel>) -> Around<'a> {
    Around {
        link: Link::None,
        vlans: Vec::new(),
        tunnels,
    }
}

/// A Linux cooked capture: where its header has the protocol, where it ends, and where the address is.
fn read_cooked(bytes: &[u8], type_at: usize, end: usize, address_at: usize) -> Seen<'_> {
    if bytes.len() < end {
        return Seen::Malformed("too short for its link layer");
    }
    // There is room for 8 bytes; the byte before says how many are used.
    let length = usize::from(bytes[address_at - 1]).min(8);
    let link = Link::Cooked {
        source: &bytes[address_at..address_at + length],
    };
    let around = Around {
        link,
        ..bare(Vec::new())
    };
    read_type(Big.u16(bytes, type_at), &bytes[end..], around)
}

/// What an EtherType announces.
fn read_type<'a>(mut kind: u16, mut rest: &'a [u8], mut around: Around<'a>) -> Seen<'a> {
    // 802.1Q, 802.1ad, and what came before the latter.
    while matches!(kind, 0x8100 | 0x88a8 | 0x9100) {
        if rest.len() < 4 {
            return Seen::Malformed("cut within its VLAN tag");
        }
        around.vlans.push(Big.u16(rest, 0) & 0x0fff);
        kind = Big.u16(rest, 2);
        rest = &rest[4..];
    }
    match kind {
        TYPE_IPV4 => read_ipv4(rest, around),
        TYPE_IPV6 => read_ipv6(rest, around),
        TYPE_PPPOE_SESSION => read_pppoe(rest, around),
        TYPE_MPLS | TYPE_MPLS_MULTICAST => Seen::NotRead("MPLS"),
        _ => Seen::Other,
    }
}

/// BSD's loopback: an address family, in the byte order of the host that captured, or of the network.
fn read_loopback(bytes: &[u8]) -> Seen<'_> {
    if bytes.len() < 4 {
        return Seen::Malformed("too short for its link layer");
    }
    let family = Little.u32(bytes, 0).min(Big.u32(bytes, 0));
    match family {
        2 => read_ipv4(&bytes[4..], bare(Vec::new())),
        // Linux; NetBSD and OpenBSD; FreeBSD; macOS.
        10 | 24 | 28 | 30 => read_ipv6(&bytes[4..], bare(Vec::new())),
        _ => Seen::Other,
    }
}

/// A PPPoE session's packet: version and type 1, code 0, session, length.
fn read_pppoe<'a>(bytes: &'a [u8], mut around: Around<'a>) -> Seen<'a> {
    if bytes.len() < PPPOE_HEADER {
        return Seen::Malformed("cut within its PPPoE header");
    }
    if bytes[0] != 0x11 {
        return Seen::Malformed("no sound PPPoE header");
    }
    if bytes[1] != 0 {
        // Discovery of a session.
        return Seen::Other;
    }
    around.tunnels.push(Tunnel::Pppoe(Big.u16(bytes, 2)));
    read_ppp(&bytes[PPPOE_HEADER..], around)
}

/// PPP, with or without the two bytes of framing that carry nothing, its protocol in two bytes or compressed to one.
fn read_ppp<'a>(bytes: &'a [u8], around: Around<'a>) -> Seen<'a> {
    let (bytes, is_cisco) = match bytes {
        [0xff, 0x03, rest @ ..] => (rest, false),
        [0x0f | 0x8f, _, rest @ ..] => (rest, true),
        _ => (bytes, false),
    };
    if is_cisco {
        return match bytes.split_first_chunk() {
            Some((kind, rest)) => read_type(u16::from_be_bytes(*kind), rest, around),
            None => Seen::Malformed("too short for its link layer"),
        };
    }
    let (protocol, rest) = match bytes {
        [odd, rest @ ..] if odd & 1 == 1 => (u16::from(*odd), rest),
        [high, low, rest @ ..] => (u16::from_be_bytes([*high, *low]), rest),
        _ => return Seen::Malformed("too short for its link layer"),
    };
    match protocol {
        0x0021 => read_ipv4(rest, around),
        0x0057 => read_ipv6(rest, around),
        // How PPP gives IPv4 addresses (RFC 1332).
        0x8021 => Seen::NotRead("IPCP"),
        _ => Seen::Other,
    }
}
