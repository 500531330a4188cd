//! Runs the trials of one mutation in the scratch copy and says what came of it. Building and
//! running are two steps, so that a slow compiler is no hanging test. A trial that is not green
//! without any mutation proves nothing and is an error; how long it then took bounds it afterwards.
//! A test that turned red must do so twice, and be green again when the mutation is gone: what fails
//! now and then catches nothing. Properties are tried with the same inputs every time and remember
//! none, for a counterexample that is remembered would be red for every mutation that follows.

use super::scratch::{Scratch, Together, Way};
use super::site::Mutation;
use super::trial::{self, Trial};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A mutated run may take this much longer than one that is not.
const PATIENCE: u32 = 6;
const PATIENCE_MIN: Duration = Duration::from_secs(90);
/// No trial takes longer than this by itself, and no build.
const WHOLE_MAX: Duration = Duration::from_secs(1200);
/// What a runner of tests has to end them, before it is ended itself.
const FAREWELL: Duration = Duration::from_secs(15);
const LOOK: Duration = Duration::from_millis(50);
/// So many tests may be red by chance in one trial, before it counts as green.
const FICKLE_MAX: usize = 2;
/// As `cargo nextest` ends when it could not build.
const UNBUILT: i32 = 101;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// By this test.
    Caught {
        test: String,
    },
    /// It hung in this trial.
    TimedOut {
        trial: String,
    },
    Survived {
        trials: Vec<String>,
    },
    /// It did not compile, with the first words of the compiler.
    NotViable {
        why: String,
    },
}

enum Run {
    Green,
    Red(String),
    TimedOut,
    Unbuilt(String),
}

pub struct Court<'a> {
    scratch: &'a Scratch,
    /// How long each trial took without a mutation.
    unmutated: BTreeMap<&'static str, Duration>,
}

impl<'a> Court<'a> {
    pub fn new(scratch: &'a Scratch) -> Self {
        Self { scratch, unmutated: BTreeMap::new() }
    }

