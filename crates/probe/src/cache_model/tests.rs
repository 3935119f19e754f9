//! The model beside a naive one that keeps each set as a list, the last touched first.

use proptest::prelude::*;

use super::geometry::{CacheShape, TlbShape, Tlbs};
use super::*;

/// A store that is plainly true: the list of the blocks of each set, the last touched first.
struct Naive {
    sets: Vec<Vec<u64>>,
    ways: usize,
    block_bytes: u64,
}

impl Naive {
    fn new(blocks: u64, ways: u64, block_bytes: u64) -> Self {
        Self {
            sets: vec![Vec::new(); (blocks / ways) as usize],
            ways: ways as usize,
            block_bytes,
        }
    }

    fn of_cache(shape: CacheShape) -> Self {
        Self::new(shape.bytes / shape.line_bytes, shape.ways, shape.line_bytes)
    }

    fn touch(&mut self, address: u64) -> bool {
        let block = address / self.block_bytes;
        let sets = self.sets.len() as u64;
        let set = &mut self.sets[(block % sets) as usize];
        let held = set.iter().position(|&other| other == block);
        if let Some(place) = held {
            set.remove(place);
        }
        set.insert(0, block);
        set.truncate(self.ways);
        held.is_some()
    }
}

/// What the naive model counts for accesses of (address, whether it is a write).
fn naive(geometry: &Geometry, page_bytes: u64, accesses: &[(u64, bool)]) -> Counts {
    let tlb = |shape: TlbShape| Naive::new(shape.entries, shape.ways, page_bytes);
    let tlbs = geometry.tlbs(page_bytes).expect("the geometry has it");
    let (mut first, mut second) = (tlb(tlbs.first), tlbs.second.map(tlb));
    let (mut l1d, mut l2) = (Naive::of_cache(geometry.l1d), Naive::of_cache(geometry.l2));
    let mut counts = Counts::default();
    for &(address, writes) in accesses {
        let page_missed = !first.touch(address);
        let walked = page_missed && !second.as_mut().is_some_and(|tlb| tlb.touch(address));
        let line_missed = !l1d.touch(address);
        let l2_missed = line_missed && !l2.touch(address);
        counts.stlb_misses += u64::from(walked);
        counts.l2_misses += u64::from(l2_missed);
        if writes {
            counts.l1d_writes += 1;
            counts.dtlb_write_misses += u64::from(page_missed);
            counts.l1d_write_misses += u64::from(line_missed);
        } else {
            counts.l1d_reads += 1;
            counts.dtlb_read_misses += u64::from(page_missed);
            counts.l1d_read_misses += u64::from(line_missed);
        }
    }
    counts
}

fn feed(model: &mut Model, accesses: &[(u64, bool)]) {
    for &(address, writes) in accesses {
        if writes {
            model.write(address);
        } else {
            model.read(address);
        }
    }
}

fn cache_shape() -> impl Strategy<Value = CacheShape> {
    let ways = prop_oneof![1..=12_u64, Just(20), Just(64)];
    (0..=7_u32, ways, 4..=7_u32).prop_map(|(set_bits, ways, line_bits)| CacheShape {
        bytes: ways << set_bits << line_bits,
        ways,
        line_bytes: 1 << line_bits,
    })
}

fn tlb_shape() -> impl Strategy<Value = TlbShape> {
    let ways = prop_oneof![1..=12_u64, Just(64)];
    (0..=5_u32, ways).prop_map(|(set_bits, ways)| TlbShape {
        entries: ways << set_bits,
        ways,
    })
}

prop_compose! {
    fn geometry()(
        l1d in cache_shape(),
        l2 in cache_shape(),
        first in tlb_shape(),
        second in proptest::option::of(tlb_shape()),
    ) -> Geometry {
        let tlbs = Tlbs { first, second };
        Geometry { l1d, l2, base: tlbs, huge: Some(tlbs) }
    }
}

