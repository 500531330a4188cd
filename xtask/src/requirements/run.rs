//! Runs the tests that show requirements, by nextest.

use super::page;
use super::table::{Evidence, Row};
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// The name and the result of one test, as nextest prints them.
struct Ran {
    suite: String,
    name: String,
    passed: bool,
}

/// Runs the tests of the requirements with these ids.
pub fn some(root: &Path, rows: &[Row], ids: &[&str]) -> Result<(), String> {
    let mut chosen = Vec::new();
    for id in ids {
        let row = rows.iter().find(|row| row.id.eq_ignore_ascii_case(id));
        chosen.push(row.ok_or_else(|| format!("no requirement is called '{id}' (S0-1 to S4-87)"))?);
    }
    for row in &chosen {
        println!("{} ({}): {}", row.id, row.state.as_str(), row.statement);
    }
    let evidence = evidence_of(&chosen);
    for item in &evidence {
        if let Evidence::File(path) = item {
            println!("read {path}");
        }
    }
    let ran = nextest(root, &evidence)?;
    verdict(&chosen, &ran).map(|count| println!("{count} tests passed"))
}

/// Runs the tests of all requirements and, when asked to, writes the date of it into the page.
pub fn all(root: &Path, rows: &[Row], write: bool) -> Result<(), String> {
    let chosen: Vec<&Row> = rows.iter().collect();
    let ran = nextest(root, &evidence_of(&chosen))?;
    let count = verdict(&chosen, &ran)?;
    println!("{count} tests passed; {}", page::totals(rows));
    if !write {
        return Ok(());
    }
    let last = format!("{}, {count} tests, all passed.", crate::date::today());
    let path = root.join(super::PAGE);
    std::fs::write(&path, page::with_last_run(&last))
        .map_err(|error| format!("write {}: {error}", path.display()))
}

fn evidence_of<'a>(rows: &[&'a Row]) -> BTreeSet<&'a Evidence> {
    rows.iter().flat_map(|row| &row.evidence).collect()
}

/// Runs every test of the evidence once; tests of a suite that nextest does not find are missed by
/// [`verdict`].
fn nextest(root: &Path, evidence: &BTreeSet<&Evidence>) -> Result<Vec<Ran>, String> {
    let filters: Vec<String> = evidence.iter().filter_map(|item| filter(item)).collect();
    if filters.is_empty() {
        return Ok(Vec::new());
    }
    let mut command = Command::new("cargo");
    command.args(["nextest", "run", "--workspace", "--no-fail-fast", "--color", "never"]);
    command.args(["--status-level", "pass", "--final-status-level", "none", "-E"]);
    command.arg(filters.join(" + ")).current_dir(root);
    let mut child = command
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("start cargo nextest: {error} (is cargo-nextest installed?)"))?;
    let mut ran = Vec::new();
    for line in child.stderr.take().into_iter().flat_map(|stderr| BufReader::new(stderr).lines()) {
        let line = line.map_err(|error| format!("read the output of cargo nextest: {error}"))?;
        match result(&line) {
            Some(test) => {
                if !test.passed {
                    println!("{line}");
                }
                ran.push(test);
            }
            None => println!("{line}"),
        }
    }
    child.wait().map_err(|error| format!("wait for cargo nextest: {error}"))?;
    Ok(ran)
}

/// The filter of nextest that finds this test or the tests of this module.
fn filter(evidence: &Evidence) -> Option<String> {
    let Evidence::Test { suite, name } = evidence else { return None };
    let suite = match suite.as_str() {
        "e2e" | "agents" => format!("package(cli) & binary({suite})"),
        "bin" => "package(cli) & kind(bin)".to_owned(),
        package => format!("package({package})"),
    };
    let test = match name.strip_suffix("::") {
        // A module of a crate, or the test file of that name.
        Some(module) => format!("(test(/(^|::){module}::/) | binary({module}))"),
        None => format!("test(/(^|::){name}$/)"),
    };
    Some(format!("({suite} & {test})"))
}

/// Reads `PASS [   0.012s] (1/3) cli::e2e acp::name` and its like.
fn result(line: &str) -> Option<Ran> {
    let passed = match line.split_whitespace().next()? {
        "PASS" => true,
        "FAIL" | "TIMEOUT" | "SIGABRT" | "SIGSEGV" | "ABORT" => false,
        _ => return None,
    };
    let rest = line.split_once(']')?.1.trim_start();
    let counted = rest.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    let mut words = counted.map_or(rest, |(_, rest)| rest).split_whitespace();
    Some(Ran { suite: words.next()?.to_owned(), name: words.next()?.to_owned(), passed })
}

/// The number of tests, when each item of evidence had at least one and all of them passed.
fn verdict(rows: &[&Row], ran: &[Ran]) -> Result<usize, String> {
    let mut wrong = Vec::new();
    for row in rows {
        for item in &row.evidence {
            let Evidence::Test { suite, name } = item else { continue };
            let tests: Vec<&Ran> = ran.iter().filter(|test| test.is_of(suite, name)).collect();
            if tests.is_empty() {
                wrong.push(format!("{}: no test ran of {suite} {name}", row.id));
            }
            for test in tests.iter().filter(|test| !test.passed) {
                wrong.push(format!("{}: {} {} failed", row.id, test.suite, test.name));
            }
        }
    }
    if wrong.is_empty() { Ok(ran.len()) } else { Err(wrong.join("\n")) }
}

impl Ran {
    fn is_of(&self, suite: &str, name: &str) -> bool {
        let binary = match suite {
            "e2e" | "agents" => self.suite == format!("cli::{suite}"),
            "bin" => self.suite == "cli::bin/ostler",
            package => self.suite.split("::").next() == Some(package),
        };
        let ends = |name: &str| {
            self.name.strip_suffix(name).is_some_and(|head| head.is_empty() || head.ends_with("::"))
        };
        binary
            && match name.strip_suffix("::") {
                Some(module) => {
                    self.suite.ends_with(&format!("::{module}"))
                        || format!("::{}", self.name).contains(&format!("::{module}::"))
                }
                None => ends(name),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_nextest_are_read() {
        let line = "        PASS [   0.012s] (  1/513) cli::e2e acp::a_question_is_answered";
        let ran = result(line).expect("a result");
        assert!(ran.passed);
        assert!(ran.is_of("e2e", "acp::a_question_is_answered"));
        assert!(ran.is_of("e2e", "acp::"));
        assert!(!ran.is_of("e2e", "acp::a_question"));
        let failed = result("        FAIL [   1.2s] contract id::tests::x").expect("a result");
        assert!(!failed.passed);
        assert!(result("    Finished `test` profile").is_none());
        assert!(result("        SLOW [> 60.000s] cli::e2e acp::x").is_none());
    }

    #[test]
    fn missing_and_failed_tests_are_wrong() {
        let rows = super::super::table::read(super::super::table::TEXT).expect("the table");
        let row = rows.iter().find(|row| row.id == "S0-4").expect("a row");
        assert!(verdict(&[row], &[]).is_err());
        let ran = |passed| Ran {
            suite: "cli::e2e".to_owned(),
            name: "hired::a_hired_agent_runs_by_its_name".to_owned(),
            passed,
        };
        assert!(verdict(&[row], &[ran(false)]).is_err());
        assert!(verdict(&[row], &[ran(true)]).is_ok());
    }
}
