//! Slots in memory, each of which holds the address of the next, linked into one ring.

use super::{Order, Parameters};
use crate::disk::content;
use crate::steps::repeat;
use oscope_sys::cancel;
use oscope_sys::error::Failure;
use oscope_sys::mapping::{Mapping, Pages};

/// Bytes of a slot: an address.
pub const SLOT_BYTES: u64 = size_of::<Slot>() as u64;
/// The slots are numbered with 32 bits.
pub const MOST_SLOTS: u64 = 1 << 32;

/// Loads in a row: the loop's counter then adds one instruction to 32 of them, and no time.
const UNROLLED: u64 = 64;
/// Rows between two looks for a signal, about 10 ms where every load goes to memory.
const ROWS_UNWATCHED: u64 = 1 << 10;
/// Slots shuffled or linked between two looks for a signal.
const SLOTS_UNWATCHED: usize = 1 << 16;

/// What a load reads.
#[derive(Debug, Clone, Copy)]
struct Slot {
    next: *const Slot,
}

/// A ring of slots, and how far it was chased.
#[derive(Debug)]
pub struct Ring {
    /// Where the slots lie. It is not borrowed again: the slots' addresses come from the one borrow at the beginning.
    _memory: Mapping,
    begin: *const u8,
    stride: usize,
    visits: Visits,
    /// How many slots before the current one, going round from the first that was linked.
    position: u64,
    /// The slot that the next load reads.
    at: *const Slot,
}

impl Ring {
    /// Map the memory, touch it, prove it, and link its slots in the order asked for.
    ///
    /// # Errors
    /// `Failure::Unavailable` where there is not the memory, or not in such pages.
    pub fn new(parameters: Parameters) -> Result<Self, Failure> {
        let Parameters {
            size,
            stride,
            pages,
            order,
        } = parameters;
        let mut memory = Mapping::new(size, pages)?;
        memory.touch();
        let mut visits = Visits::new((size / stride) as usize, order)?;
        let begin = memory.as_mut_slice().as_mut_ptr();
        let stride = stride as usize;
        link(begin, stride, visits.numbers());
        memory.prove()?;
        let first = visits.numbers()[0] as usize;
        Ok(Self {
            _memory: memory,
            begin,
            stride,
            visits,
            position: 0,
            at: slot(begin, stride, first),
        })
    }

    /// How many slots there are.
    pub fn slots(&self) -> u64 {
        self.visits.slots as u64
    }

    /// Follow so many addresses from where the last chase arrived, or until a signal comes.
    #[inline(always)]
    pub fn chase(&self, loads: u64) -> Chase {
        let mut at = self.at;
        let rows = repeat(loads / UNROLLED, ROWS_UNWATCHED, || at = row(at));
        let rest = repeat(loads % UNROLLED, UNROLLED, || at = follow(at));
        Chase {
            at,
            loads: rows * UNROLLED + rest,
        }
    }

    /// Let the next chase begin where this one ended; how many addresses it followed.
    pub fn arrive(&mut self, chase: Chase) -> u64 {
        self.at = chase.at;
        self.position = (self.position + chase.loads % self.slots()) % self.slots();
        chase.loads
    }

    /// Check that the chase is where so many loads lead.
    ///
    /// # Errors
    /// `Failure::Failed` if it is elsewhere: loads were left out, or the slots were changed.
    pub fn verify(&mut self) -> Result<(), Failure> {
        let number = self.visits.numbers()[self.position as usize] as usize;
        let expected = slot(self.begin, self.stride, number);
        if self.at == expected {
            return Ok(());
        }
        Err(Failure::failed(format!(
            "the chase ended at byte {} of the memory, not at byte {}",
            (self.at as usize).wrapping_sub(self.begin as usize),
            number * self.stride
        )))
    }
}

/// What a chase did.
#[must_use = "the next chase begins where this one ended"]
#[derive(Debug)]
pub struct Chase {
    /// The slot that it led to.
    at: *const Slot,
    /// How many addresses were followed.
    loads: u64,
}

/// The slots' numbers in the order in which they are visited, four bytes each.
#[derive(Debug)]
struct Visits {
    slots: usize,
    memory: Mapping,
}

impl Visits {
    /// Every slot once.
    fn new(slots: usize, order: Order) -> Result<Self, Failure> {
        // A mapping, since it is refused where there is not the memory for it.
        let memory = Mapping::new((slots * size_of::<u32>()) as u64, Pages::Base)?;
        let mut visits = Self { slots, memory };
        let numbers = visits.numbers();
        for (place, number) in numbers.iter_mut().enumerate() {
            *number = place as u32;
        }
        if order == Order::Random {
            shuffle(numbers);
        }
        Ok(visits)
    }

    fn numbers(&mut self) -> &mut [u32] {
        // SAFETY: any four bytes are a number, and a mapping begins at a page.
        let (_, numbers, _) = unsafe { self.memory.as_mut_slice().align_to_mut() };
        &mut numbers[..self.slots]
    }
}

