//! `cargo xtask fuzz --coverage`: the same targets under libFuzzer, which keeps what reaches something
//! new. It is a program of its own (`xtask/coverage`), built with the stable compiler and what its
//! `.cargo/config.toml` asks of it, on demand and never by the gate. The corpus is the seeds of the
//! target, and stays under `target/fuzz/corpus` with whatever was found to reach more; a break is made
//! smaller by our own loop, which can try any such input again. Nothing here judges an input.

use super::search::{self, Reader};
use super::{Wanted, own_path, succeed};
use crate::tidy::supply;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Of a longer seed its beginning is enough.
const INPUT_BYTES_MAX: usize = 16 * 1024;
const MEMORY_MB_MAX: usize = 2048;
/// An input that takes longer than this is a break. Some are a whole long run.
const INPUT_SECONDS_MAX: u64 = 60;

pub struct Engine<'a> {
    root: &'a Path,
    program: PathBuf,
    /// Where corpus, logs and breaks are.
    dir: PathBuf,
}

/// What libFuzzer said of one target.
#[derive(Debug, Default, PartialEq)]
struct Told {
    executed: u64,
    /// Edges that the seeds reach, and those that were reached in the end.
    seeds: u64,
    reached: u64,
    corpus: u64,
    /// The file of the input that broke it.
    broke: Option<PathBuf>,
}

impl<'a> Engine<'a> {
    pub fn build(root: &'a Path) -> Result<Self, String> {
        let own = own_path()?;
        let target = own.ancestors().nth(2).unwrap_or(root);
        println!("cargo build --release in xtask/coverage");
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["build", "--quiet", "--locked", "--release", "--target-dir"]);
        cargo.arg(target.join("coverage")).current_dir(root.join("xtask/coverage"));
        // They would stand in for those of its configuration.
        succeed(cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS"))?;
        let platform = supply::platform(root)?;
        let program = target.join("coverage").join(platform).join("release/coverage");
        let heads = ["executions", "seeds reach", "reached", "corpus", "breaks"];
        println!(
            "{:<20} {:>12} {:>12} {:>12} {:>12} {:>12}",
            "target", heads[0], heads[1], heads[2], heads[3], heads[4]
        );
        Ok(Self { root, program, dir: target.join("fuzz") })
    }

    /// Tries one target, says what came of it, and how many breaks there are.
    pub fn run(&self, target: &dyn Reader, wanted: &Wanted) -> Result<usize, String> {
        let name = target.name();
        let said = self.fuzz(target, wanted)?;
        let told = told(&said);
        let broken = usize::from(told.broke.is_some());
        println!(
            "{name:<20} {:>12} {:>12} {:>12} {:>12} {broken:>12}",
            told.executed, told.seeds, told.reached, told.corpus
        );
        match told.broke {
            Some(path) if !wanted.blind => report(target, &path),
            Some(_) => println!("  `cargo xtask fuzz --target {name}` finds it by its number"),
            None => {}
        }
        Ok(broken)
    }

    fn fuzz(&self, target: &dyn Reader, wanted: &Wanted) -> Result<String, String> {
        let name = target.name();
        let failed = |error: std::io::Error| format!("fuzzing {name}: {error}");
        let mut command = Command::new(&self.program);
        command.current_dir(self.root).env("FUZZ_TARGET", name).env("RUST_BACKTRACE", "0");
        command.args([
            format!("-max_total_time={}", wanted.seconds),
            format!("-runs={}", wanted.inputs.map_or(-1, |inputs| inputs as i64)),
            format!("-seed={}", wanted.seed),
            format!("-max_len={INPUT_BYTES_MAX}"),
            format!("-rss_limit_mb={MEMORY_MB_MAX}"),
            format!("-timeout={INPUT_SECONDS_MAX}"),
            format!("-report_slow_units={INPUT_SECONDS_MAX}"),
            format!("-artifact_prefix={}/{name}-", self.dir.display()),
            "-print_final_stats=1".to_owned(),
        ]);
        if wanted.blind {
            command.env("FUZZ_BLIND", "1");
        } else {
            command.arg(self.corpus(target).map_err(failed)?);
        }
        let output = command.output().map_err(failed)?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        fs::write(self.dir.join(format!("{name}.log")), &said).map_err(failed)?;
        match output.status.success() || told(&said).broke.is_some() {
            true => Ok(said),
            false => Err(format!("fuzzing {name} ended with {}: {said}", output.status)),
        }
    }

