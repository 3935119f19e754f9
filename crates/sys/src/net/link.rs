//! Two namespaces joined by a pair of virtual Ethernet devices (veth(4)).

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use super::device::{DEVICE, PATIENCE, run};
use super::failure::LinkFailure;
use super::namespace::Namespace;
use super::netlink;
use super::shape::{self, Shape};
use crate::cancel;
use crate::error::Failure;
use crate::worker::program::{Name, Program, search_for_root};

/// ip of iproute2 (ip(8)).
const IP: Name = Name {
    command: "ip",
    package: "iproute2",
    question: "-V",
    greeting: "ip utility, iproute2",
    if_slow: "see whether another program holds the network's configuration",
};
/// Addresses that are nobody's (TEST-NET-1, RFC 5737), in namespaces that reach nobody.
const SENDER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const RECEIVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
/// Time between two looks at a device that comes up.
const PAUSE: Duration = Duration::from_millis(5);

/// Two namespaces and the link between them.
#[derive(Debug)]
pub struct Link {
    /// Where the sender is.
    pub sender: Namespace,
    /// Where the receiver is.
    pub receiver: Namespace,
    /// What slows it down, in words.
    pub note: String,
}

impl Link {
    /// Make both namespaces and join them; both directions are shaped alike.
    ///
    /// # Errors
    /// [`LinkFailure`], which says what this machine lacks. What was made so far vanishes.
    pub fn make(shape: &Shape) -> Result<Self, LinkFailure> {
        let namespace = || Namespace::new().map_err(LinkFailure::NoNetwork);
        let (sender, receiver) = (namespace()?, namespace()?);
        let search = search_for_root();
        let ip = Program::find(IP, Some(&search))?;
        let other = receiver.path().display().to_string();
        {
            let _visit = sender.enter()?;
            let pair = [
                "link", "add", DEVICE, "type", "veth", "peer", "name", DEVICE,
            ];
            run(&ip, pair.into_iter().chain(["netns", &other])).map_err(no_device)?;
        }
        for (namespace, address) in [(&sender, SENDER), (&receiver, RECEIVER)] {
            let _visit = namespace.enter()?;
            let address = format!("{address}/30");
            run(&ip, ["address", "add", &address, "dev", DEVICE])?;
            if !shape.is_none() {
                // What is lost, delayed or counted is else a piece of up to 64 KiB, which a real card would send as 45
                // packets (veth(4), ip-link(8)).
                run(&ip, ["link", "set", DEVICE, "gso_max_segs", "1"])?;
            }
            run(&ip, ["link", "set", DEVICE, "up"])?;
        }
        for namespace in [&sender, &receiver] {
            let _visit = namespace.enter()?;
            wait_until_up()?;
        }
        let note = shape::apply(shape, [&sender, &receiver], &search)?;
        Ok(Self {
            sender,
            receiver,
            note,
        })
    }

    /// The sender's address.
    pub fn sender_address(&self) -> IpAddr {
        SENDER.into()
    }

    /// The receiver's address.
    pub fn address(&self) -> IpAddr {
        RECEIVER.into()
    }
}

/// Why no pair of devices was made.
fn no_device(failure: Failure) -> LinkFailure {
    match netlink::is_unknown_device("veth") {
        Ok(true) => LinkFailure::NoNetwork(Failure::unavailable(
            format!("this kernel has no virtual Ethernet devices (CONFIG_VETH): {failure}"),
            "boot one that has",
        )),
        _ => LinkFailure::Other(failure),
    }
}

/// Until its queues are there, a device loses what it is given, and TCP tries again only after a second
/// (net/core/link_watch.c; RFC 6298).
fn wait_until_up() -> Result<(), Failure> {
    let latest = Instant::now() + PATIENCE;
    while !netlink::is_up(DEVICE)? {
        if cancel::requested() || Instant::now() >= latest {
            return Err(Failure::failed(format!(
                "the device {DEVICE} of a new namespace did not come up"
            )));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn link(shape: Shape) -> Option<Link> {
        match Link::make(&shape) {
            Err(LinkFailure::Other(failure @ Failure::Failed { .. })) => {
                panic!("a link can be made: {failure}")
            }
            Err(reason) => {
                eprintln!("skipped: {reason}");
                None
            }
            made => Some(made.expect("it can be made")),
        }
    }

    #[test]
    fn bytes_go_from_one_namespace_to_the_other_and_nobody_else_hears() {
        let Some(link) = link(Shape::default()) else {
            return;
        };
        let visit = link.receiver.enter().expect("it is ours");
        let listener = TcpListener::bind((link.address(), 0)).expect("the address is there");
        let address = listener.local_addr().expect("it is bound");
        drop(visit);
        assert!(TcpStream::connect_timeout(&address, Duration::from_millis(50)).is_err());
        let visit = link.sender.enter().expect("it is ours");
        let mut stream = TcpStream::connect(address).expect("it listens");
        drop(visit);
        stream.write_all(b"through").expect("it is connected");
        drop(stream);
        let mut heard = String::new();
        let (mut stream, from) = listener.accept().expect("it was connected to");
        stream.read_to_string(&mut heard).expect("it ends");
        assert_eq!((heard.as_str(), from.ip()), ("through", SENDER.into()));
    }

    /// How a stream of so many bytes went from one namespace to the other: the time, and the mean length of what the
    /// device carried.
    fn carry(link: &Link, bytes: usize) -> (Duration, f64) {
        let visit = link.receiver.enter().expect("it is ours");
        let listener = TcpListener::bind((link.address(), 0)).expect("the address is there");
        let address = listener.local_addr().expect("it is bound");
        drop(visit);
        let began = Instant::now();
        let reader = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("one comes");
            std::io::copy(&mut stream, &mut std::io::sink()).expect("it ends")
        });
        let visit = link.sender.enter().expect("it is ours");
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.write_all(&vec![0; bytes]).expect("it is connected");
        drop(stream);
        assert_eq!(reader.join().expect("it ends"), bytes as u64);
        let time = began.elapsed();
        let devices =
            std::fs::read_to_string("/proc/thread-self/net/dev").expect("the file can be read");
        drop(visit);
        let line = devices.lines().find(|line| line.contains(DEVICE));
        let words: Vec<f64> = line
            .expect("it is listed")
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        // Eight figures of what was received, then those of what was sent: bytes, packets (proc(5)).
        (time, words[8] / words[9])
    }

    #[test]
    fn a_rate_is_kept_by_a_bucket_or_by_netem() {
        let shape = Shape {
            rate: 1_000_000,
            ..Shape::default()
        };
        let Some(link) = link(shape) else {
            return;
        };
        assert!(link.note.contains("1000000 B/s"), "{}", link.note);
        let (time, _) = carry(&link, 400_000);
        // Less the 16 KiB that a bucket lets through at once.
        assert!(time >= Duration::from_millis(380), "{time:?}");
    }

    #[test]
    fn a_link_that_is_slowed_down_carries_packets_and_no_larger_pieces() {
        let shape = Shape {
            rate: 100_000_000,
            ..Shape::default()
        };
        let Some(link) = link(shape) else {
            return;
        };
        let (_, length) = carry(&link, 4_000_000);
        assert!(length <= 1514.0, "{length} B");
    }
}
