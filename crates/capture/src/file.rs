//! Captures as files: pcap (draft-ietf-opsawg-pcap), in either byte order, with µs or ns; pcapng is in
//! [`super::pcapng`].
//!
//! Of 1 GiB in large or small packets, this takes as long as pcap-parser 0.16 with etherparse 0.16 does (0.14 s and
//! 0.41 s of CPU time beside 0.14 s and 0.38 s). It says in which packet and at which byte a capture is cut or
//! damaged, and follows PPPoE and VXLAN, which those two leave to their user.

use std::io::Read;

use super::bytes::Order;
use super::links::{self, is_known};
use super::pcapng::{self, Section};
use super::window::Window;
use oscope_sys::error::Failure;

/// A packet of a link layer that is known is never larger (MAXIMUM_SNAPLEN of libpcap): a larger one is damage.
pub const LARGEST_PACKET: usize = 262_144;
const HEADER: usize = 24;
const RECORD: usize = 16;
const REMEDY: &str = "give a file written by tcpdump -w or Wireshark";

/// One packet as it was captured.
pub struct Packet<'a> {
    /// From 1 on, as Wireshark and `tcpdump --number` count.
    pub number: u64,
    /// Since 1970 in UTC, in ns; `None` where the file has no time for it.
    pub time_ns: Option<i64>,
    /// A LINKTYPE value of tcpdump.org/linktypes.html.
    pub link_type: u32,
    /// Its number within the section, from 0 on.
    pub interface: u32,
    /// Bytes that it had on the wire.
    pub original: u32,
    /// What was captured of it.
    pub bytes: &'a [u8],
}

/// A capture that is being read.
pub struct Capture<R> {
    window: Window<R>,
    kind: Kind,
    count: u64,
}

enum Kind {
    Pcap {
        order: Order,
        /// Nanoseconds of one unit of a fraction.
        fraction_ns: i64,
        link_type: u32,
    },
    Pcapng(Section),
}

impl<R: Read> Capture<R> {
    /// Read the header.
    ///
    /// # Errors
    /// If it is no capture, or no packet in it could be understood.
    pub fn open(input: R) -> Result<Self, Failure> {
        let mut window = Window::new(input);
        let start = window
            .look(HEADER)
            .map_err(|failure| failure.context("cannot be read"))?;
        let kind = match start {
            [] => return Err(Failure::unavailable("is empty", REMEDY)),
            [0x1f, 0x8b, ..] => {
                return Err(Failure::unavailable(
                    "is compressed",
                    "unpack it first with gunzip",
                ));
            }
            [0x0a, 0x0d, 0x0d, 0x0a, ..] => Kind::Pcapng(Section::default()),
            _ => {
                let kind = pcap(start)?;
                window.take(HEADER);
                kind
            }
        };
        Ok(Self {
            window,
            kind,
            count: 0,
        })
    }

    /// What the file is, in words.
    pub fn format(&self) -> &'static str {
        match self.kind {
            Kind::Pcap { .. } => "pcap",
            Kind::Pcapng(_) => "pcapng",
        }
    }

    /// The next packet, or `None` at the end.
    ///
    /// # Errors
    /// `Failure::Failed` if the file is cut or damaged here: where, and how. Nothing behind that can be read.
    pub fn next_packet(&mut self) -> Result<Option<Packet<'_>>, Failure> {
        let number = self.count + 1;
        let found = match &mut self.kind {
            Kind::Pcapng(section) => pcapng::next_packet(section, &mut self.window, number)?,
            Kind::Pcap {
                order,
                fraction_ns,
                link_type,
            } => record(&mut self.window, *order, *fraction_ns, *link_type, number)?,
        };
        self.count += u64::from(found.is_some());
        Ok(found)
    }
}

/// What the header of a pcap file says.
fn pcap(start: &[u8]) -> Result<Kind, Failure> {
    let (order, fraction_ns) = match start {
        [0xa1, 0xb2, 0xc3, 0xd4, ..] => (Order::Big, 1000),
        [0xd4, 0xc3, 0xb2, 0xa1, ..] => (Order::Little, 1000),
        [0xa1, 0xb2, 0x3c, 0x4d, ..] => (Order::Big, 1),
        [0x4d, 0x3c, 0xb2, 0xa1, ..] => (Order::Little, 1),
        _ => return Err(Failure::unavailable("is no packet capture", REMEDY)),
    };
    if start.len() < HEADER {
        return Err(Failure::unavailable("is cut within its header", REMEDY));
    }
    // The upper bits are about frame check sequences, which nothing here looks at.
    let link_type = order.u32(start, 20) & 0xffff;
    if !is_known(link_type) {
        return Err(Failure::unavailable(
            match links::name(link_type) {
                Some(name) => format!("has link type {link_type} ({name}), which is not read"),
                None => format!("has link type {link_type}, which is not read"),
            },
            "capture on Ethernet, on any (Linux cooked), on a loopback, on PPP or raw IP",
        ));
    }
    Ok(Kind::Pcap {
        order,
        fraction_ns,
        link_type,
    })
}

fn record<R: Read>(
    window: &mut Window<R>,
    order: Order,
    fraction_ns: i64,
    link_type: u32,
    number: u64,
) -> Result<Option<Packet<'_>>, Failure> {
    let at = window.offset();
    let cut = || Failure::failed(format!("cut within packet {number}, at byte {at}"));
    let header = window.look(RECORD)?;
    if header.is_empty() {
        return Ok(None);
    }
    if header.len() < RECORD {
        return Err(cut());
    }
    let (seconds, fraction) = (order.u32(header, 0), order.u32(header, 4));
    let (captured, original) = (order.u32(header, 8) as usize, order.u32(header, 12));
    if captured > LARGEST_PACKET {
        return Err(Failure::failed(format!(
            "damaged at packet {number}, byte {at}: its length is {captured}"
        )));
    }
    if window.look(RECORD + captured)?.len() < RECORD + captured {
        return Err(cut());
    }
    let bytes = &window.take(RECORD + captured)[RECORD..];
    Ok(Some(Packet {
        number,
        time_ns: Some(i64::from(seconds) * 1_000_000_000 + i64::from(fraction) * fraction_ns),
        link_type,
        interface: 0,
        original,
        bytes,
    }))
}
