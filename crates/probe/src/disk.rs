//! What the disk workloads share: the file that is read, its content, what of it is in the page cache, and what lies
//! below.

pub mod content;
pub mod direct;
pub mod layers;
pub mod residency;
pub mod scratch;
pub mod source;
