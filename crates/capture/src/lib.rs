//! The verb `dhcp`: the packets of a capture that may be DHCP for IPv4, out of any number of others, one JSON object a
//! line.
//!
//! A capture of 1 GiB holds millions of packets, of which a handful matter: walking past the others is done here, what
//! the few mean is left to the laboratory. Memory does not grow with the capture.

mod bytes;
mod file;
mod layers;
mod links;
mod pcapng;
mod window;

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::io::{self, BufWriter, Read, Write};
use std::net::Ipv4Addr;

use serde_json::{Value, json};

use file::{Capture, Packet};
use layers::{Datagram, Fragment, Seen};
use links::{Link, Tunnel, read_link};
use oscope_sys::error::Failure;

/// First fragments that later ones are compared with; more at a time are not expected.
const FRAGMENTED: usize = 256;

/// Read a capture from `input` and write to `output` an object for each packet from or to port 67 or 68, and `{"end":
/// …}` at last.
///
/// # Errors
/// If it is no capture, cannot be read, or has a link layer that is not known; the last object reports what is wrong
/// further on.
pub fn show_dhcp(input: impl Read, output: impl Write) -> Result<(), Failure> {
    let mut output = BufWriter::new(output);
    let mut capture = Capture::open(input)?;
    let mut tally = Tally::default();
    let error = loop {
        match capture.next_packet() {
            Ok(None) => break None,
            Err(damage) => break Some(damage.to_string()),
            Ok(Some(packet)) => {
                if let Some(report) = tally.see(&packet) {
                    writeln!(output, "{report}")
                        .map_err(|error| Failure::system("cannot write", error))?;
                }
            }
        }
    };
    let end = json!({"end": {
        "format": capture.format(),
        "packets": tally.packets,
        "first_ns": tally.first_ns,
        "last_ns": tally.last_ns,
        "skipped": tally.skipped.iter().map(|(kind, at)| {
            json!({
                "link_type": kind,
                "name": links::name(*kind),
                "packets": at.count,
                "first": at.first,
            })
        }).collect::<Vec<_>>(),
        "not_read": tally.not_read.iter().map(|(what, at)| {
            json!({"what": what, "packets": at.count, "first": at.first})
        }).collect::<Vec<_>>(),
        "malformed": tally.malformed.iter().map(|(why, at)| {
            json!({"why": why, "packets": at.count, "first": at.first})
        }).collect::<Vec<_>>(),
        "error": error,
    }});
    writeln!(output, "{end}")
        .and_then(|()| output.flush())
        .map_err(|error| Failure::system("cannot write", error))
}

/// How many packets, and the number of the first.
struct Packets {
    count: u64,
    first: u64,
}

/// What is known of the packets seen so far.
#[derive(Default)]
struct Tally {
    packets: u64,
    first_ns: Option<i64>,
    last_ns: Option<i64>,
    /// By link type.
    skipped: BTreeMap<u32, Packets>,
    /// By protocol or tunnel.
    not_read: BTreeMap<&'static str, Packets>,
    /// By what is wrong.
    malformed: BTreeMap<&'static str, Packets>,
    /// Datagrams whose first fragment was reported.
    fragmented: VecDeque<(Ipv4Addr, Ipv4Addr, u16)>,
}

impl Tally {
    /// Count `packet`, and return the object that reports it, if there is one.
    fn see(&mut self, packet: &Packet<'_>) -> Option<Value> {
        self.packets = packet.number;
        if let Some(time) = packet.time_ns {
            self.first_ns.get_or_insert(time);
            self.last_ns = Some(time);
        }
        match read_link(packet.link_type, packet.bytes) {
            Seen::Other => None,
            Seen::UnknownLink => {
                count(&mut self.skipped, packet.link_type, packet.number);
                None
            }
            Seen::NotRead(what) => {
                count(&mut self.not_read, what, packet.number);
                None
            }
            Seen::Malformed(why) => {
                count(&mut self.malformed, why, packet.number);
                None
            }
            Seen::LaterFragment(found) => {
                let known = self.fragmented.contains(&found.identity());
                known.then(|| report(packet, &found))
            }
            Seen::Found(found) => {
                if found.fragment == Fragment::First {
                    self.fragmented.truncate(FRAGMENTED - 1);
                    self.fragmented.push_front(found.identity());
                }
                Some(report(packet, &found))
            }
        }
    }
}

fn count<Key: Ord>(packets: &mut BTreeMap<Key, Packets>, key: Key, number: u64) {
    packets
        .entry(key)
        .or_insert(Packets {
            count: 0,
            first: number,
        })
        .count += 1;
}

/// The object that reports a packet.
fn report(packet: &Packet<'_>, found: &Datagram<'_>) -> Value {
    json!({
        "packet": packet.number,
        "time_ns": packet.time_ns,
        "interface": packet.interface,
        "captured": packet.bytes.len(),
        "length": packet.original,
        "link": link(&found.around.link),
        "vlans": found.around.vlans,
        "tunnels": found.around.tunnels.iter().map(tunnel).collect::<Vec<_>>(),
        "source": found.source.to_string(),
        "destination": found.destination.to_string(),
        "ip_options": found.options,
        "fragment": match found.fragment {
            Fragment::None => Value::Null,
            Fragment::First => "first".into(),
            Fragment::Later => "later".into(),
        },
        "protocol": if found.is_tcp { "tcp" } else { "udp" },
        "source_port": found.source_port,
        "destination_port": found.destination_port,
        "missing": found.missing,
        "payload": hex::encode(found.payload),
    })
}

fn link(link: &Link<'_>) -> Value {
    match link {
        Link::Ethernet {
            source,
            destination,
        } => {
            json!({"kind": "ethernet", "source": hex::encode(*source), "destination": hex::encode(*destination)})
        }
        Link::Cooked { source } => json!({"kind": "cooked", "source": hex::encode(source)}),
        Link::None => json!({"kind": "none"}),
    }
}

fn tunnel(tunnel: &Tunnel) -> String {
    match tunnel {
        Tunnel::Pppoe(session) => format!("PPPoE session {session}"),
        Tunnel::Vxlan(network) => format!("VXLAN {network}"),
    }
}

/// The capture at standard input, reported on standard output.
///
/// # Errors
/// As [`show_dhcp`].
pub fn run() -> Result<(), Failure> {
    show_dhcp(io::stdin().lock(), io::stdout().lock())
}

#[cfg(test)]
mod tests;
