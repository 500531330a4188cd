//! What came of the cases: for each point how often someone died there and with what owed, and
//! every violation with the words that have it again. "None in N" is said with the bound that N
//! kills can give.

use super::case::{Death, Outcome, Spent};
use super::launch::{LAUNCH_MAX_MS, Unlaunched};
use super::schedule::{Case, Kill, Place, is_awaited, place};
use failpoint::Point;
use std::collections::BTreeMap;
use std::time::Instant;

/// A point that was asked for so often and never passed is passed by nobody: it shows nothing.
const BLIND_AFTER: usize = 5;
/// A point that was asked for so often must have been met, with something owed, so often.
const ASKED_ENOUGH: usize = 20;
const OWED_MIN: usize = 10;
/// After so many kills for each point all of them must have been asked for that often.
const KILLS_PER_POINT: usize = 30;

#[derive(Debug, Default, Clone, Copy)]
struct Row {
    /// How often the schedule asked for it.
    asked: usize,
    deaths: usize,
    owed: usize,
    unanswered: usize,
    violations: usize,
}

pub struct Report {
    began: Instant,
    cases: usize,
    rows: BTreeMap<Option<Point>, Row>,
    spent: Spent,
    unlaunched: Unlaunched,
    unnamed: usize,
    violations: usize,
    /// The one point that was asked for, if not all were.
    only: Option<Point>,
}

impl Report {
    pub fn new(began: Instant, only: Option<Point>) -> Self {
        let (rows, spent, unlaunched) = Default::default();
        let (cases, unnamed, violations) = (0, 0, 0);
        Self { began, cases, rows, spent, unlaunched, unnamed, violations, only }
    }

