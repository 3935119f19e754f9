//! A set-associative store of blocks of addresses with true least-recently-used replacement: a cache or a TLB.

/// No address has this block number: a block is larger than a byte.
const NONE: u64 = u64::MAX;

/// The store. Only the numbers of the blocks are held, not what is in them.
///
/// The ways of a set are a ring, in the order of their last touches. So the longest untouched becomes the last touched,
/// be it found or replaced, by moving the ring's start back by one: nothing else moves. That is what each access of a
/// walk does that comes round, or that misses.
#[derive(Debug, Clone)]
pub struct Lru {
    /// The ways of the first set, then those of the second, and so on; [`NONE`] where a way is empty.
    blocks: Vec<u64>,
    /// The way of each set where its ring starts: the last touched. The others follow, the longest untouched at the
    /// end.
    starts: Vec<u16>,
    /// Ways of a set.
    ways: usize,
    /// log2 of the bytes of a block.
    block_bits: u32,
    /// A block's set is its number and this mask.
    set_mask: u64,
    /// The last touched block of all, or [`NONE`]. To touch it again changes nothing.
    latest: u64,
}

impl Lru {
    /// An empty store of `sets` sets of `ways` ways of 2^`block_bits` bytes. `sets` is a power of two.
    pub fn new(sets: u64, ways: u16, block_bits: u32) -> Self {
        debug_assert!(sets.is_power_of_two() && ways > 0 && block_bits > 0);
        let sets = sets as usize;
        Self {
            blocks: vec![NONE; sets * usize::from(ways)],
            starts: vec![0; sets],
            ways: ways.into(),
            block_bits,
            set_mask: sets as u64 - 1,
            latest: NONE,
        }
    }

    /// Whether the block of `address` is held. Afterwards it is, as the last touched; if it was not, the longest
    /// untouched of its set is gone.
    #[inline]
    pub fn touch(&mut self, address: u64) -> bool {
        let block = address >> self.block_bits;
        if block == self.latest {
            return true;
        }
        self.latest = block;
        let number = (block & self.set_mask) as usize;
        let start = &mut self.starts[number];
        let set = &mut self.blocks[number * self.ways..][..self.ways];
        let first = usize::from(*start);
        let last = if first == 0 { set.len() } else { first } - 1;
        if set[last] == block {
            *start = last as u16;
            return true;
        }
        if brought_forward(set, first, block) {
            return true;
        }
        set[last] = block;
        *start = last as u16;
        false
    }
}

/// Looks for the block in the ring that starts at `first`. If it is there, it becomes the first, and those before it
/// come after it.
#[inline(never)]
fn brought_forward(set: &mut [u64], first: usize, block: u64) -> bool {
    let (behind, ahead) = set.split_at_mut(first);
    if let Some(place) = ahead.iter().position(|&other| other == block) {
        ahead[..=place].rotate_right(1);
    } else if let Some(place) = behind.iter().position(|&other| other == block) {
        behind[..=place].rotate_right(1);
        ahead.rotate_right(1);
        std::mem::swap(&mut ahead[0], &mut behind[0]);
    } else {
        return false;
    }
    true
}
