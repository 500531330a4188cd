//! Every bad manner of an agent, as tables: what it does, how its run must end, and what must be in
//! the store afterwards. Each row is a real run of the real binary, several at once under one host.
//! After each nothing may be left of its processes; after all of them the host has no zombie, and
//! the same files and threads as before. `docs/manners.md` shows the tables as they came out, and is
//! compared with them; `MANNERS_PAGE=write` writes it. What takes minutes is for `MANNERS=all`.

mod acp;
mod bytes;
mod crowd;
mod escapes;
pub mod first_process;
mod large;
mod levels;
mod page;
mod pids;
mod processes;
pub mod stage;

use serde_json::Value;
use stage::Seen;

/// One bad manner.
pub struct Row {
    pub name: &'static str,
    pub agent: Agent,
    /// Keys of its adapter beside the program, in JSON.
    pub keys: &'static str,
    pub prompt_bytes: usize,
    pub ends: Ends,
    /// What else must be true of the run.
    pub check: fn(&Seen),
}

/// What is run.
pub enum Agent {
    /// The fake agent with these flags.
    Fake(&'static [&'static str]),
    /// The fake agent over ACP, which says this odd thing.
    Acp(&'static str),
    /// A program and its arguments, made in this directory.
    Made(fn(&std::path::Path) -> (String, Vec<String>)),
}

/// How a run must end: the exit status of `ostler run`, the outcome, and the code of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends(pub i32, pub &'static str, pub Option<&'static str>);

pub const SUCCESS: Ends = Ends(0, "succeeded", None);

impl Row {
    pub const fn fake(
        name: &'static str,
        flags: &'static [&'static str],
        ends: Ends,
        check: fn(&Seen),
    ) -> Self {
        Self { name, agent: Agent::Fake(flags), keys: "{}", prompt_bytes: 1, ends, check }
    }

    pub const fn with(self, keys: &'static str) -> Self {
        Self { keys, ..self }
    }

    pub const fn prompt(self, prompt_bytes: usize) -> Self {
        Self { prompt_bytes, ..self }
    }
}

/// Whether the long rows are wanted too.
pub fn all() -> bool {
    std::env::var_os("MANNERS").is_some_and(|word| word == "all")
}

/// Nothing beside what holds for every row.
pub fn nothing_else(_: &Seen) {}

/// The events of the agent's own of this kind.
pub fn of_kind<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["origin"] == "agent" && event["kind"] == kind).collect()
}
