//! `hog`: a busy loop on the CPU that is measured on, which competes for it.

use std::time::Duration;

use super::{Cause, Disturbance, Kind, Site};
use crate::steps::lcg_steps;
use oscope_sys::error::Failure;
use oscope_sys::worker::Listener;

/// The line of the registry.
pub const CAUSE: Cause = Cause {
    name: "hog",
    purpose: "A busy loop on the CPU that is measured on, which competes for it at the same priority",
    raises: &["run_delay_ns", "involuntary_switches"],
    kind: Kind::Machine(make),
};

/// Steps of a loop between two looks whether it is to stop: about 0.1 ms.
const STEPS: u64 = 1 << 16;

/// A busy loop on one CPU.
pub struct Hog {
    cpu: usize,
    place: String,
}

impl Hog {
    /// A loop on this CPU.
    pub fn on(cpu: usize, place: String) -> Box<dyn Disturbance> {
        Box::new(Self { cpu, place })
    }
}

fn make(site: &Site) -> Result<Box<dyn Disturbance>, Failure> {
    let place = format!("on CPU {}, where it is measured", site.cpu);
    Ok(Hog::on(site.cpu, place))
}

impl Disturbance for Hog {
    fn cpu(&self) -> usize {
        self.cpu
    }

    fn place(&self) -> String {
        self.place.clone()
    }

    fn step(&mut self, _stop: &Listener, _left: Duration) -> Result<u64, Failure> {
        std::hint::black_box(lcg_steps(1, STEPS));
        Ok(STEPS)
    }
}
