//! What the product promises in figures, each beside the command that shows it. A row of a bench is
//! filled in from what was just measured; a figure of another command is quoted from the page that
//! keeps its dated record; what a test asserts holds whenever the tests pass. A row or a record that
//! is named here and not there is an error, so that no promise loses its instrument unseen.

use super::report::{Row, Verdict};
use super::said;
use std::fmt::Write as _;
use std::path::Path;

/// One promise.
struct Promise {
    what: &'static str,
    gate: &'static str,
    goal: &'static str,
    shown: Shown,
}

/// Where its figure comes from.
enum Shown {
    /// Rows of a bench, by their names.
    Bench { bench: &'static str, rows: &'static [&'static str] },
    /// The last line of a page that holds these words, and the command whose record it is.
    Recorded { command: &'static str, page: &'static str, words: &'static str },
    /// Asserted by the tests that this runs.
    Tested { command: &'static str, measured: &'static str },
    /// Nothing to measure yet.
    NotBuilt,
}

use Shown::{Bench, NotBuilt, Recorded, Tested};

const PROMISES: [Promise; 21] = [
    Promise {
        what: "events lost or doubled: kill points, bursts, stalled watchers",
        gate: "0 in 500 points",
        goal: "0 in 20,000",
        shown: Recorded {
            command: "cargo xtask torture --points 500",
            page: "docs/torture.md",
            words: "With none in",
        },
    },
    Promise {
        what: "acknowledged data lost in simulated power cuts",
        gate: "0 in 2,000 images",
        goal: "0 in 50,000",
        shown: Recorded {
            command: "POWERCUT_IMAGES=50000 cargo nextest run -p store powercut",
            page: "docs/powercut.md",
            words: "power cut, as it is: ",
        },
    },
    Promise {
        what: "processes left behind, 20 escape shapes",
        gate: "0",
        goal: "0 in 10,000 runs",
        shown: Recorded {
            command: "./scripts/test --stage manners",
            page: "docs/manners.md",
            words: "29 escape shapes",
        },
    },
    Promise {
        what: "stale writes accepted after a lease is lost",
        gate: "0",
        goal: "0 in 10⁷ simulated steps",
        shown: Recorded {
            command: "cargo xtask simulate --seeds 1000000 --disk 3000",
            page: "docs/simulation.md",
            words: "in memory: ",
        },
    },
    Promise {
        what: "known secrets in store, blobs, trace, logs, wire",
        gate: "0",
        goal: "0 in 20,000 planted",
        shown: Recorded {
            command: "cargo nextest run -p cli planted_secrets --no-capture",
            page: "docs/secrets.md",
            words: " planted, ",
        },
    },
    Promise {
        what: "restart or upgrade of the server within the lease window",
        gate: "no run lost, no event lost",
        goal: "same",
        shown: Tested {
            command: "cargo nextest run -p cli deaths adopted",
            measured: "none lost, killed at 20 moments; a version that reads another state of a \
                       dialect ends that run as lost, and says so",
        },
    },
    Promise {
        what: "cost and tokens against the vendor's own figure",
        gate: "equal",
        goal: "equal",
        shown: Tested {
            command: "cargo nextest run -p runtimes recorded",
            measured: "equal in every recording",
        },
    },
    Promise {
        what: "budget overshoot",
        gate: "what was in flight",
        goal: "same",
        shown: Recorded {
            command: "cargo nextest run -p cli budgets",
            page: "docs/costs.md",
            words: "With steps of",
        },
    },
    Promise {
        what: "per event over pipe → file → read → split → parse",
        gate: "≤ 3×",
        goal: "≤ 1.5×",
        shown: Bench {
            bench: "pipeline",
            rows: &[
                "adapter CPU an event, writes of lines",
                "adapter CPU an event, writes of blocks",
            ],
        },
    },
    Promise {
        what: "durable events/s over SQLite's own limit, batch 256",
        gate: "≥ 0.4×",
        goal: "≥ 0.8×",
        shown: Bench { bench: "commit", rows: &["durable events a second, batch 256"] },
    },
    Promise {
        what: "run start over a bare spawn with pipes and one commit",
        gate: "≤ 2.5×",
        goal: "≤ 1.5×",
        shown: Bench { bench: "start", rows: &["run start: request → agent's first act"] },
    },
    Promise {
        what: "memory: idle server / growth per live run / private dirty of its keeper",
        gate: "≤ 25 MB / ≤ 64 kB / ≤ 512 kB",
        goal: "≤ 12 MB / ≤ 24 kB / ≤ 160 kB",
        shown: Bench {
            bench: "memory",
            rows: &[
                "idle server, RSS",
                "server growth per live run",
                "private dirty of a keeper, median of 60",
            ],
        },
    },
    Promise {
        what: "stop of an agent that obeys / of 50 escapees → nobody left",
        gate: "≤ 20 / ≤ 200 ms",
        goal: "≤ 3 / ≤ 15 ms",
        shown: Bench {
            bench: "stop",
            rows: &[
                "stop of an agent that obeys → nobody left",
                "stop with 50 escapees → nobody left",
            ],
        },
    },
    Promise {
        what: "size of the program, in which there is no dashboard yet",
        gate: "≤ 30 MB",
        goal: "≤ 15 MB",
        shown: Bench { bench: "size", rows: &["binary, without a dashboard"] },
    },
    Promise {
        what: "cold start, without history / with a million events",
        gate: "≤ 50 ms",
        goal: "≤ 10 ms whatever the history",
        shown: Bench {
            bench: "cold",
            rows: &["cold start, no history", "cold start, 10⁶ events of 1,000 runs"],
        },
    },
    Promise {
        what: "growth of cost per event, slope of the logarithms, 10³ … 10⁶",
        gate: "≤ 0.15",
        goal: "≤ 0.05",
        shown: Bench {
            bench: "growth",
            rows: &[
                "slope of a commit, one run",
                "slope of a commit, 1,000 runs",
                "slope of reading a page, one run",
                "slope of reading a page, 1,000 runs",
            ],
        },
    },
    Promise {
        what: "lookups: short id / comments of a task / lifetime budget, slope of the logarithms, 10³ … 10⁶ runs",
        gate: "≤ 0.05",
        goal: "≤ 0.05",
        shown: Bench {
            bench: "lookups",
            rows: &[
                "slope of a run by its short id",
                "slope of the comments of a task",
                "slope of a reservation in a lifetime budget",
            ],
        },
    },
    Promise {
        what: "dashboard: 100,000 events against 100, time to first rows",
        gate: "≤ 1.5×",
        goal: "≤ 1.1×",
        shown: NotBuilt,
    },
    Promise {
        what: "lines of Rust to add a JSON-lines agent",
        gate: "0",
        goal: "0",
        shown: Tested {
            command: "cargo nextest run -p cli conformance",
            measured: "0: a command line is enough",
        },
    },
    Promise {
        what: "lines of Rust to add an ACP agent, a mapped CLI",
        gate: "0",
        goal: "0",
        shown: Tested {
            command: "cargo nextest run -p cli -p runtimes acp mapped",
            measured: "0: a command line is enough for the one, a few keys for the other",
        },
    },
    Promise {
        what: "lines outside its own folder to add a native runtime",
        gate: "1",
        goal: "1",
        shown: Tested { command: "cargo xtask tidy", measured: "1, in `registry.rs`" },
    },
];

/// The promises as a table of Markdown, with what was measured.
pub fn table(root: &Path, rows: &[Row]) -> Result<String, String> {
    let mut table = "| promise | gate | goal | measured | verdict | command |\n\
                     |---|---|---|---|---|---|\n"
        .to_owned();
    for Promise { what, gate, goal, shown } in &PROMISES {
        let (measured, verdict, command) = match shown {
            Bench { bench, rows: names } => {
                let (measured, verdict) = measured(rows, names)?;
                (measured, verdict, format!("`cargo xtask bench {bench}`"))
            }
            Recorded { command, page, words } => {
                let link = page.trim_start_matches("docs/");
                let record = quoted(root, page, words)?;
                (record, format!("[recorded]({link})"), format!("`{command}`"))
            }
            Tested { command, measured } => {
                ((*measured).to_owned(), "asserted".to_owned(), format!("`{command}`"))
            }
            NotBuilt => (String::new(), "not built".to_owned(), String::new()),
        };
        // Writing to a String cannot fail.
        let _ =
            writeln!(table, "| {what} | {gate} | {goal} | {measured} | {verdict} | {command} |");
    }
    Ok(table)
}

/// What has not reached its gate, row by row, and why that is not known or not so.
pub fn shortfalls(rows: &[Row]) -> String {
    let mut list = String::new();
    for row in rows {
        let why = match row.verdict {
            Verdict::Missed => "not met".to_owned(),
            Verdict::Void => format!("void, for its floor moved: {}", row.floor),
            Verdict::Goal | Verdict::Gate | Verdict::Unbound => continue,
        };
        let _ = writeln!(list, "- {}: {} against {}; {why}", row.what, row.judged(), row.asked());
    }
    if list.is_empty() {
        list.push_str("- Of what was measured here, nothing.\n");
    }
    for Promise { what, .. } in PROMISES.iter().filter(|it| matches!(it.shown, NotBuilt)) {
        let _ = writeln!(list, "- {what}: not built");
    }
    list
}

fn measured(rows: &[Row], names: &[&str]) -> Result<(String, String), String> {
    let found = names.iter().map(|name| {
        let row = rows.iter().find(|row| row.what == *name);
        let row = row.ok_or_else(|| format!("no bench gave the promised row '{name}'"))?;
        Ok((row.judged().to_owned(), row.verdict.words()))
    });
    let (figures, verdicts): (Vec<_>, Vec<_>) =
        found.collect::<Result<Vec<_>, String>>()?.into_iter().unzip();
    Ok((figures.join(" / "), verdicts.join(" / ")))
}

/// The last line of a page that holds these words, fit for a cell of a table.
fn quoted(root: &Path, page: &str, words: &str) -> Result<String, String> {
    let text = std::fs::read_to_string(root.join(page)).map_err(said(format!("reading {page}")))?;
    let line = text.lines().rev().find(|line| line.contains(words));
    let line = line.ok_or_else(|| format!("{page} keeps no record '{words}'"))?;
    Ok(line.trim_matches(['|', ' ']).replace('|', "·"))
}

#[cfg(test)]
mod tests {
    use super::super::figures::Bound;
    use super::super::report::Report;
    use super::*;

    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
    }

    fn full() -> Report {
        let mut report = Report::default();
        let rows = PROMISES.iter().filter_map(|promise| match promise.shown {
            Bench { rows, .. } => Some(rows),
            Recorded { .. } | Tested { .. } | NotBuilt => None,
        });
        for name in rows.flatten() {
            report.figure(name, "MB", 2.0, Bound::AtMost { gate: 3.0, goal: 1.5 });
        }
        report
    }

    #[test]
    fn every_promise_has_its_line_and_every_record_is_on_its_page() {
        let table = table(root(), full().rows()).unwrap();
        assert_eq!(table.lines().count(), 2 + PROMISES.len());
        assert!(table.contains("| 2.00 MB | gate met | `cargo xtask bench size` |"), "{table}");
        assert!(table.lines().all(|line| line.matches('|').count() == 7), "{table}");
    }

    #[test]
    fn what_missed_its_gate_and_what_is_not_built_is_named() {
        let mut report = Report::default();
        let bound = Bound::AtMost { gate: 3.0, goal: 1.5 };
        report.figure("too much", "MB", 4.0, bound);
        report.figure("enough", "MB", 2.0, bound);
        let named = shortfalls(report.rows());
        assert!(named.starts_with("- too much: 4.00 MB against ≤ 3; not met\n"), "{named}");
        assert!(!named.contains("enough") && named.contains("dashboard"), "{named}");
        assert!(shortfalls(full().rows()).starts_with("- Of what was measured here, nothing.\n"));
    }

    #[test]
    fn a_row_that_no_bench_gave_and_a_record_that_is_gone_are_errors() {
        let rows = full().rows().to_vec();
        let refused = table(root(), &rows[1..]).unwrap_err();
        assert!(refused.contains("no bench gave the promised row 'adapter CPU"), "{refused}");
        assert!(quoted(root(), "docs/torture.md", "no such words").is_err());
        assert!(quoted(root(), "docs/nothing.md", "With none in").is_err());
    }
}
