//! What came of `bench acp`, as a table of Markdown: time beside loss, each peer against us in the
//! same manner. `--write` puts it into `docs/benchmarks.md` between marks of its own.

use super::super::figures::{Bound, Short};
use super::super::report::{self, Verdict};
use super::{Faster, Size};
use std::fmt::Write as _;
use std::path::Path;

/// How many times faster than each peer.
const BOUND: Bound = Bound::AtLeast { gate: 1.0, goal: 3.0 };

/// One peer, and ours beside it.
pub struct Row {
    peer: &'static str,
    how: &'static str,
    pub pairs: Faster,
    /// Updates that were missing, doubled or out of order, in all rounds together.
    pub lost_by_us: usize,
    pub lost_by_peer: usize,
    /// Why it could not be measured, in its own words.
    pub trouble: Option<String>,
}

impl Row {
    pub fn new(peer: &'static str, how: &'static str) -> Self {
        let pairs = Faster::default();
        Self { peer, how, pairs, lost_by_us: 0, lost_by_peer: 0, trouble: None }
    }

    /// How it stands, in one line.
    pub fn last(&self) -> String {
        let Self { peer, pairs, lost_by_us, lost_by_peer, trouble, .. } = self;
        match trouble {
            Some(trouble) => format!("{peer}: {trouble}"),
            None => format!(
                "{peer}: theirs {} ms, {lost_by_peer} lost; ours {} ms, {lost_by_us} lost; {:.2}×",
                Short(pairs.ours()),
                Short(pairs.floor()),
                pairs.ratio()
            ),
        }
    }

    fn verdict(&self) -> String {
        match (&self.trouble, self.lost_by_us, self.pairs.is_void()) {
            (Some(_), ..) => "not measured".to_owned(),
            (None, lost @ 1.., _) => format!("**not met**: {lost} lost by us"),
            (None, 0, true) => Verdict::Void.words().to_owned(),
            (None, 0, false) => Verdict::of(BOUND, self.pairs.ratio()).words().to_owned(),
        }
    }
}

pub fn table(size: Size, rows: &[Row]) -> String {
    let Size { rounds, updates } = size;
    let mut table = format!(
        "{rounds} rounds of {updates} updates each. *Lost* counts updates that were missing, doubled or \
         out of order, of {} in all; on our side every one is stored first.\n\n\
         | peer | lost by it | lost by us | its time | our time | times faster (spread) | gate | goal | verdict |\n\
         |---|---|---|---|---|---|---|---|---|\n",
        updates as usize * rounds
    );
    let (gate, goal) = BOUND.gate_and_goal();
    for row in rows {
        let (low, high) = row.pairs.ratio_spread();
        let (theirs, ours) = (Short(row.pairs.ours()), Short(row.pairs.floor()));
        // Writing to a String cannot fail.
        let _ = match &row.trouble {
            Some(_) => writeln!(
                table,
                "| {} | | {} | | | | {gate} | {goal} | {} |",
                row.peer,
                row.lost_by_us,
                row.verdict()
            ),
            None => writeln!(
                table,
                "| {} | {} | {} | {theirs} ms | {ours} ms | {:.2}× ({low:.2}–{high:.2}) | {gate} | {goal} | {} |",
                row.peer,
                row.lost_by_peer,
                row.lost_by_us,
                row.pairs.ratio(),
                row.verdict()
            ),
        };
    }
    table.push('\n');
    for Row { peer, how, trouble, .. } in rows {
        let _ = match trouble {
            Some(trouble) => writeln!(table, "- {peer}: could not be measured. {trouble}"),
            None => writeln!(table, "- {peer}: {how}."),
        };
    }
    table
}

pub fn write(root: &Path, table: &str) -> Result<(), String> {
    report::keep(root, "acp", table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(pairs: &[(f64, f64)], lost_by_us: usize) -> Row {
        let mut row = Row::new("a peer", "its own way");
        pairs.iter().for_each(|(ours, theirs)| row.pairs.push(*ours, *theirs));
        row.lost_by_us = lost_by_us;
        row
    }

    #[test]
    fn a_peer_is_met_by_time_and_nothing_lost_or_not_at_all() {
        assert_eq!(row(&[(1.0, 4.0)], 0).verdict(), "goal met");
        assert_eq!(row(&[(1.0, 2.0)], 0).verdict(), "gate met");
        assert_eq!(row(&[(1.0, 0.5)], 0).verdict(), "**not met**");
        assert_eq!(row(&[(1.0, 4.0)], 3).verdict(), "**not met**: 3 lost by us");
        assert_eq!(row(&[(1.0, 4.0), (5.0, 20.0)], 0).verdict(), "void");
        let mut silent = row(&[(1.0, 4.0)], 0);
        silent.trouble = Some("it said no".to_owned());
        assert_eq!(silent.verdict(), "not measured");
        assert!(
            table(super::super::WHOLE, &[silent]).contains("could not be measured. it said no")
        );
    }
}
