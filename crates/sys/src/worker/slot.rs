//! A place for one value, in memory that two threads or processes share.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::futex;
use crate::shared_memory::Zeroable;

/// States of a [`Slot`]; memory is all zeros at first.
const EMPTY: u32 = 0;
/// One side writes or reads the value.
const HELD: u32 = 1;
pub(super) const FULL: u32 = 2;
const CLOSED: u32 = 3;

/// A place for one value without pointers. One side puts it there, the other takes it; neither waits for the other
/// here.
#[derive(Debug)]
pub struct Slot<T> {
    state: AtomicU32,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: only who has changed the state to HELD touches the value, until it changes the state again; Release and
// Acquire hand it over.
unsafe impl<T: Send> Sync for Slot<T> {}
// SAFETY: the state may be 0, and the value is not read before it is written.
unsafe impl<T> Zeroable for Slot<T> {}

impl<T: Copy + Send> Slot<T> {
    /// Leaves `value` there, unless the slot holds one or is closed. Returns whether it did.
    pub fn put(&self, value: T) -> bool {
        if !self.change(EMPTY, HELD) {
            return false;
        }
        // SAFETY: the slot is held.
        unsafe { (*self.value.get()).write(value) };
        self.change(HELD, FULL)
    }

    /// Returns the value and empties the slot; `None` if there is none.
    pub fn take(&self) -> Option<T> {
        self.read(EMPTY)
    }

    /// Returns the value and leaves it there; `None` if there is none.
    pub fn get(&self) -> Option<T> {
        self.read(FULL)
    }

    fn read(&self, then: u32) -> Option<T> {
        if !self.change(FULL, HELD) {
            return None;
        }
        // SAFETY: the slot is held, and was full.
        let value = unsafe { (*self.value.get()).assume_init() };
        self.change(HELD, then);
        Some(value)
    }

    fn change(&self, from: u32, to: u32) -> bool {
        let changed = self
            .state
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
        changed.is_ok()
    }
}

impl<T> Slot<T> {
    /// Refuses every further value, and forgets the one that is there.
    pub fn close(&self) {
        self.state.store(CLOSED, Ordering::Release);
    }

    /// Whether it is closed.
    pub fn is_closed(&self) -> bool {
        self.state.load(Ordering::Acquire) == CLOSED
    }

    /// Whether a value is there.
    pub fn is_full(&self) -> bool {
        self.state.load(Ordering::Acquire) == FULL
    }

    /// Wakes one who sleeps until the state changes.
    pub(super) fn wake(&self) {
        futex::wake(&self.state);
    }

    /// The state, to wait for a change of it.
    pub(super) fn state(&self) -> &AtomicU32 {
        &self.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared_memory::Shared;

    #[test]
    fn a_slot_holds_one_value_at_a_time_until_it_is_closed() {
        let slot = Shared::<Slot<u64>>::zeroed().expect("a page of memory");
        assert_eq!(slot.take(), None);
        assert!(slot.put(1) && !slot.put(2) && slot.is_full());
        assert_eq!(
            (slot.get(), slot.take(), slot.take()),
            (Some(1), Some(1), None)
        );
        assert!(slot.put(3));
        slot.close();
        assert!(slot.is_closed() && !slot.put(4));
        assert_eq!(slot.take(), None);
    }

    #[test]
    fn every_value_arrives_once_and_in_order() {
        let slot = Shared::<Slot<[u64; 9]>>::zeroed().expect("a page of memory");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..10_000 {
                    while !slot.put([number; 9]) {
                        std::thread::yield_now();
                    }
                }
            });
            for number in 0..10_000 {
                let value = loop {
                    match slot.take() {
                        Some(value) => break value,
                        None => std::thread::yield_now(),
                    }
                };
                assert_eq!(value, [number; 9]);
            }
        });
    }
}
