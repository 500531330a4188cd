//! `cargo xtask simulate`: two to eight nodes over one store, by seed, with everything that can come
//! between them: pauses past the lease, lost answers, late requests, clocks that are set, dead nodes,
//! keepers and agents. The run machine, its rules and the store's verbs are the product's own; the
//! driver is the product's order of steps, one at a time (`simulate/drive.rs`).
//!
//! First faults are on and nothing may break, then they are off and every run must end
//! (`simulate/world.rs`); what must hold is in `simulate/oracle.rs`. A seed that fails is made
//! smaller, and printed with its script and the command that repeats it.

mod batch;
mod breaks;
mod drive;
mod env;
mod ground;
mod keeper;
mod node;
mod options;
mod oracle;
mod take_over;
#[cfg(test)]
mod tests;
mod world;

use breaks::Break;
use ground::{InMemory, OnDisk};
use options::{Fault, NODES_MAX, NODES_MIN, Options};
use oracle::{Promise, Violation};
use std::fmt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use world::{Outcome, simulate};

const SEEDS: u64 = 20_000;
/// Simulations over SQLite; they are slower, so there are fewer.
const SEEDS_ON_DISK: u64 = 200;

/// What a simulation stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    Memory,
    Disk,
}

impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "in memory",
            Self::Disk => "over SQLite",
        })
    }
}

struct Wanted {
    seeds: u64,
    first: u64,
    disk: u64,
    one: Option<(u64, Over)>,
    nodes: Option<usize>,
    tasks: Option<usize>,
    steps: Option<u64>,
    without: Vec<Fault>,
    flaw: Option<Break>,
}

/// `simulate …` builds and goes on as `simulate-built …` in the optimised tool.
pub fn run(root: &Path, words: &[&str]) -> Result<(), String> {
    let (first, rest) = words.split_first().ok_or("simulate takes words")?;
    let wanted = wanted(rest)?;
    match (*first, wanted.one) {
        ("simulate-built", Some((seed, over))) => show(&wanted, seed, over),
        ("simulate-built", None) => search(&wanted),
        _ => build(root, rest),
    }
}

fn wanted(words: &[&str]) -> Result<Wanted, String> {
    let mut wanted = Wanted {
        seeds: SEEDS,
        first: 0,
        disk: SEEDS_ON_DISK,
        one: None,
        nodes: None,
        tasks: None,
        steps: None,
        without: Vec::new(),
        flaw: None,
    };
    let mut words = words.iter();
    while let Some(flag) = words.next() {
        let value = words.next().ok_or_else(|| format!("{flag} takes a value"))?;
        let number = || value.parse().map_err(|_| format!("{flag} takes a number, not '{value}'"));
        let count = || number().map(|number: u64| number as usize);
        match *flag {
            "--seeds" => wanted.seeds = number()?,
            "--first" => wanted.first = number()?,
            "--disk" => wanted.disk = number()?,
            "--seed" => wanted.one = Some((number()?, Over::Memory)),
            "--disk-seed" => wanted.one = Some((number()?, Over::Disk)),
            "--nodes" => wanted.nodes = Some(count()?.clamp(NODES_MIN, NODES_MAX)),
            "--tasks" => wanted.tasks = Some(count()?.max(1)),
            "--steps" => wanted.steps = Some(number()?),
            "--without" => {
                for word in value.split(',') {
                    let fault = Fault::from_word(word);
                    wanted.without.push(fault.ok_or_else(|| format!("no fault is '{word}'"))?);
                }
            }
            "--break" => {
                let flaw = Break::from_word(value);
                wanted.flaw = Some(flaw.ok_or_else(|| format!("no break is '{value}'"))?);
            }
            other => return Err(format!("simulate does not know '{other}'")),
        }
    }
    Ok(wanted)
}

impl Wanted {
    fn options(&self, seed: u64) -> Options {
        let mut options = Options::of(seed);
        options.nodes = self.nodes.unwrap_or(options.nodes);
        options.tasks = self.tasks.unwrap_or(options.tasks);
        options.steps = self.steps.unwrap_or(options.steps);
        options.faults.retain(|fault| !self.without.contains(fault));
        options
    }
}

fn build(root: &Path, words: &[&str]) -> Result<(), String> {
    let own = std::env::current_exe();
    let own = own.map_err(|error| format!("finding this program's path: {error}"))?;
    let target = own.ancestors().nth(2).unwrap_or(root);
    println!("cargo build --profile fuzz --package xtask");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--profile", "fuzz", "--package", "xtask", "--target-dir"]);
    succeed(cargo.arg(target).current_dir(root))?;
    succeed(Command::new(target.join("fuzz/xtask")).arg("simulate-built").args(words))
}

fn succeed(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().display().to_string();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{name} ended with {status}")),
        Err(error) => Err(format!("starting {name}: {error}")),
    }
}

/// Counts of a search.
#[derive(Default)]
struct Counts {
    seeds: AtomicU64,
    steps: AtomicU64,
    runs: AtomicU64,
    takeovers: AtomicU64,
    broken: AtomicU64,
    stop: AtomicBool,
}

