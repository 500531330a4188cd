//! `cargo xtask bench <name>`: figures of the product beside a floor measured in the same minutes.
//!
//! Every bench runs floor, ours, floor, ours …, and reports the median of the pairwise ratios with
//! their spread; when the floor itself moved by more than a factor of two the run is void and says
//! so. Figures are printed beside their gates and never asserted. Everything lives in temporary
//! directories and on loopback, and ends with the bench. The figures of the last look are in
//! `docs/benchmarks.md`.

mod adapter;
mod agent;
mod durable;
mod figures;
mod floor;
mod lines;
mod memory;
mod pipeline;
mod serve;
mod start;
mod usage;

use std::path::{Path, PathBuf};
use std::process::Command;

const NAMES: &str = "pipeline, durable, start, memory, all";

/// The programs under measurement, all built with optimisation.
pub struct Programs {
    pub ostler: PathBuf,
    pub fake_agent: PathBuf,
    /// This tool itself, which is also the agent of the pipeline bench.
    pub xtask: PathBuf,
}

/// `bench NAME` builds and goes on as `bench-built NAME` in the optimised tool, whichever way this
/// one was built; `bench-agent` is the agent that the pipeline bench starts.
pub fn run(root: &Path, words: &[&str]) -> Result<(), String> {
    match words {
        ["bench-agent", rest @ ..] => agent::run(rest),
        ["bench-built", name] => measure(name),
        ["bench", name] if NAMES.split(", ").any(|known| known == *name) => build(root, name),
        _ => Err(format!("cargo xtask bench takes one of: {NAMES}")),
    }
}

fn measure(name: &str) -> Result<(), String> {
    let programs = Programs::beside_this_one()?;
    println!("load average {}, {} cores", usage::load(), usage::cores());
    match name {
        "pipeline" => pipeline::run(&programs),
        "durable" => durable::run(),
        "start" => start::run(&programs),
        "memory" => memory::run(&programs),
        "all" => {
            pipeline::run(&programs)?;
            durable::run()?;
            start::run(&programs)?;
            memory::run(&programs)
        }
        other => Err(format!("no bench is called '{other}': {NAMES}")),
    }
}

impl Programs {
    fn beside_this_one() -> Result<Self, String> {
        let xtask = own_path()?;
        let dir = xtask.parent().unwrap_or(&xtask);
        let found = |name: &str| {
            let path = dir.join(name);
            match path.exists() {
                true => Ok(path),
                false => Err(format!("{} is not there: it was to be built", path.display())),
            }
        };
        Ok(Self {
            ostler: found("ostler")?,
            fake_agent: found("fake-agent")?,
            xtask: xtask.clone(),
        })
    }
}

/// Builds into the target directory this tool runs from, and hands over to the optimised tool.
fn build(root: &Path, name: &str) -> Result<(), String> {
    let own = own_path()?;
    let target = own.ancestors().nth(2).unwrap_or(root);
    // Two builds: the product has the features it ships with, whatever this tool needs.
    for packages in [&["--package", "cli", "--package", "testkit"][..], &["--package", "xtask"]] {
        println!("cargo build --release {}", packages.join(" "));
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(["build", "--quiet", "--release"]).args(packages);
        command.arg("--target-dir").arg(target).current_dir(root);
        succeed(&mut command)?;
    }
    succeed(Command::new(target.join("release/xtask")).args(["bench-built", name]))
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

/// An error with what was being done.
fn said<E: std::fmt::Display>(doing: impl std::fmt::Display) -> impl FnOnce(E) -> String {
    move |error| format!("{doing}: {error}")
}
