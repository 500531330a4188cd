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
use oracle::Violation;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use world::{Outcome, simulate};

const SEEDS: u64 = 20_000;
/// Simulations over one store on disk; they are slower, so there are fewer.
const SEEDS_ON_DISK: u64 = 200;

struct Wanted {
    seeds: u64,
    first: u64,
    disk: u64,
    one: Option<u64>,
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
        ("simulate-built", Some(seed)) => show(&wanted, seed),
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
            "--seed" => wanted.one = Some(number()?),
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

    fn report(&self, over: &str, began: Instant) {
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
    let (in_memory, on_disk) = (Counts::default(), Counts::default());
    let began = Instant::now();
    let next = AtomicU64::new(wanted.first);
    let end = wanted.first + wanted.seeds;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|threads| {
        for _ in 0..cores {
            threads.spawn(|| {
                while !in_memory.stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    let options = wanted.options(seed);
                    let ground = InMemory::new(Break::flaw(wanted.flaw));
                    let outcome = simulate(&ground, &options, wanted.flaw, false);
                    in_memory.add(&outcome);
                    if let Some(violation) = outcome.violation
                        && !in_memory.stop.swap(true, Ordering::Relaxed)
                    {
                        in_memory.broken.fetch_add(1, Ordering::Relaxed);
                        tell(&options, &violation, wanted.flaw);
                    }
                }
            });
        }
    });
    in_memory.report("in memory", began);
    let began = Instant::now();
    if in_memory.broken.load(Ordering::Relaxed) == 0 {
        search_on_disk(wanted, &on_disk)?;
        on_disk.report("over SQLite", began);
    }
    match in_memory.broken.into_inner() + on_disk.broken.into_inner() {
        0 => Ok(()),
        _ => Err("a promise was broken, see above".to_owned()),
    }
}

/// The same over the product's own store, and over what that left its checker.
fn search_on_disk(wanted: &Wanted, counts: &Counts) -> Result<(), String> {
    let ground = OnDisk::new()?;
    for seed in wanted.first..wanted.first + wanted.disk {
        let options = wanted.options(seed);
        let outcome = simulate(&ground, &options, None, false);
        counts.add(&outcome);
        if let Some(violation) = outcome.violation {
            counts.broken.fetch_add(1, Ordering::Relaxed);
            println!("over SQLite: {violation}\n  {options}\n  {}", options.command());
            break;
        }
    }
    let found = store::check(ground.dir.path());
    let found = found.map_err(|error| format!("checking the store: {error}"))?;
    counts.broken.fetch_add(found.len() as u64, Ordering::Relaxed);
    found.iter().for_each(|violation| println!("over SQLite: {violation}"));
    Ok(())
}

fn show(wanted: &Wanted, seed: u64) -> Result<(), String> {
    let options = wanted.options(seed);
    println!("{options}");
    let ground = InMemory::new(Break::flaw(wanted.flaw));
    let outcome = simulate(&ground, &options, wanted.flaw, true);
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
fn tell(options: &Options, violation: &Violation, flaw: Option<Break>) {
    let (options, violation) = shrink(options.clone(), violation.clone(), flaw);
    let ground = InMemory::new(Break::flaw(flaw));
    let outcome = simulate(&ground, &options, flaw, true);
    println!("{violation}\n  {options}");
    outcome.script.iter().for_each(|line| println!("  {line}"));
    let word = Break::ALL.iter().find(|(this, _)| Some(*this) == flaw);
    let word = word.map_or_else(String::new, |(_, word)| format!(" --break {word}"));
    println!("  {}{word}", options.command());
}

/// Takes away what is not needed to break the same promise.
fn shrink(
    mut options: Options,
    mut violation: Violation,
    flaw: Option<Break>,
) -> (Options, Violation) {
    loop {
        let smaller = options.smaller().into_iter().find_map(|smaller| {
            let ground = InMemory::new(Break::flaw(flaw));
            let found = simulate(&ground, &smaller, flaw, false).violation?;
            (found.promise == violation.promise).then_some((smaller, found))
        });
        match smaller {
            Some((smaller, found)) => (options, violation) = (smaller, found),
            None => return (options, violation),
        }
    }
}
