//! Slowing a link down: a rate, a delay, a loss (tc-netem(8)); where the kernel has no netem, a rate alone, by a token
//! bucket (tc-tbf(8)).

use std::ffi::OsStr;
use std::time::Duration;

use super::device::{DEVICE, run};
use super::failure::LinkFailure;
use super::namespace::Namespace;
use super::netlink;
use crate::error::Failure;
use crate::worker::program::{Name, Program};

/// tc of iproute2 (tc(8)).
const TC: Name = Name {
    command: "tc",
    package: "iproute2",
    question: "-V",
    greeting: "tc utility, iproute2",
    if_slow: "see whether another program holds the network's configuration",
};
/// Packets that netem may hold: more than any window of TCP, since what it drops for want of room would be a loss that
/// nobody asked for.
const NETEM_PACKETS: u64 = 100_000;
/// Least bytes that a bucket holds: several packets, and more than a timer that is some ms late lets run over at low
/// rates.
const LEAST_BURST: u64 = 16 << 10;
/// Bursts in a second: 4 ms of the rate, a tick of the slowest usual kernel (CONFIG_HZ=250), go at once.
const BURSTS: u64 = 250;
/// Least bytes that may wait for a bucket.
const LEAST_QUEUE: u64 = 256 << 10;

/// How each direction of a link is slowed down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shape {
    /// Bytes a second; 0: as many as the machine can.
    pub rate: u64,
    /// How much later each packet arrives.
    pub delay: Duration,
    /// Of 1000 packets so many are lost, by chance.
    pub loss_per_mille: u64,
}

impl Shape {
    /// Whether it slows anything down.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The arguments of netem.
    fn netem(&self) -> Vec<String> {
        let mut words = vec![
            "netem".to_owned(),
            "limit".into(),
            NETEM_PACKETS.to_string(),
        ];
        if !self.delay.is_zero() {
            words.extend(["delay".into(), format!("{}us", self.delay.as_micros())]);
        }
        if self.loss_per_mille > 0 {
            let (whole, tenth) = (self.loss_per_mille / 10, self.loss_per_mille % 10);
            words.extend(["loss".into(), format!("{whole}.{tenth}%")]);
        }
        if self.rate > 0 {
            words.extend(["rate".into(), format!("{}bps", self.rate)]);
        }
        words
    }

    /// The arguments of a token bucket. A unit of `bps` is bytes a second (tc(8), "Rates").
    fn bucket(&self) -> Vec<String> {
        let burst = (self.rate / BURSTS).max(LEAST_BURST);
        let queue = burst + (self.rate / 20).max(LEAST_QUEUE);
        ["tbf", "rate", &format!("{}bps", self.rate)]
            .into_iter()
            .chain(["burst", &format!("{burst}b")])
            .chain(["limit", &format!("{queue}b")])
            .map(str::to_owned)
            .collect()
    }

    fn in_words(&self) -> String {
        let mut words = Vec::new();
        if self.rate > 0 {
            words.push(format!("rate {} B/s", self.rate));
        }
        if !self.delay.is_zero() {
            words.push(format!("delay {:?}", self.delay));
        }
        if self.loss_per_mille > 0 {
            words.push(format!("loss {} of 1000 packets", self.loss_per_mille));
        }
        words.join(", ")
    }
}

/// Shape what leaves the device of each namespace; in words, what was done.
///
/// # Errors
/// `LinkFailure::NoDelay` and `NoRate` where the kernel has no means for it.
pub fn apply(shape: &Shape, ends: [&Namespace; 2], search: &OsStr) -> Result<String, LinkFailure> {
    if shape.is_none() {
        return Ok("the link has no limit of its own (veth)".to_owned());
    }
    let tc = Program::find(TC, Some(search))?;
    let words = shape.in_words();
    if queue(&tc, ends, &shape.netem())? {
        return Ok(format!(
            "each direction of the link: {words}, in packets of at most 1500 B (netem)"
        ));
    }
    if !shape.delay.is_zero() || shape.loss_per_mille > 0 {
        return Err(LinkFailure::NoDelay);
    }
    match queue(&tc, ends, &shape.bucket())? {
        true => Ok(format!(
            "each direction of the link: {words}, in packets of at most 1500 B (a token bucket, tbf: this kernel has \
             no netem)"
        )),
        false => Err(LinkFailure::NoRate),
    }
}

/// Put a queueing discipline in front of each device; `false` if the kernel does not know its kind.
fn queue(tc: &Program, ends: [&Namespace; 2], kind: &[String]) -> Result<bool, Failure> {
    for end in ends {
        let _visit = end.enter()?;
        let words = ["qdisc", "add", "dev", DEVICE, "root"];
        let words = words.into_iter().chain(kind.iter().map(String::as_str));
        match run(tc, words) {
            Err(_) if netlink::is_unknown_queue(&kind[0])? => return Ok(false),
            other => other.map(drop)?,
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Shape = Shape {
        rate: 12_500_000,
        delay: Duration::from_micros(1500),
        loss_per_mille: 5,
    };

    #[test]
    fn the_arguments_are_those_of_tc() {
        let words = "netem limit 100000 delay 1500us loss 0.5% rate 12500000bps";
        assert_eq!(ALL.netem().join(" "), words);
        let bucket = "tbf rate 12500000bps burst 50000b limit 675000b";
        assert_eq!(ALL.bucket().join(" "), bucket);
        let slow = Shape {
            rate: 1000,
            ..Shape::default()
        };
        assert_eq!(slow.netem().join(" "), "netem limit 100000 rate 1000bps");
        assert_eq!(
            slow.bucket().join(" "),
            "tbf rate 1000bps burst 16384b limit 278528b"
        );
    }

    #[test]
    fn it_is_described_in_words() {
        assert!(Shape::default().is_none() && !ALL.is_none());
        assert_eq!(
            ALL.in_words(),
            "rate 12500000 B/s, delay 1.5ms, loss 5 of 1000 packets"
        );
    }
}
