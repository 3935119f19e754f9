//! Numbers within a packet or a file's header.

/// The order of a number's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The most significant first: the network's own.
    Big,
    /// The least significant first.
    Little,
}

impl Order {
    /// The 16-bit number at `at`.
    ///
    /// # Panics
    /// If `bytes` ends before it, as the slices of Rust do.
    pub fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let found = [bytes[at], bytes[at + 1]];
        match self {
            Self::Big => u16::from_be_bytes(found),
            Self::Little => u16::from_le_bytes(found),
        }
    }

    /// The 32-bit number at `at`. Panics like [`Order::u16`].
    pub fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let found = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        match self {
            Self::Big => u32::from_be_bytes(found),
            Self::Little => u32::from_le_bytes(found),
        }
    }

    /// The signed 64-bit number at `at`. Panics like [`Order::u16`].
    pub fn i64(self, bytes: &[u8], at: usize) -> i64 {
        let (first, second) = (self.u32(bytes, at), self.u32(bytes, at + 4));
        let (high, low) = match self {
            Self::Big => (first, second),
            Self::Little => (second, first),
        };
        ((u64::from(high) << 32) | u64::from(low)) as i64
    }
}
