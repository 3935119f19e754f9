//! `sibling`: a busy loop beside the CPU that is measured on: on its SMT sibling, with which it shares a core, else on
//! the nearest other.

use super::hog::Hog;
use super::place::neighbour;
use super::{Cause, Disturbance, Kind, Site};
use oscope_sys::error::Failure;

/// The line of the registry.
pub const CAUSE: Cause = Cause {
    name: "sibling",
    purpose: "A busy loop on the SMT sibling of the CPU that is measured on, else on the nearest other CPU",
    raises: &["neighbour_ns", "runnable_others"],
    kind: Kind::Machine(make),
};

fn make(site: &Site) -> Result<Box<dyn Disturbance>, Failure> {
    let found = neighbour(site.cpu, &site.allowed)?;
    let place = format!(
        "on CPU {} beside CPU {}: {}",
        found.cpu,
        site.cpu,
        found.shares.describe()
    );
    Ok(Hog::on(found.cpu, place))
}
