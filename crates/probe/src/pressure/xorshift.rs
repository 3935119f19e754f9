//! The random numbers of CS380L lab 2 (docs/sources.md): xorshift128 of G. Marsaglia, "Xorshift RNGs", Journal of
//! Statistical Software 8 (14), 2003, with his seeds.

/// The generator.
#[derive(Debug, Clone)]
pub struct Xorshift {
    x: u32,
    y: u32,
    z: u32,
    w: u32,
}

impl Xorshift {
    /// One that begins where every other begins.
    pub fn new() -> Self {
        Self {
            x: 123_456_789,
            y: 362_436_069,
            z: 521_288_629,
            w: 88_675_123,
        }
    }

    /// The next number.
    #[inline(always)]
    pub fn draw(&mut self) -> u32 {
        let mixed = self.x ^ (self.x << 11);
        (self.x, self.y, self.z) = (self.y, self.z, self.w);
        self.w = self.w ^ (self.w >> 19) ^ mixed ^ (mixed >> 8);
        self.w
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers that the C code in the paper prints.
    #[test]
    fn it_is_that_of_the_paper() {
        let mut random = Xorshift::new();
        let first: Vec<u32> = (0..4).map(|_| random.draw()).collect();
        assert_eq!(
            first,
            [3_701_687_786, 458_299_110, 2_500_872_618, 3_633_119_408]
        );
    }
}
