//! `memory`: a stream through more memory than the caches hold, on another CPU: it takes bandwidth, and room in the
//! last cache.

use std::time::Duration;

use super::place::{last_cache_bytes, neighbour};
use super::{Cause, Disturbance, Kind, Site};
use oscope_sys::error::Failure;
use oscope_sys::mapping::{Mapping, Pages};
use oscope_sys::worker::Listener;

/// The line of the registry.
pub const CAUSE: Cause = Cause {
    name: "memory",
    purpose: "A stream of reads and writes through memory twice as large as the last cache, on another CPU",
    raises: &["memory_wait_ns", "neighbour_ns", "runnable_others"],
    kind: Kind::Machine(make),
};

/// Bytes at least, also where the kernel does not report the caches.
const LEAST_BYTES: u64 = 64 << 20;
/// Bytes at most.
const MOST_BYTES: u64 = 1 << 30;
/// Bytes between two looks whether it is to stop: about 0.1 ms.
const PIECE: usize = 1 << 20;

struct Stream {
    cpu: usize,
    place: String,
    memory: Mapping,
    next: usize,
}

fn make(site: &Site) -> Result<Box<dyn Disturbance>, Failure> {
    let found = neighbour(site.cpu, &site.allowed)?;
    let bytes = (2 * last_cache_bytes().unwrap_or(0)).clamp(LEAST_BYTES, MOST_BYTES);
    Ok(Box::new(Stream {
        cpu: found.cpu,
        place: format!(
            "{} MiB on CPU {} beside CPU {}",
            bytes >> 20,
            found.cpu,
            site.cpu
        ),
        // Walking the page tables of base pages would leave half of the bandwidth to the others.
        memory: Mapping::new(bytes, Pages::Huge).or_else(|_| Mapping::new(bytes, Pages::Base))?,
        next: 0,
    }))
}

impl Disturbance for Stream {
    fn cpu(&self) -> usize {
        self.cpu
    }

    fn place(&self) -> String {
        self.place.clone()
    }

    fn ready(&mut self) -> Result<(), Failure> {
        self.memory.touch();
        Ok(())
    }

    /// Bytes of memory that were read and written.
    fn step(&mut self, _stop: &Listener, _left: Duration) -> Result<u64, Failure> {
        let memory = self.memory.as_mut_slice();
        let piece = &mut memory[self.next..self.next + PIECE];
        for byte in piece.iter_mut() {
            *byte = byte.wrapping_add(1);
        }
        std::hint::black_box(piece);
        self.next = (self.next + PIECE) % (memory.len() / PIECE * PIECE);
        Ok(PIECE as u64)
    }
}
