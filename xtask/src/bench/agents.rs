//! What Ostler adds to an agent of others that is greeted and answers: `ostler run` from its start to
//! its end, beside the same program with the same arguments and variables in a plain spawn, told the
//! same words. Each CLI is the pinned one, in an instance of its own with made-up keys, and its model
//! is a scripted one on loopback. By turns: bare, through Ostler without its tools, through Ostler as
//! it comes. What is added is the difference of the medians.

#[path = "../../../crates/cli/tests/agents/clis.rs"]
#[allow(dead_code, reason = "the suite of the real agents uses the rest of it")]
mod clis;

mod bare;
mod stage;

use super::figures::{Pairs, Short, median, percentile};
use super::{Programs, report, said, usage};
use stage::{Stage, Tools};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use testkit::agents::{PINS, Pin};

const PAIRS: usize = 20;
/// Whatever takes longer than this has hung.
const RUN_SEC_MAX: u64 = 120;

/// What to measure, and what to do with it.
#[derive(Debug, PartialEq, Eq)]
pub struct Wanted {
    pairs: usize,
    only: Option<String>,
    write: bool,
}

impl Wanted {
    pub fn of(words: &[&str]) -> Result<Self, String> {
        let mut wanted = Self { pairs: PAIRS, only: None, write: false };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} takes a value"));
            match *word {
                "--pairs" => wanted.pairs = value()?.parse().map_err(said(word))?,
                "--only" => wanted.only = Some((*value()?).to_owned()),
                "--write" => wanted.write = true,
                other => return Err(format!("bench agents does not know '{other}'")),
            }
        }
        match wanted {
            Self { write: true, ref only, pairs } if only.is_some() || pairs < PAIRS => {
                Err(format!("--write keeps all of them, by at least {PAIRS} pairs"))
            }
            Self { pairs: 0, .. } => Err("--pairs takes a number above 0".to_owned()),
            wanted => Ok(wanted),
        }
    }

    /// The CLIs that the gate drives every day: the first wave. A bridge to one of them has no row.
    fn pins(&self) -> Result<Vec<Pin>, String> {
        let has_row = |pin: &&Pin| clis::CLIS.iter().any(|cli| cli.id == pin.id);
        let wanted = |pin: &&Pin| self.only.as_deref().is_none_or(|id| id == pin.id);
        let everyday = PINS.iter().filter(|pin| pin.everyday);
        let pins: Vec<Pin> = everyday.filter(has_row).filter(wanted).copied().collect();
        match pins.is_empty() {
            true => Err(format!("no agent of every day is called {:?}", self.only)),
            false => Ok(pins),
        }
    }
}

/// The tool where no network but loopback exists, as far as the machine allows it.
pub fn on_loopback_alone(tool: &Path) -> Result<Command, String> {
    let python = testkit::python().ok_or("no python3: the scripted model needs it")?;
    let mut command = Command::new(python);
    command.arg(testkit::model::scripts().join("loopback_only.py")).arg(tool);
    Ok(command)
}

pub fn run(root: &Path, programs: &Programs, wanted: &Wanted) -> Result<(), String> {
    let pairs = wanted.pairs;
    println!(
        "agents: {pairs} rounds of bare, without tools, as it comes (load average {})",
        usage::load()
    );
    let mut rows = Vec::new();
    for pin in wanted.pins()? {
        let row = measured(programs, &pin, pairs)?;
        println!("  {}", row.line());
        rows.push(row);
    }
    let table = table(&rows);
    println!("\n{table}");
    match wanted.write {
        true => report::keep(root, "agents", &table),
        false => Ok(()),
    }
}

/// Times of one CLI in milliseconds, round by round.
struct Row {
    name: String,
    bare: Vec<f64>,
    plain: Vec<f64>,
    whole: Vec<f64>,
}

fn measured(programs: &Programs, pin: &Pin, pairs: usize) -> Result<Row, String> {
    let stage = Stage::new(programs, pin)?;
    let name = format!("{} {}", pin.id, pin.version);
    let mut row = Row { name, bare: Vec::new(), plain: Vec::new(), whole: Vec::new() };
    for round in 0..=pairs {
        let _model = stage.model(round)?;
        let bare = bounded(&stage, || stage.bare())?;
        let plain = bounded(&stage, || stage.run(Tools::Off))?;
        let whole = bounded(&stage, || stage.run(Tools::Offered))?;
        // The first one makes what a CLI makes once in its HOME; then both sides are compared.
        if round == 0 {
            stage.same_start()?;
            continue;
        }
        row.bare.push(bare);
        row.plain.push(plain);
        row.whole.push(whole);
    }
    Ok(row)
}

