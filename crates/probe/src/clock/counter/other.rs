//! An architecture whose counter is not read: the choice of the clock never falls on it.

use super::super::choice::{Kernel, Processor};
use oscope_sys::error::Failure;

/// What messages call it.
pub const NAME: &str = "counter";
/// Not known.
pub const TRUNCATION: f64 = 0.0;

const NEVER: &str = "a counter is chosen on x86-64 and arm64 only";

/// Never called.
pub fn begin() -> u64 {
    unreachable!("{NEVER}")
}

/// Never called.
pub fn end() -> u64 {
    unreachable!("{NEVER}")
}

/// Never called.
pub fn end_with_cpu() -> (u64, usize) {
    unreachable!("{NEVER}")
}

/// Not known.
pub fn declared_hz() -> Option<f64> {
    None
}

/// There is nothing to ask.
pub fn processor() -> Processor {
    Processor::Other
}

/// There is nothing to trust.
pub fn kernel() -> Kernel {
    Kernel::Distrusts
}

/// Never called.
///
/// # Errors
/// Never returns.
pub fn prove_instructions() -> Result<(), Failure> {
    unreachable!("{NEVER}")
}
