//! Where the rows are played: one instance, one host, one adapter for each row. `play` gives what was
//! seen of each run, after checking what must hold for all of them alike.

use super::{Agent, Ends, Row};
use crate::ostler::{BOUND_MS, Ostler, Running, Said, assert_gap_free, result, signal};
use rustix::process::Signal;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::Stdio;
use std::sync::Mutex;
use testkit::{find_marked, until};

/// Rows at once: most of them wait for a clock.
const AT_ONCE: usize = 4;

/// An instance with a host of its own.
pub struct Stage {
    pub ostler: Ostler,
    host: Option<Running>,
}

/// What was seen of one run.
pub struct Seen {
    pub name: &'static str,
    pub said: Said,
    pub events: Vec<Value>,
    /// The sealed raw output.
    pub trace: Vec<Value>,
    pub ends: (i32, String, Option<String>),
}

impl Seen {
    pub fn result(&self) -> &Value {
        self.events.last().unwrap_or_else(|| panic!("{}: {:#?}", self.name, self.said))
    }

    /// The lines of one stream as they are in the trace.
    pub fn lines(&self, stream: &str) -> Vec<&str> {
        let lines = self.trace.iter().filter(|line| line["stream"] == stream);
        lines.filter_map(|line| line["text"].as_str()).collect()
    }

    /// What the agent's own events are, by kind.
    pub fn counts(&self) -> String {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for event in self.events.iter().filter(|event| event["origin"] == "agent") {
            let kind = event["kind"].as_str().unwrap_or_default();
            let kind = match event["level"].as_str() {
                Some(level) => format!("{kind} ({level})"),
                None => kind.to_owned(),
            };
            *counts.entry(kind).or_default() += 1;
        }
        let words: Vec<_> = counts.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        words.join(", ")
    }
}

impl Stage {
    /// An instance whose configuration has an adapter for each row, and its host.
    pub fn of(rows: &[Row]) -> Self {
        Self::held(rows, "auto")
    }

    /// The same, on one level of containment.
    pub fn held(rows: &[Row], level: &str) -> Self {
        Self::with(level, |work| {
            let rows = rows.iter().enumerate();
            rows.map(|(n, row)| (format!("row-{n}"), adapter(row, work))).collect()
        })
    }

    /// An instance with these adapters, made for its working directory, and its host.
    pub fn with(level: &str, make: impl FnOnce(&std::path::Path) -> Map<String, Value>) -> Self {
        let ostler = Ostler::new();
        let adapters = make(&ostler.instance.work());
        ostler.instance.write_config(&json!({ "adapters": adapters }).to_string());
        let mut serve = ostler.command(&["serve", "--listen", "127.0.0.1:0"]);
        let mut host = Running::of(serve.env("OSTLER_ISOLATION", level));
        assert!(host.line().starts_with("listening on "));
        Self { ostler, host: Some(host) }
    }

    pub fn host_pid(&self) -> u32 {
        self.host.as_ref().expect("the stage is open").child.id()
    }

    /// Plays every row and hands what was seen to `look`, in the order of the rows.
    pub fn play(&self, rows: &[Row]) -> Vec<Seen> {
        let next = Mutex::new(0..rows.len());
        let seen = Mutex::new(BTreeMap::new());
        std::thread::scope(|scope| {
            for _ in 0..AT_ONCE {
                scope.spawn(|| {
                    while let Some(n) = { next.lock().unwrap().next() } {
                        let one = self.one(n, &rows[n]);
                        seen.lock().unwrap().insert(n, one);
                    }
                });
            }
        });
        let seen: Vec<Seen> = seen.into_inner().unwrap().into_values().collect();
        assert_eq!(seen.len(), rows.len(), "every row was played");
        seen
    }

    fn one(&self, n: usize, row: &Row) -> Seen {
        let said = self.run(&format!("row-{n}"), &"p".repeat(row.prompt_bytes));
        let events = said.events();
        let Some(first) = events.first() else {
            // It was refused before there was a run.
            let error: Value = serde_json::from_str(&said.stderr)
                .unwrap_or_else(|error| panic!("{}: {error}: {}", row.name, said.stderr));
            let code = error["code"].as_str().map(str::to_owned);
            let ends = (said.code, "refused".to_owned(), code);
            return Seen { name: row.name, said, events, trace: Vec::new(), ends };
        };
        let id = first["run_id"].as_str().expect("an event names its run").to_owned();
        // The result is there, so the family is gone: no waiting here.
        let left = find_marked(&id);
        assert!(left.is_empty(), "{}: left {left:?}", row.name);
        assert_gap_free(&events);
        let end = result(&events);
        let word = |name: &str| end[name].as_str().map(str::to_owned);
        let ends = (said.code, word("outcome").unwrap_or_default(), word("code"));
        let raw = self.ostler.says(&["show", &id, "--raw"]);
        let trace = if raw.code == 0 { raw.events() } else { Vec::new() };
        let shown = self.ostler.says(&["show", &id, "--debug"]);
        assert_printable(row.name, &shown.stdout);
        Seen { name: row.name, said, events, trace, ends }
    }

