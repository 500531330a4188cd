//! Whose lease ran out, as seen by someone who does not hold it. A lease that stands unchanged for
//! its whole length, by the looker's own clock, was not renewed and is over: its holder counted from
//! before it was first seen. So no two clocks are compared, and a wall clock that is set, forwards or
//! back, neither ends a good lease nor keeps a dead one.

use std::collections::BTreeMap;

/// What was seen so far, by whatever names a run and whatever changes with its lease.
#[derive(Debug)]
pub struct Overdue<K, L> {
    seen: BTreeMap<K, (L, u64)>,
}

impl<K, L> Default for Overdue<K, L> {
    fn default() -> Self {
        Self { seen: BTreeMap::new() }
    }
}

impl<K: Ord + Copy, L: PartialEq + Copy> Overdue<K, L> {
    /// Takes all leases as they are now, and gives those that are over.
    pub fn look(
        &mut self,
        now_ms: u64,
        length_ms: u64,
        leases: impl IntoIterator<Item = (K, L)>,
    ) -> Vec<(K, L)> {
        let mut seen = BTreeMap::new();
        let mut over = Vec::new();
        for (key, lease) in leases {
            let since_ms = match self.seen.get(&key) {
                Some((before, since_ms)) if *before == lease => *since_ms,
                Some(_) | None => now_ms,
            };
            if now_ms.saturating_sub(since_ms) >= length_ms {
                over.push((key, lease));
            }
            seen.insert(key, (lease, since_ms));
        }
        self.seen = seen;
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_that_stands_unchanged_for_its_length_is_over() {
        let mut overdue = Overdue::default();
        assert_eq!(overdue.look(100, 1_000, [("a", 1), ("b", 1)]), []);
        assert_eq!(overdue.look(700, 1_000, [("a", 1), ("b", 2)]), []);
        assert_eq!(overdue.look(1_099, 1_000, [("a", 1), ("b", 2)]), []);
        assert_eq!(overdue.look(1_100, 1_000, [("a", 1), ("b", 2)]), [("a", 1)]);
        assert_eq!(overdue.look(1_700, 1_000, [("a", 2), ("b", 2)]), [("b", 2)]);
    }

    #[test]
    fn what_was_gone_in_between_is_counted_anew() {
        let mut overdue = Overdue::default();
        assert_eq!(overdue.look(0, 1_000, [("a", 1)]), []);
        assert_eq!(overdue.look(500, 1_000, []), []);
        assert_eq!(overdue.look(1_200, 1_000, [("a", 1)]), []);
        assert_eq!(overdue.look(2_200, 1_000, [("a", 1)]), [("a", 1)]);
    }
}