/// Ends everything of the stage when it takes too long, so that whoever waits for it goes on.
fn bounded(stage: &Stage, work: impl FnOnce() -> Result<f64, String>) -> Result<f64, String> {
    let mark = stage.mark();
    let (done, waiting) = std::sync::mpsc::channel::<()>();
    let watch = std::thread::spawn(move || {
        use std::sync::mpsc::RecvTimeoutError::Timeout;
        if waiting.recv_timeout(Duration::from_secs(RUN_SEC_MAX)) == Err(Timeout) {
            testkit::end_marked(&mark);
        }
    });
    let worked = work();
    drop(done);
    watch.join().map_err(|_| "the watch over an agent panicked".to_owned())?;
    worked
}

impl Row {
    fn floor(&self) -> Pairs {
        let mut pairs = Pairs::default();
        self.bare.iter().zip(&self.whole).for_each(|(bare, ours)| pairs.push(*bare, *ours));
        pairs
    }

    /// What is added by the medians, and the middle half of what was added round by round.
    fn added(&self, ours: &[f64]) -> String {
        let rounds: Vec<f64> =
            ours.iter().zip(&self.bare).map(|(ours, bare)| ours - bare).collect();
        let [low, high] = [25.0, 75.0].map(|percent| percentile(&rounds, percent));
        format!("{:+.0} ms ({low:+.0} … {high:+.0})", median(ours) - median(&self.bare))
    }

    fn line(&self) -> String {
        let floor = self.floor();
        let void = if floor.is_void() { ", void" } else { "" };
        format!(
            "{}: bare {} ms (spread {:.2}×{void}); without tools {}; as it comes {}",
            self.name,
            Short(median(&self.bare)),
            floor.floor_spread(),
            self.added(&self.plain),
            self.added(&self.whole),
        )
    }

    fn cells(&self) -> String {
        let floor = self.floor();
        let share = (median(&self.whole) / median(&self.bare) - 1.0) * 100.0;
        let [verdict, share] = match floor.is_void() {
            true => ["void: the CLI's own time moved by more than twice".to_owned(), String::new()],
            false => [String::new(), format!("{share:+.1} %")],
        };
        format!(
            "| {} | {} ms (spread {:.2}×) | {} | {} | {share} | {} | {verdict} |",
            self.name,
            Short(median(&self.bare)),
            floor.floor_spread(),
            self.added(&self.plain),
            self.added(&self.whole),
            self.bare.len(),
        )
    }
}

fn table(rows: &[Row]) -> String {
    let mut table =
        "| agent | by itself | Ostler adds, its tools off | Ostler adds, as it comes | \
                     of the CLI's own time | rounds | |\n|---|---|---|---|---|---|---|\n"
            .to_owned();
    for row in rows {
        table.push_str(&row.cells());
        table.push('\n');
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_all_of_them_by_enough_pairs() {
        assert_eq!(Wanted::of(&[]).unwrap().pairs, PAIRS);
        assert!(Wanted::of(&["--write"]).unwrap().write);
        for refused in [&["--write", "--pairs", "3"][..], &["--pairs", "0"], &["--pairs"], &["x"]] {
            assert!(Wanted::of(refused).is_err(), "{refused:?}");
        }
        let first_wave = Wanted::of(&[]).unwrap().pins().unwrap();
        let only = Wanted { only: Some(first_wave[0].id.to_owned()), ..Wanted::of(&[]).unwrap() };
        assert!(first_wave.len() >= 4 && only.pins().unwrap() == first_wave[..1]);
        assert!(Wanted { only: Some("nobody".to_owned()), ..only }.pins().is_err());
    }

    #[test]
    fn what_is_added_is_the_difference_of_medians_and_void_when_the_cli_itself_moved() {
        let row = |bare: [f64; 3]| Row {
            name: "agent 1".to_owned(),
            bare: bare.into(),
            plain: vec![110.0, 120.0, 130.0],
            whole: vec![150.0, 150.0, 150.0],
        };
        let calm = row([100.0, 100.0, 101.0]);
        assert_eq!(calm.added(&calm.plain), "+20 ms (+15 … +24)");
        assert!(calm.cells().contains("+50 ms") && calm.cells().contains("+50.0 %"));
        assert!(row([100.0, 100.0, 201.0]).cells().contains("void"));
        assert!(table(&[calm]).lines().all(|line| line.matches('|').count() == 8));
    }
}