    /// `before`: tests that are asked first, by themselves: the one that noticed it the last time, or
    /// those that noticed its neighbours. `narrow`: else only the first of its trials.
    pub fn judge(
        &mut self,
        mutation: &Mutation,
        together: &Together<'_>,
        before: &[String],
        narrow: bool,
    ) -> Result<Verdict, String> {
        let trials = trial::of(mutation, narrow);
        let mut asked: Vec<(&'static Trial, Vec<String>)> = Vec::new();
        for trial in trial::of(mutation, false) {
            let tests: Vec<String> =
                before.iter().filter(|test| trial.runs(test)).cloned().collect();
            let new = asked.iter().all(|(known, _)| known.package != trial.package);
            if new && !tests.is_empty() {
                asked.push((trial, tests));
            }
        }
        asked.extend(trials.iter().map(|trial| (*trial, Vec::new())));
        for (trial, only) in asked {
            if let Some(verdict) = self.ask(mutation, together, trial, &only)? {
                return Ok(verdict);
            }
        }
        let trials = trials.iter().map(|trial| trial.name.to_owned()).collect();
        Ok(Verdict::Survived { trials })
    }

    /// What a trial, or these tests of it, say of a mutation; `None` when they stay green.
    fn ask(
        &mut self,
        mutation: &Mutation,
        together: &Together<'_>,
        trial: &'static Trial,
        only: &[String],
    ) -> Result<Option<Verdict>, String> {
        // Before the mutation is there.
        let limit = self.limit(trial)?;
        let applied = self.scratch.apply(together, mutation)?;
        let unbuilt = match together.way(mutation) {
            Way::Alone => self.build(trial)?.err(),
            Way::Switched(_) => None,
        };
        let (run, again) = match unbuilt {
            Some(said) => (Run::Unbuilt(first_error(&said)), None),
            None => self.run_twice(trial, only, limit)?,
        };
        drop(applied);
        Ok(match (run, again) {
            (Run::Unbuilt(why), _) => Some(Verdict::NotViable { why }),
            (Run::TimedOut, _) => Some(Verdict::TimedOut { trial: trial.name.to_owned() }),
            (Run::Red(test), Some(Run::Red(_) | Run::TimedOut)) => {
                if let Way::Alone = together.way(mutation) {
                    self.build(trial)?.map_err(|said| format!("it does not build:\n{said}"))?;
                }
                if !matches!(self.run(trial, std::slice::from_ref(&test), &[], limit)?, Run::Green)
                {
                    return Err(format!("{test} is red without any mutation: mend that first"));
                }
                Some(Verdict::Caught { test })
            }
            (Run::Red(_) | Run::Green, _) => None,
        })
    }

    /// Runs a trial, and what turned red in it once more. What was red by chance ended the trial before
    /// the others had their turn, so they have it then, without that one.
    fn run_twice(
        &self,
        trial: &Trial,
        only: &[String],
        limit: Duration,
    ) -> Result<(Run, Option<Run>), String> {
        let mut fickle = Vec::new();
        loop {
            let run = self.run(trial, only, &fickle, limit)?;
            let Run::Red(test) = &run else { return Ok((run, None)) };
            let again = self.run(trial, std::slice::from_ref(test), &[], limit)?;
            if !matches!(again, Run::Green) || fickle.len() == FICKLE_MAX {
                return Ok((run, Some(again)));
            }
            println!("    {test} was red once and then green");
            fickle.push(test.clone());
        }
    }

    /// How long a trial may take; the first time it is run without any mutation.
    fn limit(&mut self, trial: &'static Trial) -> Result<Duration, String> {
        if let Some(took) = self.unmutated.get(trial.name) {
            return Ok((*took * PATIENCE).max(PATIENCE_MIN));
        }
        println!("    {}: without any mutation first", trial.name);
        self.build(trial)?.map_err(|said| format!("{} does not build:\n{said}", trial.name))?;
        let begun = Instant::now();
        match self.run(trial, &[], &[], WHOLE_MAX)? {
            Run::Green => {}
            Run::Red(test) => {
                return Err(format!("without any mutation {test} is red: mend that first"));
            }
            Run::TimedOut | Run::Unbuilt(_) => {
                return Err(format!("without any mutation {} does not end", trial.name));
            }
        }
        let took = begun.elapsed();
        println!("    {}: green in {} s", trial.name, took.as_secs());
        self.unmutated.insert(trial.name, took);
        self.limit(trial)
    }

    /// Builds what a trial runs; when it does not compile, what the compiler said.
    pub fn build(&self, trial: &Trial) -> Result<Result<(), String>, String> {
        let mut cargo = self.nextest(trial);
        cargo.arg("--no-run");
        let (code, said) = self.finish(&mut cargo, WHOLE_MAX)?;
        match code {
            Some(0) => Ok(Ok(())),
            Some(UNBUILT) => Ok(Err(said)),
            code => Err(format!("cargo nextest ended with {code:?}:\n{said}")),
        }
    }

    /// Runs a trial that is built, or these tests of it, without some.
    fn run(
        &self,
        trial: &Trial,
        only: &[String],
        without: &[String],
        limit: Duration,
    ) -> Result<Run, String> {
        let mut cargo = self.nextest(trial);
        let named: Vec<String> = only.iter().filter_map(|test| one(test)).collect();
        let mut filter = match named.is_empty() {
            true => format!("({})", trial.filter),
            false => {
                // They may be called otherwise by now, or be what is left out.
                cargo.args(["--no-tests", "pass"]);
                format!("(({}))", named.join(") or ("))
            }
        };
        for test in without.iter().filter_map(|test| one(test)) {
            filter.push_str(&format!(" and not ({test})"));
        }
        cargo.args(["-E", &filter, "--status-level", "fail", "--final-status-level", "none"]);
        cargo.args(["--failure-output", "never", "--fail-fast"]);
        let (code, said) = self.finish(&mut cargo, limit)?;
        self.sweep();
        match (code, first_red(&said)) {
            (None, _) => Ok(Run::TimedOut),
            (Some(0), _) => Ok(Run::Green),
            (Some(_), Some(test)) => Ok(Run::Red(test)),
            (Some(code), None) => Err(format!("cargo nextest ended with {code}:\n{said}")),
        }
    }

    fn nextest(&self, trial: &Trial) -> Command {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["nextest", "run", "--color", "never", "--package", trial.package]);
        // End to end they wait for others most of the time.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        if trial.package == "cli" {
            cargo.args(["--test-threads", &(cores * 2).to_string()]);
        }
        cargo.arg("--target-dir").arg(&self.scratch.target).current_dir(&self.scratch.tree);
        // What cargo told this tool about itself is not for the other cargo.
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CARGO_PKG_")) {
            cargo.env_remove(name);
        }
        cargo.env_remove("CARGO_MANIFEST_DIR").env_remove("CARGO_TARGET_DIR");
        cargo.env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1").env("PROPTEST_RNG_SEED", "1");
        cargo.env("INSTA_UPDATE", "no").envs(trial.env.iter().copied());
        cargo
    }

    /// The code it ended with, none when it was ended for taking too long; and what it said.
    fn finish(
        &self,
        cargo: &mut Command,
        limit: Duration,
    ) -> Result<(Option<i32>, String), String> {
        let path = self.scratch.target.with_file_name("said");
        let failed = |error: std::io::Error| format!("running cargo: {error}");
        let said = File::create(&path).map_err(failed)?;
        cargo.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said).process_group(0);
        let mut child = cargo.spawn().map_err(failed)?;
        let begun = Instant::now();
        let code = loop {
            if let Some(status) = child.try_wait().map_err(failed)? {
                break Some(status.code().unwrap_or(-1));
            }
            if begun.elapsed() > limit {
                end(&mut child);
                break None;
            }
            std::thread::sleep(LOOK);
        };
        let said = std::fs::read(&path).map_err(failed)?;
        Ok((code, String::from_utf8_lossy(&said).into_owned()))
    }

    /// Ends what broken code left running: processes of programs that were built here.
    fn sweep(&self) {
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let pid = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
            let built_here = std::fs::read_link(entry.path().join("exe"))
                .is_ok_and(|program| program.starts_with(&self.scratch.target));
            if let Some(pid) = pid.and_then(Pid::from_raw).filter(|_| built_here) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

/// One test as a filter, by the name that the runner gives it.
fn one(named: &str) -> Option<String> {
    let (binary, test) = named.split_once(' ')?;
    Some(format!("binary_id(={binary}) and test(={test})"))
}

fn end(child: &mut std::process::Child) {
    let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else { return };
    let _ = kill_process(pid, Signal::TERM);
    let begun = Instant::now();
    while begun.elapsed() < FAREWELL {
        if matches!(child.try_wait(), Ok(Some(_))) {
            return;
        }
        std::thread::sleep(LOOK);
    }
    let _ = kill_process_group(pid, Signal::KILL);
    let _ = child.wait();
}

/// The binary and the name of the first test that failed.
fn first_red(said: &str) -> Option<String> {
    said.lines().find_map(|line| {
        let line = line.trim_start();
        let red = ["FAIL", "SIG", "TIMEOUT", "ABORT", "LEAK-FAIL"];
        let is_red = red.iter().any(|word| line.starts_with(word)) && line.contains('[');
        let (_, after) = is_red.then(|| line.split_once(']')).flatten()?;
        // Which of how many stands in brackets, if it stands there.
        let after = after.trim_start();
        let named = match after.strip_prefix('(') {
            Some(count) => count.split_once(')')?.1,
            None => after,
        };
        Some(named.trim().to_owned()).filter(|named| named.contains(' '))
    })
}

fn first_error(said: &str) -> String {
    let line = said.lines().find(|line| line.starts_with("error"));
    line.unwrap_or("it does not build").to_owned()
}

/// All verdicts that were ever found, by the name of the mutation.
pub type Verdicts = BTreeMap<String, Found>;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Found {
    pub verdict: Verdict,
    /// What was put there; a verdict counts for this alone.
    pub becomes: String,
    pub seconds: u64,
}

pub fn load(path: &Path) -> Verdicts {
    let bytes = std::fs::read(path).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

pub fn keep(path: &Path, verdicts: &Verdicts) -> Result<(), String> {
    let text = serde_json::to_vec_pretty(verdicts).map_err(|error| error.to_string())?;
    std::fs::write(path, text).map_err(|error| format!("writing {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_red_test_is_told_from_what_a_runner_says() {
        let said = "    Starting 3 tests across 1 binary\n        PASS [   0.1s] (1/3) store a::b\n        \
                    FAIL [   0.010s] ( 2/3) cli::e2e security::c\n        FAIL [   0.2s] (3/3) store d\n";
        assert_eq!(first_red(said).as_deref(), Some("cli::e2e security::c"));
        assert_eq!(
            first_red(" TIMEOUT [ 240.0s] keeper::keeper e\n").as_deref(),
            Some("keeper::keeper e")
        );
        assert_eq!(first_red("  SIGABRT [ 0.1s] (1/1) store f\n").as_deref(), Some("store f"));
        assert_eq!(first_red("     Summary [ 0.1s] 2 tests run: 2 passed\n"), None);
    }
}
