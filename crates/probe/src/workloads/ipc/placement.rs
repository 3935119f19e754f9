//! Where the two sides run.

use serde::Deserialize;

use crate::workload::Context;
use oscope_sys::affinity::Pinned;
use oscope_sys::error::Failure;
use oscope_sys::worker::{Seat, Waits};

/// Where the two sides may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// On every CPU allowed to the probe.
    Free,
    /// Both on one CPU.
    Same,
    /// Each on a CPU of its own.
    Other,
}

/// The seats of two sides. The calling thread is on its own from the start; dropping them gives it back the CPUs that
/// it had before.
#[derive(Debug)]
pub struct Seats {
    /// That of the other side.
    pub peer: Seat,
    /// Whether both have but one CPU, so that one can only wait for the other by giving it up.
    pub crowded: bool,
    _pinned: Pinned,
}

impl Placement {
    /// Take the calling thread to its seat: the CPU of the request, else the highest allowed; the other side's is the
    /// next allowed.
    ///
    /// # Errors
    /// `Failure::Unavailable` if there is no other CPU, `Failure::Failed` if the kernel refuses.
    pub fn assign_cpus(self, context: &Context) -> Result<Seats, Failure> {
        let allowed = context.allowed();
        let own = context.cpu.or(allowed.last().copied());
        let own = own.ok_or_else(|| Failure::failed("no CPU is allowed to the probe"))?;
        let peer = match self {
            Self::Free => None,
            Self::Same => Some(own),
            Self::Other => {
                let other = allowed.iter().rfind(|&&cpu| cpu != own);
                Some(*other.ok_or_else(|| {
                    Failure::unavailable(
                        "placement=other needs two CPUs, and one is allowed",
                        "allow the probe another CPU (taskset, cpuset), or choose placement=same",
                    )
                })?)
            }
        };
        let crowded = peer == Some(own) || allowed.len() == 1;
        Ok(Seats {
            peer: Seat {
                cpu: peer,
                waits: match crowded {
                    true => Waits::Sleeps,
                    false => Waits::Spins,
                },
            },
            crowded,
            _pinned: match self {
                Self::Free => Pinned::over(allowed)?,
                Self::Same | Self::Other => Pinned::to(own)?,
            },
        })
    }
}
