//! A file mapped page by page, so that a fault makes one page present and no other.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

use oscope_sys::error::Failure;

/// A private mapping of a file for reading, in which every page is a mapping of its own. Dropping it takes it down.
///
/// A read fault on a file maps the pages around it as well, so far as they are in the page cache and in the same
/// mapping (`do_fault_around` in `mm/memory.c`; 64 KiB, changed by root through debugfs only; `MADV_RANDOM` stops
/// reading ahead, not this). The kernel merges neighbours whose file offsets follow each other, and so each page
/// changes places with the one beside it.
#[derive(Debug)]
pub struct SinglePages {
    address: NonNull<u8>,
    bytes: usize,
}

impl SinglePages {
    /// Map the first `bytes` of `file`, both multiples of `page`. Nothing is touched yet.
    ///
    /// # Errors
    /// `Failure::Unavailable` where the kernel allows fewer mappings.
    pub fn new(file: &File, bytes: u64, page: usize) -> Result<Self, Failure> {
        let bytes = bytes as usize;
        // A place for all of them.
        let place = map(std::ptr::null_mut(), bytes, libc::PROT_NONE, None)
            .map_err(|error| refused(0, bytes / page, &error))?;
        let pages = Self {
            address: NonNull::new(place).ok_or_else(|| Failure::failed("mmap gave address 0"))?,
            bytes,
        };
        let count = bytes / page;
        for number in 0..count {
            // SAFETY: the place lies within the mapping made above.
            let at = unsafe { place.add(number * page) };
            let offset = neighbour(number, count) * page;
            map(at, page, libc::PROT_READ, Some((file, offset)))
                .map_err(|error| refused(number, count, &error))?;
        }
        // SAFETY: the range is this mapping.
        let advised = unsafe { libc::madvise(place.cast(), bytes, libc::MADV_RANDOM) };
        if advised != 0 {
            return Err(Failure::system(
                "madvise(MADV_RANDOM)",
                io::Error::last_os_error(),
            ));
        }
        Ok(pages)
    }

    /// The bytes of the file, neighbouring pages exchanged.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the mapping is that long and readable; nobody else knows the scratch file, which thus keeps its
        // length and content.
        unsafe { std::slice::from_raw_parts(self.address.as_ptr(), self.bytes) }
    }
}

impl Drop for SinglePages {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new`, and nothing refers to it.
        unsafe { libc::munmap(self.address.as_ptr().cast(), self.bytes) };
    }
}

/// The page that lies at place `number` of `count`: the one beside it, where there is one.
fn neighbour(number: usize, count: usize) -> usize {
    let beside = number ^ 1;
    if beside < count { beside } else { number }
}

/// Map `bytes` of a file from an offset, or of nothing, at an address, or anywhere.
fn map(
    at: *mut u8,
    bytes: usize,
    protection: libc::c_int,
    from: Option<(&File, usize)>,
) -> io::Result<*mut u8> {
    let (flags, descriptor, offset) = match from {
        Some((file, offset)) => (libc::MAP_FIXED, file.as_raw_fd(), offset),
        None => (libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1, 0),
    };
    // SAFETY: a mapping at no particular address disturbs no other; one with MAP_FIXED lies within the place made for
    // it.
    let address = unsafe {
        libc::mmap(
            at.cast(),
            bytes,
            protection,
            libc::MAP_PRIVATE | flags,
            descriptor,
            offset as libc::off_t,
        )
    };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(address.cast())
}

fn refused(number: usize, count: usize, error: &io::Error) -> Failure {
    Failure::unavailable(
        format!("of {count} pages of the file, each a mapping, the kernel maps {number}: {error}"),
        "ask for less size, or as root: sysctl vm.max_map_count=1048576",
    )
    .because_of(error)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::disk::scratch::Files;

    #[test]
    fn every_page_is_there_once_beside_its_neighbour() {
        for count in [1, 2, 3, 8, 9] {
            let mut seen: Vec<_> = (0..count).map(|number| neighbour(number, count)).collect();
            let follow = seen.windows(2).filter(|pair| pair[1] == pair[0] + 1);
            assert_eq!(follow.count(), 0, "{seen:?}");
            seen.sort_unstable();
            assert_eq!(seen, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn more_pages_than_mappings_allowed_are_refused_and_given_back() {
        let allowed =
            std::fs::read_to_string("/proc/sys/vm/max_map_count").expect("the kernel reports it");
        let allowed: u64 = allowed.trim().parse().expect("it is a number");
        let scratch = Files::default()
            .scratch(Path::new("/var/tmp"), 4096)
            .expect("there is room");
        // Pages beyond the end can be mapped, though not touched.
        let failure = SinglePages::new(&scratch.file, (allowed + 2) * 4096, 4096)
            .expect_err("there are not so many mappings");
        assert!(
            matches!(
                failure,
                Failure::Unavailable {
                    remedy: Some(_),
                    ..
                }
            ),
            "{failure}"
        );
        assert!(SinglePages::new(&scratch.file, 4096, 4096).is_ok());
    }
}
