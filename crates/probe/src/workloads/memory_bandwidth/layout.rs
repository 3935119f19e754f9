//! Which thread goes over which part of the memory.

use super::Parameters;
use oscope_sys::error::Failure;

/// Shares begin at multiples of this, so that no two threads have a cache line in common.
const LINE_BYTES: usize = 64;

/// Who goes over what.
#[derive(Debug, PartialEq, Eq)]
pub struct Layout {
    /// The CPU of each thread, the calling one first.
    pub cpus: Vec<usize>,
    /// Bytes of the largest window, for copy.
    pub window: usize,
    /// Where each thread's share begins, in bytes, and where the last one ends.
    bounds: Vec<usize>,
}

impl Layout {
    /// Equal shares for the threads on these CPUs, as nearly as lines of the cache allow.
    ///
    /// # Errors
    /// `Failure::Request` for threads without a line each, and a window larger than a share.
    pub fn new(cpus: Vec<usize>, parameters: &Parameters) -> Result<Self, Failure> {
        let size = parameters.size as usize;
        let lines = size / LINE_BYTES;
        if cpus.len() > lines {
            return Err(Failure::request(
                "threads",
                format!(
                    "must be at most {lines}, one for each {LINE_BYTES} B of size, not {}",
                    cpus.len()
                ),
            ));
        }
        let mut bounds: Vec<usize> = (0..cpus.len())
            .map(|thread| lines * thread / cpus.len() * LINE_BYTES)
            .collect();
        bounds.push(size);
        let mut layout = Self {
            cpus,
            window: 0,
            bounds,
        };
        layout.window = layout.fitting(parameters.window as usize)?;
        Ok(layout)
    }

    /// Bytes of all shares.
    pub fn size(&self) -> u64 {
        self.bounds.last().copied().unwrap_or(0) as u64
    }

    /// The shares of `memory`, one for each thread.
    pub fn shares<'a>(&self, memory: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.bounds.windows(2).map(|ends| &memory[ends[0]..ends[1]])
    }

    /// The shares of `memory`, to be written.
    pub fn shares_mut<'a>(&self, mut memory: &'a mut [u8]) -> impl Iterator<Item = &'a mut [u8]> {
        self.bounds.windows(2).map(move |ends| {
            let (share, rest) = std::mem::take(&mut memory).split_at_mut(ends[1] - ends[0]);
            memory = rest;
            share
        })
    }

    fn fitting(&self, window: usize) -> Result<usize, Failure> {
        let lengths = self.bounds.windows(2).map(|ends| ends[1] - ends[0]);
        let largest = lengths.max().unwrap_or(0);
        match window {
            0 => Ok(largest),
            _ if window <= largest => Ok(window),
            _ => Err(Failure::request(
                "window",
                format!("must be at most {largest} B, a thread's share of size, not {window}"),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Operation;
    use super::*;
    use oscope_sys::mapping::Pages;
    use proptest::prelude::*;

    fn layout(threads: usize, size: u64, window: u64) -> Result<Layout, Failure> {
        let parameters = Parameters {
            operation: Operation::Copy,
            threads,
            size,
            window,
            pages: Pages::Base,
        };
        Layout::new(vec![0; threads], &parameters)
    }

    proptest! {
        #[test]
        fn shares_are_the_whole_in_order_and_nearly_equal(threads in 1_usize..64, size in 4096_u64..40_000) {
            let layout = layout(threads, size, 0).unwrap();
            let mut memory: Vec<u8> = (0..size).map(|place| place as u8).collect();
            prop_assert_eq!(layout.size(), size);
            prop_assert_eq!(layout.shares(&memory).collect::<Vec<_>>().concat(), memory.clone());
            let lengths: Vec<usize> = layout.shares(&memory).map(<[u8]>::len).collect();
            prop_assert_eq!(lengths.len(), threads);
            let (least, most) = (*lengths.iter().min().unwrap(), *lengths.iter().max().unwrap());
            prop_assert!(least > 0 && most - least < 2 * LINE_BYTES);
            prop_assert_eq!(layout.window, most);
            layout.shares_mut(&mut memory).enumerate().for_each(|(number, share)| share.fill(number as u8));
            for (number, share) in layout.shares(&memory).enumerate() {
                prop_assert!(share.iter().all(|&byte| byte == number as u8));
            }
        }
    }

    #[test]
    fn threads_without_memory_and_windows_beyond_a_share_are_refused() {
        assert!(layout(64, 4096, 0).is_ok());
        for (threads, size, window, field) in [(65, 4096, 0, "threads"), (2, 8192, 4097, "window")]
        {
            match layout(threads, size, window) {
                Err(Failure::Request { field: named, .. }) => assert_eq!(named, field),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(layout(2, 8192, 4096).unwrap().window, 4096);
        assert_eq!(layout(2, 8192, 100).unwrap().window, 100);
    }
}
