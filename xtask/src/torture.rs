//! `cargo xtask torture [--points N] [--seed S] [--failpoint NAME] [--case I] [--jobs J] [--seconds T]`:
//! the real `ostler serve`, with agents and clients, is killed again and again: at named points of its
//! code and at mere instants, in its recovery too, and keepers and agents with it. Then everything
//! that was promised must hold. After T seconds no further case is begun.
//!
//! The schedule follows from the seed (`torture/schedule.rs`); what the threads of a case do between
//! two kills does not, so a case that failed may have to be had again more than once. One case is
//! `torture/case.rs`, those who use the product meanwhile `torture/clients.rs` and
//! `torture/errands.rs`, what must hold `torture/judge.rs`,
//! `torture/launch.rs` and `torture/remains.rs`. The last recorded run is in `docs/torture.md`.

mod case;
mod clients;
mod errands;
mod house;
mod judge;
mod launch;
mod log;
mod remains;
mod report;
mod schedule;
mod wire;

use case::Programs;
use failpoint::Point;
use report::Report;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Instant;

const POINTS: usize = 500;
const SEED: u64 = 1;
/// A case mostly waits, for agents and for restarts.
const CASES_PER_CORE: usize = 2;

struct Wanted {
    points: usize,
    seed: u64,
    only: Option<Point>,
    case: Option<usize>,
    jobs: usize,
    seconds: Option<u64>,
}

pub fn run(root: &Path, words: &[&str]) -> Result<(), String> {
    let wanted = wanted(words)?;
    let built = build(root)?;
    let keep = built.join("violations");
    let near = tempfile::tempdir().map_err(said("making a folder for the armed binary"))?;
    let programs = Programs::beside(&built, near.path())?;
    let peace = {
        let mut house = house::House::new(&programs, 120)?;
        let shared = case::shared(&house, &programs)?;
        house.serve(None)?;
        judge::peace(&mut house, &shared)?
    };
    let mut cases = schedule::schedule(wanted.seed, wanted.points, wanted.only);
    cases.retain(|case| wanted.case.is_none_or(|number| number == case.number));
    cases.reverse();
    let (waiting, report) =
        (Mutex::new(cases), Mutex::new(Report::new(Instant::now(), wanted.only)));
    let began = Instant::now();
    let is_late = || wanted.seconds.is_some_and(|most| began.elapsed().as_secs() >= most);
    std::thread::scope(|threads| {
        for _ in 0..wanted.jobs {
            threads.spawn(|| {
                // A guard in the head of a loop would be held through its body.
                let next = || lock(&waiting).pop().filter(|_| !is_late());
                while let Some(case) = next() {
                    let kept = keep.join(format!("{}-{}", wanted.seed, case.number));
                    let outcome = case::run(&case, wanted.seed, &programs, &peace, &kept);
                    lock(&report).add(&case, outcome, &again(&wanted, case.number));
                }
            });
        }
    });
    lock(&report).finish()
}

/// How to have a case again.
fn again(wanted: &Wanted, case: usize) -> String {
    let only = wanted.only.map(|point| format!(" --failpoint {}", point.name()));
    format!(
        "cargo xtask torture --points {} --seed {}{} --case {case}",
        wanted.points,
        wanted.seed,
        only.unwrap_or_default()
    )
}

fn wanted(words: &[&str]) -> Result<Wanted, String> {
    let jobs = CASES_PER_CORE * std::thread::available_parallelism().map_or(1, usize::from);
    let mut wanted =
        Wanted { points: POINTS, seed: SEED, only: None, case: None, jobs, seconds: None };
    let mut words = words.iter();
    while let Some(flag) = words.next() {
        let value = words.next().ok_or_else(|| format!("{flag} takes a value"))?;
        let number =
            || value.parse::<usize>().map_err(|_| format!("{flag} takes a number, not '{value}'"));
        match *flag {
            "--points" => wanted.points = number()?,
            "--seed" => wanted.seed = number()? as u64,
            "--case" => wanted.case = Some(number()?),
            "--seconds" => wanted.seconds = Some(number()? as u64),
            "--jobs" => wanted.jobs = number()?.max(1),
            "--failpoint" => {
                let known = Point::ALL.iter().find(|point| point.name() == *value).copied();
                wanted.only = Some(known.ok_or_else(|| format!("no point is called '{value}'"))?);
            }
            other => return Err(format!("torture does not know '{other}'")),
        }
    }
    Ok(wanted)
}

/// Builds the product with its points armed, in the profile of this tool, and puts it where nobody
/// takes it for the product.
fn build(root: &Path) -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(said("finding this program's path"))?;
    let built = own.parent().unwrap_or(root);
    let target = built.parent().unwrap_or(root);
    let profile = match built.file_name().and_then(std::ffi::OsStr::to_str) {
        None | Some("debug") => "dev",
        Some(profile) => profile,
    };
    let dir = target.join("armed").join(profile);
    std::fs::create_dir_all(&dir).map_err(said("making a folder for the armed binary"))?;
    for (words, program) in [
        (&["--package", "testkit", "--bin", "fake-agent"][..], "fake-agent"),
        (&["--package", "cli", "--features", "failpoints"][..], "ostler"),
    ] {
        println!("cargo build {}", words.join(" "));
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(["build", "--quiet", "--profile", profile]).args(words);
        command.arg("--target-dir").arg(target);
        match command.current_dir(root).status() {
            Ok(status) if status.success() => {}
            Ok(status) => return Err(format!("cargo build ended with {status}")),
            Err(error) => return Err(format!("starting cargo: {error}")),
        }
        place(&built.join(program), &dir.join(program))?;
    }
    Ok(dir)
}

/// Moves what was built away, so that the next build of the product puts its own there.
fn place(from: &Path, to: &PathBuf) -> Result<(), String> {
    let _ = std::fs::remove_file(to);
    std::fs::copy(from, to).map_err(said("placing the armed binary"))?;
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// An error with what was being done.
fn said<E: std::fmt::Display>(doing: impl std::fmt::Display) -> impl FnOnce(E) -> String {
    move |error| format!("{doing}: {error}")
}
