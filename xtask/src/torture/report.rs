//! What came of the cases: for each point how often someone died there and with what owed, and
//! every violation with the words that have it again. "None in N" is said with the bound that N
//! kills can give.

use super::case::{Death, Outcome, Spent};
use super::schedule::Case;
use failpoint::Point;
use std::collections::BTreeMap;
use std::time::Instant;

#[derive(Debug, Default, Clone, Copy)]
struct Row {
    deaths: usize,
    owed: usize,
    violations: usize,
}

pub struct Report {
    began: Instant,
    cases: usize,
    rows: BTreeMap<Option<Point>, Row>,
    spent: Spent,
    violations: usize,
}

impl Report {
    pub fn new(began: Instant) -> Self {
        Self { began, cases: 0, rows: BTreeMap::new(), spent: Spent::default(), violations: 0 }
    }

    pub fn add(&mut self, case: &Case, outcome: Result<Outcome, String>, again: &str) {
        self.cases += 1;
        let outcome = outcome.unwrap_or_else(|error| Outcome {
            deaths: Vec::new(),
            spent: Spent::default(),
            broken: vec![error],
            kept: None,
        });
        let Outcome { deaths, spent, broken, kept } = outcome;
        self.spent.killing += spent.killing;
        self.spent.ending += spent.ending;
        self.spent.judging += spent.judging;
        self.violations += broken.len();
        for Death { point, owed } in &deaths {
            let row = self.rows.entry(*point).or_default();
            row.deaths += 1;
            row.owed += usize::from(*owed);
            row.violations += broken.len();
        }
        if !broken.is_empty() {
            println!("case {} ({:?}, deaths {deaths:?}):", case.number, case.kind);
            broken.iter().for_each(|broken| println!("  {broken}"));
            println!("  again: {again}");
            if let Some(kept) = kept {
                println!("  kept: {}", kept.display());
            }
        }
        if self.cases.is_multiple_of(50) {
            println!("{} cases, {} kills, {} s", self.cases, self.kills(), self.seconds());
        }
    }

    fn kills(&self) -> usize {
        self.rows.values().map(|row| row.deaths).sum()
    }

    fn seconds(&self) -> u64 {
        self.began.elapsed().as_secs()
    }

    pub fn finish(&self) -> Result<(), String> {
        println!("{:<18} {:>6} {:>6} {:>10}", "point", "kills", "owed", "violations");
        let points = Point::ALL.iter().map(|point| Some(*point)).chain([None]);
        for point in points {
            let row = self.rows.get(&point).copied().unwrap_or_default();
            let name = point.map_or("(an instant)", Point::name);
            println!("{name:<18} {:>6} {:>6} {:>10}", row.deaths, row.owed, row.violations);
        }
        let kills = self.kills();
        let Spent { killing, ending, judging } = self.spent;
        let each = |spent: std::time::Duration| spent.as_secs_f64() / self.cases.max(1) as f64;
        println!(
            "a case: {:.1} s of kills, {:.1} s until all runs had ended, {:.1} s of judging",
            each(killing),
            each(ending),
            each(judging)
        );
        println!(
            "{kills} kills in {} cases, {} s; {} violations; with none in {kills}, fewer than one \
             kill in {} harms (95 %)",
            self.cases,
            self.seconds(),
            self.violations,
            kills / 3
        );
        match self.violations {
            0 => Ok(()),
            count => Err(format!("{count} violations")),
        }
    }
}
