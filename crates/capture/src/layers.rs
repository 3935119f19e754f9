//! What a packet is, as far as DHCP goes: IPv4 (RFC 791) and UDP (RFC 768) below any link layer of [`super::links`],
//! and DHCPv6 and tunnels, which are counted where they are not read.
//!
//! Fragments are not reassembled: each is reported as a fragment.

use std::net::Ipv4Addr;

use super::bytes::Order::Big;
use super::links::{self, Link, Tunnel};

const HOP_BY_HOP: u8 = 0;
const IP_IN_IP: u8 = 4;
const TCP: u8 = 6;
const UDP: u8 = 17;
const IPV6_IN_IP: u8 = 41;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const GRE: u8 = 47;
const DESTINATION_OPTIONS: u8 = 60;
const IPV6_HEADER: usize = 40;
const UDP_HEADER: usize = 8;
const SERVER: u16 = 67;
const CLIENT: u16 = 68;
const CLIENT_6: u16 = 546;
const SERVER_6: u16 = 547;
const VXLAN: u16 = 4789;
const VXLAN_GPE: u16 = 4790;
/// Linux's own default, older than the registered one.
const VXLAN_LINUX: u16 = 8472;
// Flags of VXLAN's header.
const HAS_PROTOCOL: u8 = 0x04;
const HAS_NETWORK: u8 = 0x08;
const HAS_POLICY: u8 = 0x80;
/// A packet in more tunnels than this is made to keep readers busy.
const MOST_TUNNELS: usize = 8;

/// What a packet is.
pub enum Seen<'a> {
    /// It has nothing to do with DHCP for IPv4.
    Other,
    /// Its link type is not known.
    UnknownLink,
    /// It gives addresses by another protocol, or is in a tunnel that is not read: which.
    NotRead(&'static str),
    /// It is unknown whether it has; why.
    Malformed(&'static str),
    /// A fragment other than the first, which has no ports: it may be of a datagram that has been seen.
    LaterFragment(Datagram<'a>),
    /// From or to the ports of DHCP.
    Found(Datagram<'a>),
}

/// What is around an IP packet.
pub struct Around<'a> {
    /// The link layer; within VXLAN that of the inner frame.
    pub link: Link<'a>,
    /// VLANs of that frame, the outermost first.
    pub vlans: Vec<u16>,
    /// Tunnels, the outermost first.
    pub tunnels: Vec<Tunnel>,
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
    /// What is around it.
    pub around: Around<'a>,
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

/// Read an IPv4 packet.
pub fn read_ipv4<'a>(bytes: &'a [u8], around: Around<'a>) -> Seen<'a> {
    if bytes.len() < 20 {
        return Seen::Malformed("cut within its IPv4 header");
    }
    let header = usize::from(bytes[0] & 0x0f) * 4;
    if bytes[0] >> 4 != 4 || header < 20 {
        return Seen::Malformed("no sound IPv4 header");
    }
    let protocol = bytes[9];
    if protocol != UDP && protocol != TCP {
        return tunnel(protocol);
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
        around,
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
        return match found.is_tcp {
            true => Seen::Other,
            false => read_vxlan(ports.1, inside, found.around.tunnels),
        };
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

/// Read an IPv6 packet (RFC 8200): only what it carries over UDP matters.
pub fn read_ipv6<'a>(bytes: &'a [u8], around: Around<'a>) -> Seen<'a> {
    if bytes.len() < IPV6_HEADER {
        return Seen::Malformed("cut within its IPv6 header");
    }
    let (mut next, mut inside) = (bytes[6], &bytes[IPV6_HEADER..]);
    while matches!(next, HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION_OPTIONS) {
        if inside.len() < 8 {
            return Seen::Malformed("cut within its IPv6 header");
        }
        if next == FRAGMENT && Big.u16(inside, 2) >> 3 != 0 {
            return Seen::Other;
        }
        // A fragment header has a reserved byte where others have their length.
        let length = match next {
            FRAGMENT => 8,
            _ => 8 + 8 * usize::from(inside[1]),
        };
        next = inside[0];
        inside = inside.get(length..).unwrap_or_default();
    }
    if next != UDP {
        return tunnel(next);
    }
    if inside.len() < 4 {
        return Seen::Malformed("cut before its UDP ports");
    }
    let ports = [Big.u16(inside, 0), Big.u16(inside, 2)];
    if ports
        .iter()
        .any(|port| matches!(*port, CLIENT_6 | SERVER_6))
    {
        return Seen::NotRead("DHCPv6");
    }
    read_vxlan(ports[1], inside, around.tunnels)
}

/// Look for a frame or a packet in a UDP datagram that goes to `port`: VXLAN (RFC 7348), also with a group policy, and
/// VXLAN-GPE (draft-ietf-nvo3-vxlan-gpe).
fn read_vxlan(port: u16, datagram: &[u8], mut tunnels: Vec<Tunnel>) -> Seen<'_> {
    if !matches!(port, VXLAN | VXLAN_GPE | VXLAN_LINUX) {
        return Seen::Other;
    }
    let strange = |seen| match port {
        // Nobody has registered this port for VXLAN: it is something else.
        VXLAN_LINUX => Seen::Other,
        _ => seen,
    };
    let Some((header, inside)) = datagram
        .get(UDP_HEADER..)
        .and_then(|rest| rest.split_first_chunk::<8>())
    else {
        return strange(Seen::Malformed("cut within its VXLAN header"));
    };
    let [flags, _, _, next, high, middle, low, 0] = *header else {
        return strange(Seen::NotRead("VXLAN of another version"));
    };
    if flags & HAS_NETWORK == 0 || flags & !(HAS_NETWORK | HAS_PROTOCOL | HAS_POLICY) != 0 {
        return strange(Seen::NotRead("VXLAN of another version"));
    }
    if tunnels.len() == MOST_TUNNELS {
        return Seen::NotRead("tunnels in tunnels");
    }
    tunnels.push(Tunnel::Vxlan(u32::from_be_bytes([0, high, middle, low])));
    match (flags & HAS_PROTOCOL != 0, next) {
        (true, 1) => read_ipv4(inside, links::bare(tunnels)),
        (true, 2) => read_ipv6(inside, links::bare(tunnels)),
        (false, _) | (true, 3) => links::read_ethernet(inside, tunnels),
        _ => Seen::NotRead("VXLAN of another protocol"),
    }
}

/// Name a tunnel by its protocol number.
fn tunnel<'a>(protocol: u8) -> Seen<'a> {
    match protocol {
        IP_IN_IP | IPV6_IN_IP => Seen::NotRead("IP in IP"),
        GRE => Seen::NotRead("GRE"),
        _ => Seen::Other,
    }
}

fn address(bytes: &[u8], at: usize) -> Ipv4Addr {
    Ipv4Addr::new(bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3])
}
