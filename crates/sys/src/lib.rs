//! What Oscope's programs ask of the kernel: processes, shared memory, control groups, namespaces, and the log of what
//! is to be cleaned up.
//!
//! Nothing here knows of measuring.

pub mod affinity;
pub mod cancel;
pub mod cleanup;
pub mod diagnostics;
pub mod error;
pub mod futex;
pub mod in_flight;
pub mod machine;
pub mod mapping;
pub mod net;
pub mod serialized_error;
pub mod shared_memory;
// Always there: with a feature of its own for tests, every crate above would be compiled twice, and the programs
// that are tested would not be those that are installed.
#[doc(hidden)]
pub mod testing;
pub mod worker;
