//! Instructions per unit of work, counted by valgrind: the one figure that does not move with the
//! load of the machine, and so the one that may fail a gate. What was counted before is kept in
//! `xtask/instructions.txt`; `--check` refuses what has grown by more than the tolerance, and
//! `--write` keeps what was counted now. Each work is run twice, so that only the difference counts.
//!
//! Counted in the build that this tool is: optimised by `cargo xtask bench instructions`, and as the
//! tests are built by `cargo xtask bench-built instructions`, which the gate does every day because
//! nothing is built for it.

use super::counted::Work;
use super::said;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

const KEPT: &str = "xtask/instructions.txt";
const HEAD: &str = "\
# Instructions per unit of work, by build. Written by `cargo xtask bench instructions --write` and
# `cargo xtask bench-built instructions --write`.
";
/// What the rows of this build begin with.
const BUILD: &str = if cfg!(debug_assertions) { "tests" } else { "dist" };
/// Code that is not optimised takes many times the instructions, so it does less of each work.
const TIMES_MAX: u64 = if cfg!(debug_assertions) { 200 } else { u64::MAX };
/// Compilers and allocators move a little between builds; a commit, which waits for another thread,
/// also with the load of the machine.
const TOLERANCE_PERCENT: u64 = if cfg!(debug_assertions) { 10 } else { 5 };

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    Print,
    Check,
    Write,
}

pub fn run(root: &Path, tool: &Path, then: Then) -> Result<(), String> {
    let mut kept = kept(root)?;
    let mut counted = BTreeMap::new();
    for work in Work::ALL {
        let (name, now) = (format!("{BUILD} {}", work.word()), per_unit(tool, work)?);
        let before = kept.get(&name).copied();
        let change = before.map_or_else(String::new, |before| {
            format!("  before {before}, {:+.1} %", (now as f64 / before as f64 - 1.0) * 100.0)
        });
        println!("{name:<16} {now:>9} instructions{change}");
        counted.insert(name, now);
    }
    match then {
        Then::Print => Ok(()),
        Then::Check => check(&kept, &counted),
        Then::Write => {
            let mut text = HEAD.to_owned();
            kept.extend(counted);
            for (work, count) in &kept {
                // Writing to a String cannot fail.
                let _ = writeln!(text, "{work} {count}");
            }
            std::fs::write(root.join(KEPT), text).map_err(said(format!("writing {KEPT}")))
        }
    }
}

/// What has grown by more than the tolerance, or is not kept at all.
fn check(kept: &BTreeMap<String, u64>, counted: &BTreeMap<String, u64>) -> Result<(), String> {
    let mut faults = Vec::new();
    for (work, now) in counted {
        match kept.get(work) {
            None => faults.push(format!("{work} is not in {KEPT}")),
            Some(before) if *now * 100 > before * (100 + TOLERANCE_PERCENT) => {
                faults.push(format!("{work} takes {now} instructions; it took {before}"));
            }
            Some(before) if *now * (100 + TOLERANCE_PERCENT) < before * 100 => {
                println!("{work} has become cheaper: keep it with --write");
            }
            Some(_) => {}
        }
    }
    match faults.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "{}\nmake it cheaper, or say in the commit why it must cost that and keep it with the same \
             command and --write instead of --check",
            faults.join("\n")
        )),
    }
}

fn kept(root: &Path) -> Result<BTreeMap<String, u64>, String> {
    let text = std::fs::read_to_string(root.join(KEPT)).map_err(said(format!("reading {KEPT}")))?;
    read(&text)
}

fn read(text: &str) -> Result<BTreeMap<String, u64>, String> {
    let rows = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    rows.map(|line| {
        let row = line.rsplit_once(' ').and_then(|(work, count)| Some((work, count.parse().ok()?)));
        let (work, count) = row.ok_or_else(|| format!("{KEPT}: '{line}' is no row"))?;
        Ok((work.to_owned(), count))
    })
    .collect()
}

fn per_unit(tool: &Path, work: Work) -> Result<u64, String> {
    let times = work.times().min(TIMES_MAX);
    let (less, more) = (count(tool, work, times)?, count(tool, work, 2 * times)?);
    match more.checked_sub(less) {
        Some(difference @ 1..) => Ok(difference / times),
        _ => Err(format!("{} took no more instructions for twice the work", work.word())),
    }
}

fn count(tool: &Path, work: Work, times: u64) -> Result<u64, String> {
    let output = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"])
        .arg(tool)
        .args(["bench-count", work.word(), &times.to_string()])
        .output()
        .map_err(said("starting valgrind (is it installed?)"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("valgrind ended with {}:\n{text}", output.status));
    }
    refs(&text).ok_or_else(|| format!("valgrind named no number of instructions:\n{text}"))
}

/// The number on the line `I refs: 1,234`.
fn refs(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.contains("refs:"))?;
    let digits: String = line.rsplit(':').next()?.chars().filter(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valgrinds_number_is_found_among_its_words() {
        let said = "==12== Cachegrind\n==12== \n==12== I   refs:      1,234,567\n";
        assert_eq!(refs(said), Some(1_234_567));
        assert_eq!(refs("==12== nothing\n"), None);
    }

    #[test]
    fn growth_beyond_the_tolerance_is_refused_and_what_is_not_kept_too() {
        let kept = read("# head\ndecode 1000\nseal 1000\n").unwrap();
        let counted = |decode: u64, seal: u64| {
            BTreeMap::from([("decode".to_owned(), decode), ("seal".to_owned(), seal)])
        };
        let most = 1_000 + 10 * TOLERANCE_PERCENT;
        assert!(check(&kept, &counted(most, 100)).is_ok());
        let refused = check(&kept, &counted(most + 1, 1_000)).unwrap_err();
        let says = format!("decode takes {} instructions; it took 1000", most + 1);
        assert!(refused.contains(&says), "{refused}");
        assert!(check(&BTreeMap::new(), &counted(1, 1)).unwrap_err().contains("is not in"));
        assert!(read("decode\n").is_err());
    }
}
