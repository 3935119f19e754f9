//! A value in memory that processes share after a fork.

use std::ops::Deref;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

use crate::error::Failure;

/// A value in anonymous memory that a forked child shares with its parent. The memory is given back when it is dropped;
/// the value is not.
#[derive(Debug)]
pub struct Shared<T>(NonNull<T>);

// SAFETY: it owns the mapping, and gives out nothing but shared references to the value.
unsafe impl<T: Sync> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Shared<T> {}

/// What may be made of memory that holds nothing but zeros.
///
/// # Safety
/// A value of nothing but zeros must be valid.
pub unsafe trait Zeroable {}

// SAFETY: it may be 0.
unsafe impl Zeroable for AtomicI32 {}
// SAFETY: it may be 0.
unsafe impl Zeroable for AtomicU32 {}
// SAFETY: it may be 0.
unsafe impl Zeroable for AtomicU64 {}

impl<T: Zeroable> Shared<T> {
    /// A value of zeros, every page of it touched.
    ///
    /// # Errors
    /// `Failure::Unavailable` where there is not the memory.
    pub fn zeroed() -> Result<Self, Failure> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        // SAFETY: a new mapping of no particular address disturbs no other.
        let start = unsafe { libc::mmap(null_mut(), size_of::<T>(), protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(Failure::unavailable(
                format!(
                    "cannot map {} B of shared memory: {}",
                    size_of::<T>(),
                    std::io::Error::last_os_error()
                ),
                "free some memory, or raise ulimit -v",
            ));
        }
        NonNull::new(start.cast())
            .map(Self)
            .ok_or_else(|| Failure::failed("mmap gave address 0"))
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the mapping lives as long as `self`, is that long and aligned to a page, and held a valid value from
        // the start.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `zeroed`, and nothing refers to it.
        unsafe { libc::munmap(self.0.as_ptr().cast(), size_of::<T>()) };
    }
}
