//! `cargo xtask bench <name>`: figures of the product beside a floor measured in the same minutes.
//!
//! Every bench runs floor, ours, floor, ours …, and reports the median of the pairwise ratios with
//! their spread; when the floor itself moved by more than a factor of two the row is void and says
//! so. Times are printed beside their gates and never asserted; instructions, which do not move
//! with the machine's load, are (`instructions.rs`). Everything lives in temporary directories and
//! on loopback, and ends with the bench. `all --write` puts the table into `docs/benchmarks.md`.

mod acp;
mod adapter;
mod agent;
mod agents;
mod cold;
mod commit;
mod counted;
mod decode;
mod dispatch;
mod fanout;
mod figures;
mod floor;
mod growth;
mod instructions;
mod lines;
mod lookups;
mod memory;
mod pipeline;
mod promises;
mod remote;
mod report;
mod serve;
mod start;
mod stop;
mod stored;
mod usage;

use instructions::Then;
use report::Report;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Every bench, in the order of `all`.
const NAMES: [&str; 13] = [
    "size", "memory", "cold", "start", "stop", "commit", "growth", "lookups", "fanout", "pipeline",
    "remote", "decode", "dispatch",
];

/// How often `all` measures what has a void row: then the machine was measured, and not the product.
const TRIES: usize = 3;

/// The programs under measurement, all built with optimisation.
pub struct Programs {
    pub ostler: PathBuf,
    pub fake_agent: PathBuf,
    /// This tool itself, which is also the agent of the pipeline bench.
    pub xtask: PathBuf,
}

/// `bench NAME` builds and goes on as `bench-built NAME` in the optimised tool, whichever way this
/// one was built; `bench-agent` is the agent that the pipeline bench starts, and `bench-count` the
/// work whose instructions are counted.
pub fn run(root: &Path, words: &[&str]) -> Result<(), String> {
    match words {
        ["bench-agent", "acp", rest @ ..] => acp::agent::run(rest),
        ["bench-agent", rest @ ..] => agent::run(rest),
        ["bench-count", rest @ ..] => counted::run(rest),
        ["bench-built", rest @ ..] => measure(root, rest),
        ["bench", "agents", rest @ ..] => {
            agents::Wanted::of(rest)?;
            crate::agents::run(root, &["--install"])?;
            build(root, &words[1..])
        }
        ["bench", "dispatch", "--quick"] => quick(root),
        ["bench", rest @ ..] if is_known(rest) => build(root, rest),
        _ => Err(format!(
            "cargo xtask bench takes one of: {}, all [--write], acp [--write | --quick], \
             agents [--pairs N] [--only ID] [--write], instructions [--check | --write], \
             dispatch --quick",
            NAMES.join(", ")
        )),
    }
}

fn is_known(words: &[&str]) -> bool {
    match words {
        ["all" | "acp"] | ["all" | "acp", "--write"] | ["acp", "--quick"] => true,
        ["instructions"] | ["instructions", "--check" | "--write"] => true,
        [name] => NAMES.contains(name),
        _ => false,
    }
}

fn measure(root: &Path, words: &[&str]) -> Result<(), String> {
    let mut report = Report::default();
    if let ["instructions", rest @ ..] = words {
        let then = match rest {
            ["--check"] => Then::Check,
            ["--write"] => Then::Write,
            _ => Then::Print,
        };
        return instructions::run(root, &own_path()?, then);
    }
    if words == ["decode"] {
        return decode::run(root, &mut report);
    }
    let programs = Programs::beside_this_one()?;
    if let ["agents", rest @ ..] = words {
        return agents::run(root, &programs, &agents::Wanted::of(rest)?);
    }
    match words {
        ["acp", rest @ ..] => return acp::run(rest),
        ["acp-alone", rest @ ..] => return acp::alone(root, &programs, rest),
        ["all", ..] => {
            for name in NAMES {
                report.append(calm(root, name, &programs)?);
            }
        }
        [name, ..] => one(root, name, &programs, &mut report)?,
        [] => return Err("no bench is named".to_owned()),
    }
    if words.first() == Some(&"all") {
        println!("\n{}\n{}", report.table(), promises::table(root, report.rows())?);
    }
    match words.contains(&"--write") {
        true => report.write(root),
        false => Ok(()),
    }
}

/// The first try whose floors held still, or else the last.
fn calm(root: &Path, name: &str, programs: &Programs) -> Result<Report, String> {
    let mut tries = 1;
    loop {
        let mut report = Report::default();
        one(root, name, programs, &mut report)?;
        if tries == TRIES || !report.is_void() {
            return Ok(report);
        }
        tries += 1;
        println!("  a floor moved: {name} is measured again");
    }
}

fn one(root: &Path, name: &str, programs: &Programs, report: &mut Report) -> Result<(), String> {
    // What the build or the bench before has written is not to be written back during this one.
    rustix::fs::sync();
    match name {
        "pipeline" => pipeline::run(programs, report),
        "commit" => commit::run(report),
        "start" => start::run(programs, report),
        "stop" => stop::run(programs, report),
        "memory" => memory::run(programs, report),
        "cold" => cold::run(programs, report),
        "growth" => growth::run(report),
        "lookups" => lookups::run(report),
        "fanout" => fanout::run(programs, report),
        "remote" => remote::run(programs, report),
        "decode" => decode::run(root, report),
        "dispatch" => dispatch::run(programs, report, &dispatch::WHOLE),
        "size" => cold::size(programs, report),
        other => Err(format!("no bench is called '{other}': {}", NAMES.join(", "))),
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
fn build(root: &Path, words: &[&str]) -> Result<(), String> {
    let own = own_path()?;
    let target = own.ancestors().nth(2).unwrap_or(root);
    // Two builds: the product has the features it ships with, whatever this tool needs. Instructions
    // and dialects are this tool's own.
    let product = !matches!(words.first(), Some(&("instructions" | "decode")));
    let product = product.then_some(&["--package", "cli", "--package", "testkit"][..]);
    for packages in product.into_iter().chain([&["--package", "xtask"][..]]) {
        println!("cargo build --profile dist {}", packages.join(" "));
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(["build", "--quiet", "--profile", "dist"]).args(packages);
        command.arg("--target-dir").arg(target).current_dir(root);
        succeed(&mut command)?;
    }
    let tool = target.join("dist/xtask");
    let mut command = match words.first() {
        Some(&"agents") => agents::on_loopback_alone(&tool)?,
        Some(_) | None => Command::new(tool),
    };
    succeed(command.arg("bench-built").args(words))
}

/// The queue in this very build, with little of everything: whether the bench works, and no figures.
fn quick(root: &Path) -> Result<(), String> {
    let own = own_path()?;
    let target = own.ancestors().nth(2).unwrap_or(root);
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--package", "cli", "--package", "testkit", "--target-dir"]);
    succeed(cargo.arg(target).current_dir(root))?;
    dispatch::run(&Programs::beside_this_one()?, &mut Report::default(), &dispatch::QUICK)
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