/// Shuffle by Durstenfeld's algorithm 235 (1964), by the same random numbers each time. The slots visited in a shuffled
/// order are one ring through all of them, each such ring as likely as any other: what Sattolo's algorithm (1986)
/// gives, with the places on the ring known.
fn shuffle(numbers: &mut [u32]) {
    for last in (1..numbers.len()).rev() {
        if last % SLOTS_UNWATCHED == 0 && cancel::requested() {
            return;
        }
        // Below `last + 1`, as the high half of a product (Lemire: "Fast random integer generation in an interval",
        // 2019).
        let drawn = u128::from(content::word(last as u64)) * (last as u128 + 1);
        numbers.swap(last, (drawn >> 64) as usize);
    }
}

/// Write into each slot the address of the one visited after it, unless a signal asks to stop.
fn link(begin: *mut u8, stride: usize, visits: &[u32]) {
    let followers = visits.iter().cycle().skip(1);
    for (place, (&from, &to)) in visits.iter().zip(followers).enumerate() {
        // A ring that was not linked to its end is never chased: `repeat` looks for the same signal first.
        if place % SLOTS_UNWATCHED == 0 && cancel::requested() {
            return;
        }
        let next = slot(begin, stride, to as usize);
        let from = slot(begin, stride, from as usize).cast_mut();
        // SAFETY: the slot lies within the memory, whose only borrow this is.
        unsafe { from.write(Slot { next }) };
    }
}

fn slot(begin: *const u8, stride: usize, number: usize) -> *const Slot {
    begin.wrapping_add(number * stride).cast()
}

/// The slot after 64 loads.
#[inline(always)]
fn row(at: *const Slot) -> *const Slot {
    let mut at = at;
    for _ in 0..UNROLLED {
        at = follow(at);
    }
    at
}

/// The slot whose address is in this one: a load, which the compiler may neither leave out nor foresee.
#[inline(always)]
fn follow(at: *const Slot) -> *const Slot {
    // SAFETY: `at` came out of a slot of the ring, or is where it begins, and all slots hold addresses of slots.
    unsafe { at.read_volatile() }.next
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ring(slots: u64, stride: u64, order: Order) -> Ring {
        let parameters = Parameters {
            size: slots * stride,
            stride,
            pages: Pages::Base,
            order,
        };
        Ring::new(parameters).expect("there is so little memory")
    }

    /// The numbers of the slots met in one round, by the addresses in memory alone.
    fn round(ring: &Ring) -> Vec<usize> {
        let mut at = ring.at;
        let number = |at: *const Slot| (at as usize - ring.begin as usize) / ring.stride;
        let met = (0..ring.slots()).map(|_| {
            let here = number(at);
            at = follow(at);
            here
        });
        let met = met.collect();
        assert_eq!(at, ring.at, "the round comes back to its beginning");
        met
    }

    proptest! {
        #[test]
        fn one_round_meets_every_slot_once(slots in 2_u64..3000, words in 1_u64..9) {
            for order in [Order::Random, Order::Forward] {
                let ring = ring(slots, words * SLOT_BYTES, order);
                let mut met = round(&ring);
                prop_assert!(order == Order::Random || met.is_sorted());
                met.sort_unstable();
                prop_assert_eq!(met, (0..slots as usize).collect::<Vec<_>>());
            }
        }

        #[test]
        fn the_chase_ends_where_so_many_loads_lead(
            slots in 2_u64..500,
            loads in prop::collection::vec(0_u64..1000, 1..5),
        ) {
            let mut ring = ring(slots, 64, Order::Random);
            let mut expected = round(&ring);
            for loads in loads {
                let chase = ring.chase(loads);
                prop_assert_eq!(ring.arrive(chase), loads);
                prop_assert_eq!(ring.verify(), Ok(()));
                expected.rotate_left((loads % slots) as usize);
                prop_assert_eq!(round(&ring)[0], expected[0]);
            }
        }
    }

    #[test]
    fn a_load_left_out_or_a_slot_changed_is_seen() {
        let mut ring = ring(1000, 64, Order::Random);
        let chase = ring.chase(300);
        ring.arrive(chase);
        ring.at = follow(ring.at);
        let failure = ring.verify().expect_err("a load too many");
        assert!(failure.to_string().contains("the chase ended"), "{failure}");
        ring.position += 1;
        assert_eq!(ring.verify(), Ok(()));
        // The next slot leads back to itself.
        let next = follow(ring.at).cast_mut();
        // SAFETY: it is a slot of the ring, which nothing else refers to.
        unsafe { next.write(Slot { next }) };
        let chase = ring.chase(1);
        ring.arrive(chase);
        assert_eq!(ring.verify(), Ok(()));
        let chase = ring.chase(5);
        ring.arrive(chase);
        assert!(ring.verify().is_err());
    }

    #[test]
    fn a_shuffled_order_has_no_steady_step() {
        let mut visits = Visits::new(1 << 16, Order::Random).expect("there is so little memory");
        let numbers = visits.numbers();
        let mut steps: Vec<i64> = numbers
            .windows(2)
            .map(|pair| i64::from(pair[1]) - i64::from(pair[0]))
            .collect();
        steps.sort_unstable();
        let most = steps.chunk_by(|a, b| a == b).map(<[i64]>::len).max();
        // 65535 steps fall on 131069 values, the likeliest of which is met once on average.
        assert!(most.expect("there are steps") < 12, "{most:?}");
    }
}
