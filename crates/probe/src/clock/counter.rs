//! The processor's own counter: one module for each architecture, with the same functions.
//!
//! - `NAME`: what messages call it; `TRUNCATION`: how far the comparison of two CPUs may be off because readings are
//!   whole.
//! - `begin`: the counter after all earlier instructions and before all later ones; `end`: the counter after all
//!   earlier instructions; `end_with_cpu`: the same with the CPU on which it was read.
//! - `declared_hz`: its frequency, where the processor reports it.
//! - `processor`: what the processor promises of it; `kernel`: whether the kernel trusts it.
//! - `prove_instructions`: whether it counts instructions in an emulator that is made to.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod other;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub use aarch64::*;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub use other::*;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;
