//! The fast way to "nothing here": a set of short pieces of what is looked for, and a look at every
//! n-th place of a text only. Whatever is looked for is longer than a piece by at least the stride,
//! so wherever it stands one of its registered pieces lies on a place that is looked at. A hit
//! proves nothing and must be checked; no hit proves that there is nothing. Allocates nothing.

/// Spreads a piece over all bits of a number; the upper ones are the best.
const MIX: u32 = 0x9e37_79b1;

/// Three bytes in a row, each by what it may be.
pub(super) type Piece = [Vec<u8>; 3];

/// The pieces of the rules, which are the same for all: a table for each of the three bytes says in
/// which groups of pieces it occurs there. No group that all three share is right about no.
pub(super) struct Sieve {
    groups: Box<[[u64; 256]; 3]>,
}

impl Sieve {
    pub fn new(mut pieces: Vec<Piece>) -> Self {
        // Neighbours begin alike, so a group lets little through that is in none of its pieces.
        pieces.sort_unstable();
        let mut groups = Box::new([[0; 256]; 3]);
        for (n, piece) in pieces.iter().enumerate() {
            let group = 1 << (n * u64::BITS as usize / pieces.len());
            for (bytes, place) in piece.iter().zip(groups.iter_mut()) {
                bytes.iter().for_each(|byte| place[usize::from(*byte)] |= group);
            }
        }
        Self { groups }
    }

    /// Not zero when these bytes may be a piece.
    #[inline]
    pub fn groups(&self, [first, second, third]: [u8; 3]) -> u64 {
        let [firsts, seconds, thirds] = &*self.groups;
        firsts[usize::from(first)] & seconds[usize::from(second)] & thirds[usize::from(third)]
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
