//! The fast way to "nothing here": a set of short pieces of what is looked for, and a look at every
//! n-th place of a text only. Whatever is looked for is longer than a piece by at least the stride,
//! so wherever it stands one of its registered pieces lies on a place that is looked at. A hit
//! proves nothing and must be checked; no hit proves that there is nothing. Allocates nothing.

/// Spreads a piece over all bits of a number; the upper ones are the best.
const MIX: u32 = 0x9e37_79b1;

/// A fixed table of bits, for the rules, which are the same for all: no bit is right about no.
pub(super) struct Pieces {
    bits: Box<[u64; 1024]>,
}

impl Pieces {
    pub fn new(pieces: &[u32]) -> Self {
        let mut bits = Box::new([0; 1024]);
        for piece in pieces {
            let hash = piece.wrapping_mul(MIX);
            bits[(hash >> 22) as usize] |= 1 << (hash >> 16 & 63);
        }
        Self { bits }
    }

    /// The lowest bit is set when a piece may be in the set; the others mean nothing.
    #[inline]
    pub fn bit(&self, piece: u32) -> u64 {
        let hash = piece.wrapping_mul(MIX);
        self.bits[(hash >> 22) as usize] >> (hash >> 16 & 63)
    }
}

/// Pieces of four bytes, as many as the values of a run have: a bit per hash before the pieces
/// themselves.
#[derive(Default)]
pub(super) struct Grams {
    bits: Vec<u64>,
    shift: u32,
    /// Sorted.
    exact: Vec<u32>,
}

/// Few enough bits to stay in the nearest cache for an ordinary number of secrets.
const BITS_LOG_MIN: u32 = 13;
const BITS_LOG_MAX: u32 = 20;
/// Bits for each piece: one place in thirty-two is looked at twice for nothing.
const BITS_PER_GRAM: usize = 32;

impl Grams {
    pub fn new(mut grams: Vec<u32>) -> Self {
        grams.sort_unstable();
        grams.dedup();
        let wanted = (grams.len() * BITS_PER_GRAM).next_power_of_two().trailing_zeros();
        let log = wanted.clamp(BITS_LOG_MIN, BITS_LOG_MAX);
        let mut made = Self { bits: vec![0; 1 << (log - 6)], shift: 32 - log, exact: grams };
        for i in 0..made.exact.len() {
            let hash = made.hash(made.exact[i]);
            made.bits[hash >> 6] |= 1 << (hash & 63);
        }
        made
    }

    fn hash(&self, gram: u32) -> usize {
        (gram.wrapping_mul(MIX) >> self.shift) as usize
    }

    /// Whether a piece is in the set.
    #[inline]
    pub fn has(&self, gram: u32) -> bool {
        let hash = self.hash(gram);
        self.bits.get(hash >> 6).is_some_and(|word| word >> (hash & 63) & 1 == 1)
            && self.exact.binary_search(&gram).is_ok()
    }
}

/// The four bytes at a place, as a number.
#[inline]
pub(super) fn gram4(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map(u32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_the_set_is_found_and_nothing_else() {
        let grams: Vec<u32> = (0..3_000u32).map(|n| n.wrapping_mul(2_654_435_761)).collect();
        let set = Grams::new(grams.clone());
        assert!(grams.iter().all(|gram| set.has(*gram)));
        let strangers = (0..3_000u32).map(|n| n.wrapping_mul(40_503).wrapping_add(7));
        for stranger in strangers.filter(|stranger| !grams.contains(stranger)) {
            assert!(!set.has(stranger));
        }
        assert!(!Grams::default().has(0), "an empty set has nothing");
    }
}