/// Streams that hit, miss and come back at every level: walks with a stride from some start, over and over, and
/// addresses at random in a range.
fn accesses() -> impl Strategy<Value = Vec<(u64, bool)>> {
    let walk = (any::<u64>(), 0..16_u32, 1..200_u64, 1..5_u64).prop_map(
        |(start, stride_bits, length, times)| {
            let step = move |place: u64| start.wrapping_add((place % length) << stride_bits);
            (0..length * times).map(step).collect::<Vec<u64>>()
        },
    );
    let range = (any::<u64>(), 8..24_u32).prop_flat_map(|(start, bits)| {
        let offsets = proptest::collection::vec(0..1_u64 << bits, 1..400);
        offsets.prop_map(move |offsets| {
            offsets
                .into_iter()
                .map(|offset| start.wrapping_add(offset))
                .collect()
        })
    });
    let parts = proptest::collection::vec(prop_oneof![walk, range], 1..6);
    (parts, 1..9_usize).prop_map(|(parts, nth)| {
        let addresses = parts.into_iter().flatten().enumerate();
        addresses
            .map(|(place, address)| (address, place % nth == 0))
            .collect()
    })
}

proptest! {
    #[test]
    fn every_count_is_that_of_the_naive_model(
        geometry in geometry(),
        huge in any::<bool>(),
        accesses in accesses(),
    ) {
        let page_bytes = if huge { 2 << 20 } else { 4096 };
        let mut model = Model::new(&geometry, page_bytes).expect("the shapes are sound");
        feed(&mut model, &accesses);
        prop_assert_eq!(model.counts(), naive(&geometry, page_bytes, &accesses));
    }

    #[test]
    fn counts_are_reset_and_contents_are_not(
        geometry in geometry(),
        before in accesses(),
        after in accesses(),
    ) {
        let mut model = Model::new(&geometry, 4096).expect("the shapes are sound");
        feed(&mut model, &before);
        prop_assert_eq!(model.counts(), naive(&geometry, 4096, &before));
        model.reset_counts();
        prop_assert_eq!(model.counts(), Counts::default());
        feed(&mut model, &after);
        let whole = naive(&geometry, 4096, &[before.clone(), after].concat());
        let first = naive(&geometry, 4096, &before);
        prop_assert_eq!(model.counts().l1d_read_misses, whole.l1d_read_misses - first.l1d_read_misses);
        prop_assert_eq!(model.counts().l2_misses, whole.l2_misses - first.l2_misses);
        prop_assert_eq!(model.counts().stlb_misses, whole.stlb_misses - first.stlb_misses);
    }
}

fn zen3() -> Geometry {
    Geometry::named("zen3").expect("it is in the table")
}

/// `walks` walks over `lines` lines from `base`, every eighth line written.
fn walk(model: &mut Model, base: u64, lines: u64, walks: u64) {
    for _ in 0..walks {
        for line in 0..lines {
            let address = base + line * 64;
            if line % 8 == 0 {
                model.write(address);
            } else {
                model.read(address);
            }
        }
    }
}

#[test]
fn a_set_as_large_as_the_l1d_misses_in_the_first_walk_only() {
    let mut model = Model::new(&zen3(), 4096).expect("its shapes are sound");
    walk(&mut model, 7 << 20, 512, 16);
    let expected = Counts {
        l1d_reads: 448 * 16,
        l1d_writes: 64 * 16,
        l1d_read_misses: 448,
        l1d_write_misses: 64,
        l2_misses: 512,
        dtlb_read_misses: 0,
        // The first line of a page is written.
        dtlb_write_misses: 8,
        stlb_misses: 8,
    };
    assert_eq!(model.counts(), expected);
}

#[test]
fn one_line_more_than_a_set_has_ways_misses_always_in_that_set() {
    let mut model = Model::new(&zen3(), 4096).expect("its shapes are sound");
    walk(&mut model, 0, 513, 16);
    let counts = model.counts();
    // 504 lines of 63 sets miss once, the 9 of the set of line 512 in all 16 walks: LRU has always just lost the next.
    assert_eq!(
        counts.l1d_read_misses + counts.l1d_write_misses,
        504 + 9 * 16
    );
    assert_eq!(counts.l2_misses, 513);
}

