//! The layers of a packet down to UDP: Ethernet (also VLANs, stacked), Linux cooked v1 and v2, raw IP; IPv4 (RFC 791), UDP (RFC 768).
//!
//! Nothing is put together again: a fragment is told as what it is.

use std::net::Ipv4Addr;

use super::bytes::Order::Big;

const ETHERNET: u32 = 1;
const RAW: u32 = 101;
const COOKED: u32 = 113;
const IPV4: u32 = 228;
const COOKED_2: u32 = 276;

const TYPE_IPV4: u16 = 0x0800;
const TCP: u8 = 6;
const UDP: u8 = 17;
const UDP_HEADER: usize = 8;
const SERVER: u16 = 67;
const CLIENT: u16 = 68;

/// Whether packets of this link type can be read.
pub fn is_known(link_type: u32) -> bool {
    matches!(link_type, ETHERNET | RAW | COOKED | IPV4 | COOKED_2)
}

/// What a packet is.
pub enum Seen<'a> {
    /// It has nothing to do with DHCP for IPv4.
    Other,
    /// Its link type is not known.
    UnknownLink,
    /// Whether it has cannot be told, and why.
    Malformed(&'static str),
    /// A fragment other than the first, which has no ports: it may be of a datagram that has been seen.
    LaterFragment(Datagram<'a>),
    /// From or to the ports of DHCP.
    Found(Datagram<'a>),
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
    /// There is no link layer.
    None,
}

/// Whether a packet holds a part of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fragment {
    /// It holds all of it.
    None,
    /// The first part, with the ports.
    First,
    /// Another part.
    Later,
}

/// A UDP datagram, or a TCP segment to the same ports.
pub struct Datagram<'a> {
    /// The link layer.
    pub link: Link<'a>,
    /// VLANs, the outermost first.
    pub vlans: Vec<u16>,
    /// The IPv4 addresses.
    pub source: Ipv4Addr,
    /// The IPv4 addresses.
    pub destination: Ipv4Addr,
    /// Bytes of IPv4 options.
    pub options: usize,
    /// Which part of the datagram this is.
    pub fragment: Fragment,
    /// Else it is UDP.
    pub is_tcp: bool,
    /// `None` in a later fragment.
    pub source_port: Option<u16>,
    /// `None` in a later fragment.
    pub destination_port: Option<u16>,
    /// What UDP carries; nothing of TCP.
    pub payload: &'a [u8],
    /// Bytes of the payload that UDP promises and that are not there.
    pub missing: usize,
    identification: u16,
}

impl Datagram<'_> {
    /// What fragments of one datagram share.
    pub fn identity(&self) -> (Ipv4Addr, Ipv4Addr, u16) {
        (self.source, self.destination, self.identification)
    }
}

/// Tell what a packet is.
pub fn read_layers(link_type: u32, bytes: &[u8]) -> Seen<'_> {
    let (address_at, type_at, start) = match link_type {
        RAW | IPV4 => {
            // Raw IP of either version: the first half byte tells which.
            let is_six = link_type == RAW && bytes.first().is_some_and(|first| first >> 4 == 6);
            return match is_six {
                true => Seen::Other,
                false => read_ip(bytes, Link::None, Vec::new()),
            };
        }
        ETHERNET => (0, 12, 14),
        COOKED => (6, 14, 16),
        COOKED_2 => (12, 0, 20),
        _ => return Seen::UnknownLink,
    };
    if bytes.len() < start {
        return Seen::Malformed("too short for its link layer");
    }
    let mut kind = Big.u16(bytes, type_at);
    let mut rest = &bytes[start..];
    let mut vlans = Vec::new();
    // 802.1Q, 802.1ad, and what came before the latter.
    while matches!(kind, 0x8100 | 0x88a8 | 0x9100) {
        if rest.len() < 4 {
            return Seen::Malformed("cut within its VLAN tag");
        }
        vlans.push(Big.u16(rest, 0) & 0x0fff);
        kind = Big.u16(rest, 2);
        rest = &rest[4..];
    }
    if kind != TYPE_IPV4 {
        return Seen::Other;
    }
    read_ip(rest, read_link(link_type, bytes, address_at), vlans)
}

