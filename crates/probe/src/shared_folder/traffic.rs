//! What went through the client's network device.

use std::fs;

use oscope_sys::error::Failure;
use oscope_sys::net::{DEVICE, Link};

/// The table of the calling thread's network namespace (proc_pid_net(5)).
const TABLE: &str = "/proc/thread-self/net/dev";

/// Counters of the client's device since it was made: whole frames of Ethernet, 14 B of header each included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Bytes that came from the server.
    pub received_bytes: u64,
    /// Packets that came from the server.
    pub received_packets: u64,
    /// Bytes that went to it.
    pub sent_bytes: u64,
    /// Packets that went to it.
    pub sent_packets: u64,
}

impl Traffic {
    /// What was counted so far.
    ///
    /// # Errors
    /// `Failure::Failed` if the kernel does not report it.
    pub fn of(link: &Link) -> Result<Self, Failure> {
        let _visit = link.sender.enter()?;
        let table = fs::read_to_string(TABLE).map_err(|error| Failure::system(TABLE, &error))?;
        let found = table.lines().find_map(Self::in_line);
        found.ok_or_else(|| Failure::failed(format!("{TABLE} has no line for {DEVICE}")))
    }

    /// What was counted since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            received_bytes: self.received_bytes - earlier.received_bytes,
            received_packets: self.received_packets - earlier.received_packets,
            sent_bytes: self.sent_bytes - earlier.sent_bytes,
            sent_packets: self.sent_packets - earlier.sent_packets,
        }
    }

    /// Eight figures of what was received, then those of what was sent; each begins with bytes and packets.
    fn in_line(line: &str) -> Option<Self> {
        let (name, figures) = line.split_once(':')?;
        let figures: Vec<u64> = figures
            .split_whitespace()
            .map_while(|figure| figure.parse().ok())
            .collect();
        match (name.trim(), figures.as_slice()) {
            (
                DEVICE,
                &[
                    received_bytes,
                    received_packets,
                    _,
                    _,
                    _,
                    _,
                    _,
                    _,
                    sent_bytes,
                    sent_packets,
                    ..,
                ],
            ) => Some(Self {
                received_bytes,
                received_packets,
                sent_bytes,
                sent_packets,
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_devices_own_line_is_taken() {
        let line = "oscope0:  1542      13    0    0    0     0          0         0     2966      21    0    0    \
            0     0       0          0";
        let found = Traffic::in_line(line).expect("it is the device's");
        let expected = Traffic {
            received_bytes: 1542,
            received_packets: 13,
            sent_bytes: 2966,
            sent_packets: 21,
        };
        assert_eq!(found, expected);
        assert_eq!(found.since(expected), Traffic::default());
        assert_eq!(Traffic::in_line(&line.replace("oscope0", "lo")), None);
        assert_eq!(Traffic::in_line(" face |bytes    packets errs"), None);
    }
}