    /// One run, with its prompt on standard input.
    pub fn run(&self, agent: &str, prompt: &str) -> Said {
        let mut command = self.ostler.command(&["run", agent, "--json"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("ostler starts");
        let mut stdin = child.stdin.take().expect("piped");
        let prompt = prompt.to_owned();
        // A prompt that is refused is not read to its end.
        let writer = std::thread::spawn(move || stdin.write_all(prompt.as_bytes()).is_ok());
        let said = Said::from(child.wait_with_output().expect("ostler ends"));
        writer.join().expect("the writer ends");
        said
    }

    /// Ends the host, after it has no zombie and nothing of any run is left.
    pub fn close(mut self) {
        let pid = self.host_pid();
        until("the host to have no child left", BOUND_MS, || {
            children(pid).is_empty().then_some(())
        });
        // They go after the result, which waits for no disk.
        until("the spools to be removed", BOUND_MS, || {
            let files = self.ostler.files();
            let spool = |path: &std::path::PathBuf| path.extension().is_some_and(|e| e == "seg");
            (!files.iter().any(spool)).then_some(())
        });
        signal(i32::try_from(pid).expect("a pid"), Signal::TERM);
        let host = self.host.take().expect("the stage is open");
        assert_eq!(host.finish().code, 0, "the host leaves in peace");
        let left = find_marked(&self.ostler.instance.mark());
        assert!(left.is_empty(), "left {left:?}");
    }
}

fn adapter(row: &Row, work: &std::path::Path) -> Value {
    let fake = testkit::fake_agent().display().to_string();
    let mut adapter = match row.agent {
        Agent::Fake(flags) => json!({ "type": "process", "binary": fake, "args": flags }),
        Agent::Acp(odd) => {
            json!({ "type": "acp", "binary": fake, "args": ["--acp", "--odd", odd] })
        }
        Agent::Made(make) => {
            let (binary, args) = make(work);
            json!({ "type": "process", "binary": binary, "args": args })
        }
    };
    let keys: Map<String, Value> = serde_json::from_str(row.keys).expect("keys are an object");
    for (name, value) in keys {
        adapter[name] = value;
    }
    adapter
}

/// Every row ended as its table says, and what else it asks for holds.
pub fn assert_ends(rows: &[Row], seen: &[Seen]) {
    let mut wrong = Vec::new();
    for (row, seen) in rows.iter().zip(seen) {
        let Ends(exit, outcome, code) = row.ends;
        if seen.ends != (exit, outcome.to_owned(), code.map(str::to_owned)) {
            let last = seen.events.last();
            wrong.push(format!("{}: {:?}, not {:?}\n{last:?}", row.name, seen.ends, row.ends));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (row, seen) in rows.iter().zip(seen) {
        (row.check)(seen);
    }
}

/// A terminal is shown text, and nothing that commands it.
fn assert_printable(name: &str, text: &str) {
    let bad = text.chars().find(|c| {
        (c.is_control() && *c != '\n')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    });
    assert_eq!(bad, None, "{name}: {:?}", text.get(..400));
}

/// What a process has open, and how many threads it has.
pub fn holdings(pid: u32) -> (usize, usize) {
    let count = |dir: &str| {
        std::fs::read_dir(format!("/proc/{pid}/{dir}")).map_or(0, |entries| entries.count())
    };
    (count("fd"), count("task"))
}

/// A figure of a process's memory in kilobytes: `VmRSS` is what it has, `VmHWM` the most it had.
pub fn memory_kb(pid: u32, figure: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(figure)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).unwrap_or(0)
}

/// What the kernel says a keeper without a plan is called.
pub const SPARE: &str = "(spare keeper)";

/// The children of a process, zombies included, each with the letter of its state. The spare keeper of
/// a server is no child of any run.
pub fn children(pid: u32) -> Vec<(u32, char)> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|child| {
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).ok()?;
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?.chars().next()?;
        let spare = stat.contains(SPARE) && state != 'Z';
        (fields.next()?.parse::<u32>().ok()? == pid && !spare).then_some((child, state))
    })
    .collect()
}