#[test]
fn the_highest_addresses_are_like_any_other() {
    let mut model = Model::new(&zen3(), 4096).expect("its shapes are sound");
    model.read(u64::MAX);
    model.read(u64::MAX - 63);
    assert_eq!(model.counts().l1d_read_misses, 1);
    assert_eq!(model.counts().dtlb_read_misses, 1);
}

#[test]
fn a_tlb_of_4096_ways_is_true_lru() {
    let mut store = TlbShape {
        entries: 4096,
        ways: 4096,
    }
    .store("dTLB", 4096)
    .expect("it is the largest");
    let mut touch = |page: u64| store.touch(page << 12);
    assert!((0..4096).all(|page| !touch(page)));
    assert!((0..4096).all(&mut touch));
    assert!(!touch(4096));
    assert!(!touch(0), "it was the longest untouched");
    assert!(touch(2));
}

#[test]
fn huge_pages_have_their_own_tlb() {
    let nehalem = Geometry::named("nehalem").expect("it is in the table");
    let mut model = Model::new(&nehalem, 2 << 20).expect("it takes huge pages");
    for _ in 0..2 {
        (0..40_u64).for_each(|page| model.read(page << 21));
    }
    // 8 sets of 4 ways: 40 pages are 5 a set, and no second level takes them.
    assert_eq!(model.counts().dtlb_read_misses, 80);
    assert_eq!(model.counts().stlb_misses, 80);
}

#[test]
fn every_name_is_a_geometry_of_both_pages() {
    for name in Geometry::NAMES {
        let geometry = Geometry::named(name).expect("the name is listed");
        for page_bytes in [4096, 2 << 20] {
            Model::new(&geometry, page_bytes).unwrap_or_else(|failure| panic!("{name}: {failure}"));
        }
    }
    assert_eq!(Geometry::named("host"), None);
}

#[test]
fn shapes_that_the_model_does_not_take_are_refused() {
    let shape = |bytes, ways, line_bytes| CacheShape {
        bytes,
        ways,
        line_bytes,
    };
    assert!(shape(48 << 10, 12, 64).store("L1D").is_ok(), "64 sets");
    for (refused, why) in [
        (shape(48 << 10, 8, 64), "96 sets"),
        (shape(32 << 10, 0, 64), "ways"),
        (shape(1 << 20, 4097, 64), "4096 ways"),
        (shape(32 << 10, 7, 64), "multiple of 7"),
        (shape(1000, 1, 64), "multiple of the line"),
        (shape(32 << 10, 8, 0), "multiple of the line"),
        (shape(3 << 10, 8, 48), "powers of two"),
        (shape(0, 8, 64), "multiple of 8"),
        (shape(1 << 40, 8, 64), "more than"),
    ] {
        let failure = refused.store("L1D").expect_err("it is refused");
        assert!(failure.to_string().contains(why), "{failure}");
        assert!(failure.to_string().contains("L1D"), "{failure}");
    }
}

#[test]
fn pages_without_a_known_tlb_are_refused_with_a_remedy() {
    let unknown = Geometry {
        huge: None,
        ..zen3()
    };
    for (geometry, page_bytes) in [(unknown, 2 << 20), (zen3(), 1 << 16)] {
        match Model::new(&geometry, page_bytes) {
            Err(Failure::Unavailable {
                remedy: Some(remedy),
                ..
            }) => assert!(remedy.contains("zen3"), "{remedy}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn this_cpu_has_a_geometry_or_says_why_not() {
    match Geometry::of_this_cpu() {
        Ok((geometry, _)) => {
            let model = Model::new(&geometry, 4096).expect("a real CPU has sound shapes");
            assert_eq!(model.counts(), Counts::default());
            assert!(geometry.to_string().contains(" KiB ("), "{geometry}");
        }
        Err(Failure::Unavailable {
            remedy: Some(remedy),
            ..
        }) => assert!(remedy.contains("zen3"), "{remedy}"),
        Err(other) => panic!("{other}"),
    }
}