    /// The seeds as files, each with a number of its own, beside what was found before.
    fn corpus(&self, target: &dyn Reader) -> std::io::Result<PathBuf> {
        let dir = self.dir.join("corpus").join(target.name());
        fs::create_dir_all(&dir)?;
        for (number, mut seed) in (0_u16..).zip(target.seeds()) {
            seed.truncate(INPUT_BYTES_MAX - size_of_val(&number));
            seed.extend(number.to_be_bytes());
            fs::write(dir.join(format!("seed-{number}")), seed)?;
        }
        Ok(dir)
    }
}

/// Tries the input of a file once more, by our own loop.
pub fn again(target: &dyn Reader, path: &Path) -> Result<(), String> {
    let input = fs::read(path).map_err(|error| format!("reading {}: {error}", path.display()))?;
    match search::again(target, &input) {
        None => {
            println!("{} holds for {}", target.name(), path.display());
            Ok(())
        }
        Some((why, less)) => {
            Err(format!("{}: {why}\n  made smaller: {}", target.name(), search::hex(&less)))
        }
    }
}

/// Where the break is comes first: what ended one program may end this one too.
fn report(target: &dyn Reader, path: &Path) {
    let name = target.name();
    println!("  cargo xtask fuzz --target {name} --input {}", path.display());
    // One that takes too long or too much would do so here.
    if !path.display().to_string().contains("-crash-") {
        return;
    }
    let input = fs::read(path).unwrap_or_default();
    match search::again(target, &input) {
        Some((why, less)) => {
            println!("  {name}: {why}\n  made smaller: {}", search::hex(&less));
            if let Err(error) = fs::write(path, less) {
                println!("  could not be written: {error}");
            }
        }
        None => println!("  it holds when it is tried alone: something before it is needed too"),
    }
}

/// Reads what libFuzzer says of itself: `#8 INITED cov: 2 ft: 3 corp: 4/5b …`, `stat::name: 6`.
fn told(said: &str) -> Told {
    let mut told = Told::default();
    for line in said.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let after = |name: &str| {
            let value = words.get(words.iter().position(|word| *word == name)? + 1)?;
            value.split('/').next()?.parse::<u64>().ok()
        };
        if let Some(edges) = after("cov:") {
            told.reached = edges;
            told.corpus = after("corp:").unwrap_or(told.corpus);
            if words.contains(&"INITED") {
                told.seeds = edges;
            }
        }
        told.executed = after("stat::number_of_executed_units:").unwrap_or(told.executed);
        if let Some((_, path)) = line.split_once("Test unit written to ") {
            told.broke = Some(path.into());
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_libfuzzer_says_of_itself_is_read() {
        let said = "INFO: seed corpus: files: 7 min: 2b\n\
            #8\tINITED cov: 40 ft: 61 corp: 7/1Kb exec/s: 0 rss: 42Mb\n\
            #900\tNEW    cov: 43 ft: 66 corp: 9/1Kb lim: 21 exec/s: 450 rss: 42Mb L: 9/9 MS: 1 Custom-\n";
        let read = Told { executed: 0, seeds: 40, reached: 43, corpus: 9, broke: None };
        assert_eq!(told(said), read);
        let over = format!("{said}stat::number_of_executed_units: 950\n");
        assert_eq!(told(&over), Told { executed: 950, ..read });
        let broken = "artifact_prefix='a/'; Test unit written to a/frame-crash-01\n";
        assert_eq!(told(broken).broke, Some("a/frame-crash-01".into()));
    }
}