/// The link layer of a known type, whose addresses begin at `at`.
fn read_link(link_type: u32, bytes: &[u8], at: usize) -> Link<'_> {
    if link_type == ETHERNET
        && let Some((destination, rest)) = bytes.split_first_chunk()
        && let Some((source, _)) = rest.split_first_chunk()
    {
        return Link::Ethernet {
            source,
            destination,
        };
    }
    // There is room for 8 bytes; the byte before says how many are used.
    let length = usize::from(bytes[at - 1]).min(8);
    Link::Cooked {
        source: &bytes[at..at + length],
    }
}

fn read_ip<'a>(bytes: &'a [u8], link: Link<'a>, vlans: Vec<u16>) -> Seen<'a> {
    if bytes.len() < 20 {
        return Seen::Malformed("cut within its IPv4 header");
    }
    let header = usize::from(bytes[0] & 0x0f) * 4;
    if bytes[0] >> 4 != 4 || header < 20 {
        return Seen::Malformed("no sound IPv4 header");
    }
    let protocol = bytes[9];
    if protocol != UDP && protocol != TCP {
        return Seen::Other;
    }
    // Hardware that cuts packets itself leaves it 0 on the way there.
    let total = match usize::from(Big.u16(bytes, 2)) {
        0 => bytes.len(),
        total => total,
    };
    if total < header {
        return Seen::Malformed("no sound IPv4 header");
    }
    // What follows is padding of the link layer.
    let end = total.min(bytes.len());
    let inside = bytes.get(header..end).unwrap_or_default();
    let place = Big.u16(bytes, 6);
    let found = Datagram {
        link,
        vlans,
        source: address(bytes, 12),
        destination: address(bytes, 16),
        options: header - 20,
        fragment: Fragment::None,
        is_tcp: protocol == TCP,
        source_port: None,
        destination_port: None,
        payload: inside,
        missing: (total - header).saturating_sub(inside.len()),
        identification: Big.u16(bytes, 4),
    };
    if place & 0x1fff != 0 {
        return match protocol {
            UDP => Seen::LaterFragment(Datagram {
                fragment: Fragment::Later,
                ..found
            }),
            _ => Seen::Other,
        };
    }
    let is_first = place & 0x2000 != 0;
    read_ports(Datagram {
        fragment: if is_first {
            Fragment::First
        } else {
            Fragment::None
        },
        ..found
    })
}

/// Look at what IPv4 carries, which is all of `found.payload` so far.
fn read_ports(found: Datagram<'_>) -> Seen<'_> {
    let inside = found.payload;
    if inside.len() < 4 {
        return match found.is_tcp {
            true => Seen::Other,
            false => Seen::Malformed("cut before its UDP ports"),
        };
    }
    let ports = (Big.u16(inside, 0), Big.u16(inside, 2));
    if ![ports.0, ports.1]
        .iter()
        .any(|port| matches!(*port, SERVER | CLIENT))
    {
        return Seen::Other;
    }
    let found = Datagram {
        source_port: Some(ports.0),
        destination_port: Some(ports.1),
        ..found
    };
    if found.is_tcp {
        return Seen::Found(Datagram {
            payload: &[],
            missing: 0,
            ..found
        });
    }
    if inside.len() < UDP_HEADER {
        let missing = (found.missing + inside.len()).saturating_sub(UDP_HEADER);
        return Seen::Found(Datagram {
            payload: &[],
            missing,
            ..found
        });
    }
    let length = usize::from(Big.u16(inside, 4)).max(UDP_HEADER);
    let payload = &inside[UDP_HEADER..length.min(inside.len())];
    Seen::Found(Datagram {
        payload,
        missing: length - UDP_HEADER - payload.len(),
        ..found
    })
}

fn address(bytes: &[u8], at: usize) -> Ipv4Addr {
    Ipv4Addr::new(bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3])
}