    pub fn add(&mut self, case: &Case, outcome: Result<Outcome, String>, again: &str) {
        self.cases += 1;
        let outcome = outcome.unwrap_or_else(|error| Outcome {
            deaths: Vec::new(),
            spent: Spent::default(),
            unlaunched: Unlaunched::default(),
            unnamed: 0,
            broken: vec![error],
            kept: None,
        });
        let Outcome { deaths, spent, unlaunched, unnamed, broken, kept } = outcome;
        self.unlaunched.add(unlaunched);
        self.unnamed += unnamed;
        self.spent.killing += spent.killing;
        self.spent.looking += spent.looking;
        self.spent.ending += spent.ending;
        self.spent.judging += spent.judging;
        self.violations += broken.len();
        for kill in &case.kills {
            if let Kill::At { point, .. } = kill {
                self.rows.entry(Some(*point)).or_default().asked += 1;
            }
        }
        for Death { point, owed, unanswered } in &deaths {
            let row = self.rows.entry(*point).or_default();
            row.deaths += 1;
            row.owed += usize::from(*owed);
            row.unanswered += usize::from(*unanswered);
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
        let line = |name: &str, columns: [&str; 4]| {
            let [kills, owed, unanswered, violations] = columns;
            println!("{name:<20} {kills:>6} {owed:>6} {unanswered:>10} {violations:>10}");
        };
        line("point", ["kills", "owed", "unanswered", "violations"]);
        let points = Point::ALL.iter().map(|point| Some(*point)).chain([None]);
        for point in points {
            let row = self.rows.get(&point).copied().unwrap_or_default();
            let name = point.map_or("(an instant)", Point::name);
            let Row { deaths, owed, unanswered, violations, .. } = row;
            let columns = [deaths, owed, unanswered, violations].map(|count| count.to_string());
            line(name, columns.each_ref().map(String::as_str));
        }
        let kills = self.kills();
        let Spent { killing, looking, ending, judging } = self.spent;
        let each = |spent: std::time::Duration| spent.as_secs_f64() / self.cases.max(1) as f64;
        println!(
            "a case: {:.1} s of kills, {:.1} s until all runs had ended, {:.1} s of judging",
            each(killing),
            each(ending),
            each(judging)
        );
        println!(
            "looking at the store after each kill took {:.1} s of that in all",
            looking.as_secs_f64()
        );
        println!(
            "{kills} kills in {} cases, {} s; {} violations; with none in {kills}, fewer than one \
             kill in {} harms (95 %)",
            self.cases,
            self.seconds(),
            self.violations,
            kills / 3
        );
        let Unlaunched { acknowledged, unacknowledged, longest_ms } = self.unlaunched;
        println!(
            "{acknowledged} runs that were acknowledged were never launched, for their host died within \
             {longest_ms} ms ({LAUNCH_MAX_MS} allowed); {unacknowledged} that were not"
        );
        println!(
            "{} blobs had no name when the last server of a case had left, for one more to sweep",
            self.unnamed
        );
        let (held, rare) = self.rare();
        println!(
            "{held} points were asked for {ASKED_ENOUGH} times, and must be met {OWED_MIN} times with something \
             owed, and with a request unanswered where someone waits"
        );
        match (self.violations, self.unmet().as_slice(), rare.as_slice()) {
            (0, [], []) => Ok(()),
            (0, [], rare) => Err(format!(
                "these points were met less than {OWED_MIN} times with something owed, or with a request \
                 unanswered where someone waits: {}",
                rare.join(", ")
            )),
            (0, unmet, _) => Err(format!("no process passes these points: {}", unmet.join(", "))),
            (count, _, _) => Err(format!("{count} violations")),
        }
    }

    /// Points that show too little for how often they were asked for, and how many are held to that.
    /// In a long torture each is, whether it was asked for or not.
    fn rare(&self) -> (usize, Vec<&'static str>) {
        let long = self.only.is_none() && self.kills() >= KILLS_PER_POINT * Point::ALL.len();
        let row = |point: &Point| self.rows.get(&Some(*point)).copied().unwrap_or_default();
        let held = |point: &&Point| long || row(point).asked >= ASKED_ENOUGH;
        let held: Vec<_> = Point::ALL.iter().filter(held).collect();
        // Before anyone was told anything, nothing is owed.
        let met = |point: &Point| match place(*point).0 {
            Place::Bare => row(point).deaths,
            _ if is_awaited(*point) => row(point).unanswered,
            _ => row(point).owed,
        };
        let rare = held.iter().filter(|point| met(point) < OWED_MIN);
        (held.len(), rare.map(|point| point.name()).collect())
    }

    /// Points at which nobody ever died, however often it was tried.
    fn unmet(&self) -> Vec<&'static str> {
        let unmet = self.rows.iter().filter(|(_, row)| row.asked >= BLIND_AFTER && row.deaths == 0);
        unmet.filter_map(|(point, _)| point.map(Point::name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::schedule::Kind;
    use super::*;

    /// A case in which all was well.
    fn well(deaths: Vec<Death>) -> Outcome {
        let (spent, unlaunched) = (Spent::default(), Unlaunched::default());
        Outcome { deaths, spent, unlaunched, unnamed: 0, broken: Vec::new(), kept: None }
    }

    #[test]
    fn a_point_that_is_never_passed_is_told_when_it_was_tried_often_enough() {
        let kills = vec![
            Kill::At { point: Point::FenceRaised, hit: 1 },
            Kill::At { point: Point::Reaped, hit: 1 },
        ];
        let case = Case { number: 0, kind: Kind::Sleeper, kills };
        let mut report = Report::new(Instant::now(), None);
        for tries in 1..=BLIND_AFTER {
            let deaths = vec![
                Death { point: None, owed: true, unanswered: false },
                Death { point: Some(Point::Reaped), owed: true, unanswered: false },
            ];
            report.add(&case, Ok(well(deaths)), "");
            let unmet: &[&str] = if tries < BLIND_AFTER { &[] } else { &["fence_raised"] };
            assert_eq!(report.unmet(), unmet, "after {tries}");
        }
        assert!(report.finish().is_err());
    }

    /// A report of so many visits of one point, some of which were met with something owed, and some
    /// of those with a request that was not answered.
    fn visited(point: Point, asked: usize, owed: usize, unanswered: usize) -> Report {
        let kills = vec![Kill::At { point, hit: 1 }];
        let case = Case { number: 0, kind: Kind::Ordinary, kills };
        let mut report = Report::new(Instant::now(), None);
        for n in 0..asked {
            let (owed, unanswered) = (n < owed, n < unanswered);
            let deaths = vec![Death { point: Some(point), owed, unanswered }];
            report.add(&case, Ok(well(deaths)), "");
        }
        report
    }

    #[test]
    fn a_point_that_was_asked_for_often_must_be_met_often_with_something_owed() {
        let rare = |point, asked, owed| visited(point, asked, owed, 0).rare();
        assert_eq!(rare(Point::Settled, ASKED_ENOUGH - 1, 0), (0, vec![]));
        assert_eq!(rare(Point::Settled, ASKED_ENOUGH, OWED_MIN - 1), (1, vec!["settled"]));
        assert_eq!(rare(Point::Settled, ASKED_ENOUGH, OWED_MIN), (1, vec![]));
        // Nothing can be owed there.
        assert_eq!(rare(Point::Migrated, ASKED_ENOUGH, 0), (1, vec![]));
    }

    #[test]
    fn where_someone_waits_a_point_must_be_met_often_with_a_request_unanswered() {
        let rare = |unanswered| visited(Point::TaskPut, ASKED_ENOUGH, ASKED_ENOUGH, unanswered);
        assert_eq!(rare(OWED_MIN - 1).rare(), (1, vec!["task_put"]));
        assert!(rare(OWED_MIN - 1).finish().is_err());
        assert_eq!(rare(OWED_MIN).rare(), (1, vec![]));
    }

    #[test]
    fn in_a_long_torture_every_point_must_be_met_often() {
        let kills = KILLS_PER_POINT * Point::ALL.len();
        let (held, rare) = visited(Point::TaskPut, kills, kills, kills).rare();
        assert_eq!((held, rare.len()), (Point::ALL.len(), Point::ALL.len() - 1));
        let mut one = visited(Point::TaskPut, kills, kills, kills);
        one.only = Some(Point::TaskPut);
        assert_eq!(one.rare(), (1, vec![]));
    }
}
