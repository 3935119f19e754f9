//! The blocks of pcapng (draft-ietf-opsawg-pcapng): sections, each with its byte order and its interfaces, and their
//! packets.

use std::io::Read;

use super::bytes::Order;
use super::file::Packet;
use super::window::Window;
use oscope_sys::error::Failure;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
/// Replaced by [`ENHANCED_PACKET`], and still found in old captures.
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
/// Type and length; the length stands once more at the end.
const HEAD: usize = 8;
const TAIL: usize = 4;
/// libpcap reads no larger one either.
const LARGEST_BLOCK: usize = 16 << 20;
const RESOLUTION: u16 = 9;
const OFFSET: u16 = 14;

/// What the blocks so far say of those that follow.
#[derive(Default)]
pub struct Section {
    order: Option<Order>,
    interfaces: Vec<Interface>,
}

struct Interface {
    link_type: u32,
    snaplen: u32,
    /// Units of a time stamp in a second; `None` where it is unknown.
    per_second: Option<u64>,
    /// Seconds to be added.
    offset_s: i64,
}

/// Where the parts of a packet are in the stream's next block.
struct Found {
    interface: u32,
    stamp: Option<u64>,
    start: usize,
    captured: usize,
    original: u32,
}

/// The packet of the next block that has one, or `None` at the end of the stream.
///
/// # Errors
/// `Failure::Failed` if the file is cut or damaged here.
pub fn next_packet<'a, R: Read>(
    section: &mut Section,
    window: &'a mut Window<R>,
    number: u64,
) -> Result<Option<Packet<'a>>, Failure> {
    let (length, found) = loop {
        let at = window.offset();
        let place = || format!("before or in packet {number}, at byte {at}");
        let damaged = |why: &str| Failure::failed(format!("damaged {}: {why}", place()));
        let cut = || Failure::failed(format!("cut {}", place()));
        let head = window.look(HEAD + TAIL)?;
        if head.is_empty() {
            return Ok(None);
        }
        if head.len() < HEAD + TAIL {
            return Err(cut());
        }
        let kind = section.order.unwrap_or(Order::Big).u32(head, 0);
        if kind == SECTION_HEADER {
            // The same in both orders; the body's first number has the order.
            section.order = Some(match head[HEAD..] {
                [0x1a, 0x2b, 0x3c, 0x4d] => Order::Big,
                [0x4d, 0x3c, 0x2b, 0x1a] => Order::Little,
                _ => return Err(damaged("a section without a byte order")),
            });
            section.interfaces.clear();
        }
        let order = section
            .order
            .ok_or_else(|| damaged("a block before any section"))?;
        let length = order.u32(head, 4) as usize;
        if !(HEAD + TAIL..=LARGEST_BLOCK).contains(&length) || length % 4 != 0 {
            return Err(damaged(&format!("a block of {length} bytes")));
        }
        let block = window.look(length)?;
        if block.len() < length {
            return Err(cut());
        }
        if order.u32(block, length - TAIL) as usize != length {
            return Err(damaged("a block whose two lengths differ"));
        }
        let body = &block[HEAD..length - TAIL];
        if let Some(found) = section.read(kind, body, order).map_err(damaged)? {
            break (length, found);
        }
        window.take(length);
    };
    let interface = &section.interfaces[found.interface as usize];
    let bytes = &window.take(length)[HEAD..][found.start..][..found.captured];
    Ok(Some(Packet {
        number,
        time_ns: found.stamp.and_then(|stamp| interface.time_ns(stamp)),
        link_type: interface.link_type,
        interface: found.interface,
        original: found.original,
        bytes,
    }))
}

impl Section {
    /// Heed a block, and return where in its body the packet is, if it has one.
    fn read(
        &mut self,
        kind: u32,
        body: &[u8],
        order: Order,
    ) -> Result<Option<Found>, &'static str> {
        let least = match kind {
            INTERFACE => 8,
            PACKET | ENHANCED_PACKET => 20,
            SIMPLE_PACKET => 4,
            _ => return Ok(None),
        };
        if body.len() < least {
            return Err("a block too short for its kind");
        }
        let found = match kind {
            INTERFACE => {
                self.interfaces.push(Interface::read(body, order));
                return Ok(None);
            }
            SIMPLE_PACKET => {
                let original = order.u32(body, 0);
                let interface = self
                    .interfaces
                    .first()
                    .ok_or("a packet of an unknown interface")?;
                let limit = match interface.snaplen {
                    0 => original,
                    snaplen => original.min(snaplen),
                };
                Found {
                    interface: 0,
                    stamp: None,
                    start: 4,
                    captured: limit as usize,
                    original,
                }
            }
            _ => Found {
                interface: match kind {
                    PACKET => order.u16(body, 0).into(),
                    _ => order.u32(body, 0),
                },
                stamp: Some((u64::from(order.u32(body, 4)) << 32) | u64::from(order.u32(body, 8))),
                start: 20,
                captured: order.u32(body, 12) as usize,
                original: order.u32(body, 16),
            },
        };
        if found.interface as usize >= self.interfaces.len() {
            return Err("a packet of an unknown interface");
        }
        if found.captured > body.len() - found.start {
            return Err("a packet longer than its block");
        }
        Ok(Some(found))
    }
}

impl Interface {
    fn read(body: &[u8], order: Order) -> Self {
        let mut found = Self {
            link_type: order.u16(body, 0).into(),
            snaplen: order.u32(body, 4),
            per_second: Some(1_000_000),
            offset_s: 0,
        };
        let mut rest = &body[8..];
        while rest.len() >= 4 {
            let (code, length) = (order.u16(rest, 0), usize::from(order.u16(rest, 2)));
            let Some(value) = rest[4..].get(..length) else {
                break;
            };
            match (code, length) {
                (RESOLUTION, 1) => found.per_second = per_second(value[0]),
                (OFFSET, 8) => found.offset_s = order.i64(value, 0),
                _ => {}
            }
            let padded = 4 + length.next_multiple_of(4);
            rest = rest.get(padded..).unwrap_or_default();
        }
        found
    }

    /// A stamp as ns since 1970, if that can be said in 64 bits.
    fn time_ns(&self, stamp: u64) -> Option<i64> {
        let per_second = i128::from(self.per_second?);
        let since = i128::from(stamp) * 1_000_000_000 / per_second;
        i64::try_from(since + i128::from(self.offset_s) * 1_000_000_000).ok()
    }
}

/// The units of a second: a power of 10, or of 2 where the highest bit is set.
fn per_second(resolution: u8) -> Option<u64> {
    let exponent = u32::from(resolution & 0x7f);
    match resolution & 0x80 {
        0 => 10_u64.checked_pow(exponent),
        _ => 1_u64.checked_shl(exponent),
    }
}
