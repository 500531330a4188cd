//! `cargo xtask fuzz [--everyday | --seconds N] [--inputs N] [--seed S] [--target NAME]`: odd bytes
//! into everything that reads what others wrote, by our own loop or, with `--coverage`, by libFuzzer
//! (`fuzz/coverage.rs`).
//!
//! Our own loop has no feedback from coverage: inputs are the recordings and small seeds of each target,
//! mutated (`fuzz/mutate.rs`), and every target states what must hold for any of them
//! (`fuzz/targets/`). Input number I of a target follows from the tree and the seed alone, so a
//! run can be had again. A break is made smaller, printed in hexadecimal and written under
//! `target/fuzz` (`fuzz/search.rs`). The tool builds itself in the profile `fuzz`: optimised, with
//! the checks of a debug build. `--everyday` is for the gate: a minute for each, or a number of inputs
//! for the many dialects, in the build that is there already. `--coverage --blind` measures what our own
//! loop reaches, `--input FILE` tries a break of libFuzzer again. `docs/fuzz.md` has what came of it.

mod coverage;
mod lines;
pub(crate) mod mutate;
mod search;
mod targets;

pub use mutate::Chance;
use search::{Found, Reader};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

/// Enough inputs of one target, whatever time is left.
const INPUTS_ENOUGH: u64 = 5_000_000;
const SECONDS: u64 = 60;
const SEED: u64 = 1;

struct Wanted {
    everyday: bool,
    coverage: bool,
    /// What our own loop reaches is wanted, not what libFuzzer does.
    blind: bool,
    seconds: u64,
    inputs: Option<u64>,
    seed: u64,
    target: Option<String>,
    /// The file of one input of libFuzzer.
    input: Option<PathBuf>,
}

impl Wanted {
    fn limits(&self, target: &dyn Reader) -> search::Limits {
        let enough = target.everyday().filter(|_| self.everyday).unwrap_or(INPUTS_ENOUGH);
        search::Limits {
            time: Duration::from_secs(self.seconds),
            inputs: self.inputs.unwrap_or(enough),
        }
    }

    /// One target by its name, or all whose names begin with it and a dash; without, all but the one
    /// that is broken on purpose.
    fn chooses(&self, name: &str) -> bool {
        let is = |wanted: &String| {
            name.strip_prefix(wanted.as_str())
                .is_some_and(|rest| matches!(rest.as_bytes(), [] | [b'-', ..]))
        };
        self.target.as_ref().map_or(name != targets::planted::TARGET.name, is)
    }
}

/// `fuzz …` builds and goes on as `fuzz-built …` in the optimised tool.
pub fn run(root: &Path, words: &[&str]) -> Result<(), String> {
    let (first, rest) = words.split_first().ok_or("fuzz takes words")?;
    let wanted = wanted(rest)?;
    match *first {
        _ if wanted.coverage => {
            let engine = coverage::Engine::build(root)?;
            each(&wanted, |target| engine.run(target, &wanted))
        }
        "fuzz-built" => fuzz(&wanted),
        _ if wanted.everyday || wanted.input.is_some() => fuzz(&wanted),
        _ => build(root, rest),
    }
}

fn wanted(words: &[&str]) -> Result<Wanted, String> {
    let mut wanted = Wanted {
        everyday: false,
        coverage: false,
        blind: false,
        seconds: SECONDS,
        inputs: None,
        seed: SEED,
        target: None,
        input: None,
    };
    let mut words = words.iter();
    while let Some(flag) = words.next() {
        let alone = match *flag {
            "--everyday" => Some(&mut wanted.everyday),
            "--coverage" => Some(&mut wanted.coverage),
            "--blind" => Some(&mut wanted.blind),
            _ => None,
        };
        if let Some(alone) = alone {
            *alone = true;
            continue;
        }
        let value = words.next().ok_or_else(|| format!("{flag} takes a value"))?;
        let number = || value.parse().map_err(|_| format!("{flag} takes a number, not '{value}'"));
        match *flag {
            "--seconds" => wanted.seconds = number()?,
            "--inputs" => wanted.inputs = Some(number()?),
            "--seed" => wanted.seed = number()?,
            "--target" => wanted.target = Some((*value).to_owned()),
            "--input" => wanted.input = Some(value.into()),
            other => return Err(format!("fuzz does not know '{other}'")),
        }
    }
    let known = targets::all();
    match &wanted.target {
        Some(name) if !known.iter().any(|target| wanted.chooses(target.name())) => {
            let known: Vec<&str> = known.iter().map(|target| target.name()).collect();
            Err(format!("no target is called '{name}': {}", known.join(", ")))
        }
        Some(_) | None => Ok(wanted),
    }
}

