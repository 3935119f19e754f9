//! The digest that shows whether a content has changed.

/// The first 16 bytes of the BLAKE3 hash of a whole content.
pub type Digest = [u8; 16];

/// A digest that is being made, from the first byte on.
#[derive(Default)]
pub struct Hasher(blake3::Hasher);

impl Hasher {
    /// The next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Of all bytes so far.
    pub fn finish(&self) -> Digest {
        let mut digest = [0; 16];
        self.0.finalize_xof().fill(&mut digest);
        digest
    }
}