impl Counts {
    fn add(&self, outcome: &Outcome) {
        self.seeds.fetch_add(1, Ordering::Relaxed);
        self.steps.fetch_add(outcome.steps, Ordering::Relaxed);
        self.runs.fetch_add(outcome.runs, Ordering::Relaxed);
        self.takeovers.fetch_add(outcome.takeovers, Ordering::Relaxed);
    }

    fn report(&self, over: Over, began: Instant) {
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        println!(
            "{over}: {} seeds, {} steps, {} tasks, {} taken over, {} broken, in {:.1} s",
            count(&self.seeds),
            count(&self.steps),
            count(&self.runs),
            count(&self.takeovers),
            count(&self.broken),
            began.elapsed().as_secs_f64()
        );
    }
}

fn search(wanted: &Wanted) -> Result<(), String> {
    search_over(Over::Memory, wanted, wanted.seeds)?;
    search_over(Over::Disk, wanted, wanted.disk)
}

fn search_over(over: Over, wanted: &Wanted, seeds: u64) -> Result<(), String> {
    let counts = Counts::default();
    let began = Instant::now();
    let next = AtomicU64::new(wanted.first);
    let look = || -> Result<(), String> {
        while !counts.stop.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= wanted.first + seeds {
                break;
            }
            let options = wanted.options(seed);
            let outcome = play(over, &options, wanted.flaw, false)?;
            counts.add(&outcome);
            if let Some(violation) = outcome.violation
                && !counts.stop.swap(true, Ordering::Relaxed)
            {
                counts.broken.fetch_add(1, Ordering::Relaxed);
                tell(over, &options, &violation, wanted.flaw)?;
            }
        }
        Ok(())
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|threads| {
        let looks: Vec<_> = (0..cores).map(|_| threads.spawn(look)).collect();
        let gone = |_| Err("a thread of the search ended early".to_owned());
        looks.into_iter().try_for_each(|look| look.join().unwrap_or_else(gone))
    })?;
    counts.report(over, began);
    match counts.broken.into_inner() {
        0 => Ok(()),
        _ => Err("a promise was broken, see above".to_owned()),
    }
}

/// One simulation over a store of its own, so that it can be repeated alone. Over SQLite the store's
/// checker looks at what it left.
fn play(
    over: Over,
    options: &Options,
    flaw: Option<Break>,
    script: bool,
) -> Result<Outcome, String> {
    match over {
        Over::Memory => {
            let ground = InMemory::new(Break::flaw(flaw));
            Ok(simulate(&ground, options, flaw, script))
        }
        Over::Disk => {
            let ground = OnDisk::new()?;
            let mut outcome = simulate(&ground, options, flaw, script);
            let found = store::check(ground.dir.path());
            let found = found.map_err(|error| format!("checking the store: {error}"))?;
            if outcome.violation.is_none() && !found.is_empty() {
                let what = format!("the checker of the store: {}", found.join("; "));
                outcome.violation = Some(Violation { promise: Promise::Kept, what });
            }
            Ok(outcome)
        }
    }
}

fn show(wanted: &Wanted, seed: u64, over: Over) -> Result<(), String> {
    let options = wanted.options(seed);
    println!("{options}");
    let outcome = play(over, &options, wanted.flaw, true)?;
    outcome.script.iter().for_each(|line| println!("{line}"));
    match outcome.violation {
        None => {
            println!("{} steps, nothing is broken", outcome.steps);
            Ok(())
        }
        Some(violation) => Err(violation.to_string()),
    }
}

/// Prints a failing seed as small as it can be made, with its script.
fn tell(
    over: Over,
    options: &Options,
    violation: &Violation,
    flaw: Option<Break>,
) -> Result<(), String> {
    let (options, violation) = shrink(over, options.clone(), violation.clone(), flaw)?;
    let outcome = play(over, &options, flaw, true)?;
    println!("{over}: {violation}\n  {options}");
    outcome.script.iter().for_each(|line| println!("  {line}"));
    println!("  {}", command(over, &options, flaw));
    Ok(())
}

/// The words that repeat one simulation.
fn command(over: Over, options: &Options, flaw: Option<Break>) -> String {
    let word = Break::ALL.iter().find(|(this, _)| Some(*this) == flaw);
    let word = word.map_or_else(String::new, |(_, word)| format!(" --break {word}"));
    let flag = match over {
        Over::Memory => "--seed",
        Over::Disk => "--disk-seed",
    };
    format!("cargo xtask simulate {flag} {}{word}", options.words())
}

/// Takes away what is not needed to break the same promise.
fn shrink(
    over: Over,
    mut options: Options,
    mut violation: Violation,
    flaw: Option<Break>,
) -> Result<(Options, Violation), String> {
    'smaller: loop {
        for smaller in options.smaller() {
            let found = play(over, &smaller, flaw, false)?.violation;
            if let Some(found) = found.filter(|found| found.promise == violation.promise) {
                (options, violation) = (smaller, found);
                continue 'smaller;
            }
        }
        return Ok((options, violation));
    }
}