fn build(root: &Path, words: &[&str]) -> Result<(), String> {
    let own = own_path()?;
    let target = own.ancestors().nth(2).unwrap_or(root);
    println!("cargo build --profile fuzz --package xtask");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--profile", "fuzz", "--package", "xtask", "--target-dir"]);
    succeed(cargo.arg(target).current_dir(root))?;
    succeed(Command::new(target.join("fuzz/xtask")).arg("fuzz-built").args(words))
}

/// By our own loop.
fn fuzz(wanted: &Wanted) -> Result<(), String> {
    if let Some(path) = &wanted.input {
        return each(wanted, |target| coverage::again(target, path).map(|()| 0));
    }
    let dir = own_path()?.ancestors().nth(2).map(|target| target.join("fuzz")).unwrap_or_default();
    println!(
        "seed {}; at most {} s for each target; no coverage feedback",
        wanted.seed, wanted.seconds
    );
    each(wanted, |target| {
        let limits = wanted.limits(target);
        let found = search::search(target, wanted.seed, &limits, &dir);
        report(target.name(), limits.inputs, &found, &dir);
        Ok(found.breaks.len())
    })
}

/// Every target in a thread, as many at once as there are cores; `run` says how many breaks it found.
fn each(
    wanted: &Wanted,
    run: impl Fn(&dyn Reader) -> Result<usize, String> + Sync,
) -> Result<(), String> {
    let mut waiting = targets::all();
    waiting.retain(|target| wanted.chooses(target.name()));
    waiting.reverse();
    let waiting = Mutex::new(waiting);
    let broken = Mutex::new(Ok(0));
    search::keep_panics_quiet();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|threads| {
        for _ in 0..cores {
            threads.spawn(|| {
                while let Some(target) = next(&waiting) {
                    let found = run(&*target);
                    let mut broken = lock(&broken);
                    *broken = std::mem::replace(&mut *broken, Ok(0))
                        .and_then(|before: usize| found.map(|found| before + found));
                }
            });
        }
    });
    match broken.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)? {
        0 => Ok(()),
        count => Err(format!("{count} breaks were found")),
    }
}

fn report(name: &str, inputs: u64, found: &Found, dir: &Path) {
    println!(
        "{name:<20} {:>9} of {} inputs in {:>3} s, slowest {} ms, {} breaks",
        found.inputs,
        inputs,
        found.took.as_secs(),
        found.slowest.as_millis(),
        found.breaks.len()
    );
    for broken in &found.breaks {
        println!("{name}: {}", broken.why);
        println!(
            "  seed {} input {}, made smaller: {}",
            found.seed,
            broken.number,
            search::hex(&broken.input)
        );
        match broken.write(dir, name) {
            Ok(path) => println!("  {}", path.display()),
            Err(error) => println!("  could not be written: {error}"),
        }
    }
}

fn next(waiting: &Mutex<Vec<Box<dyn Reader>>>) -> Option<Box<dyn Reader>> {
    lock(waiting).pop()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn succeed(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().display().to_string();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{name} ended with {status}")),
        Err(error) => Err(format!("starting {name}: {error}")),
    }
}

fn own_path() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|error| format!("finding this program's path: {error}"))
}
