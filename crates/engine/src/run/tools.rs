//! The calls of one run: relayed ones, each an obligation answered exactly once, and native ones,
//! which are only watched so that silence is not counted against them.
//! Decides whether a call is passed on; how it is answered is the host's business.

use contract::Code;
use contract::event::{self, Body, ToolStatus};
use contract::limits::TOOL_CALLS_OPEN_MAX;
use contract::speech::{Draft, ToolAnswer, ToolCall};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::{BTreeSet, VecDeque};

/// Ids of answered calls that are remembered: a repeated call comes soon or never.
const ANSWERED_MAX: usize = TOOL_CALLS_OPEN_MAX;

/// What is open, and what was answered lately.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Calls {
    relayed: BTreeSet<String>,
    native: BTreeSet<String>,
    answered: VecDeque<String>,
}

/// What becomes of a relayed call.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Taken {
    Relay,
    /// The same call again: its one answer was given or will come.
    Repeated,
    Refuse(ToolAnswer),
}

impl Calls {
    /// Takes a relayed call; `over` says that the agent already ended its work.
    pub fn take(&mut self, call: &ToolCall, tools: &[String], over: bool) -> Taken {
        let id = &call.tool_call_id;
        if self.relayed.contains(id) || self.answered.contains(id) {
            return Taken::Repeated;
        }
        let refusal = if over {
            Some((Code::Conflict, "the run has already ended".to_owned()))
        } else if !offers(tools, &call.tool) {
            let name: String = call.tool.chars().take(100).collect();
            Some((Code::UnknownTool, format!("no tool named '{name}' is offered to this run")))
        } else if self.relayed.len() >= TOOL_CALLS_OPEN_MAX {
            Some((
                Code::Conflict,
                format!("{TOOL_CALLS_OPEN_MAX} calls already wait for an answer"),
            ))
        } else {
            None
        };
        match refusal {
            Some((code, message)) => {
                self.remember(id.clone());
                Taken::Refuse(ToolAnswer::Error { code, message })
            }
            None => {
                self.relayed.insert(id.clone());
                Taken::Relay
            }
        }
    }

    /// Closes a relayed call; false when it is not open.
    pub fn answer(&mut self, id: &str) -> bool {
        let open = self.relayed.remove(id);
        if open {
            self.remember(id.to_owned());
        }
        open
    }

    /// Closes every relayed call and gives their ids.
    pub fn drain(&mut self) -> Vec<String> {
        std::mem::take(&mut self.relayed).into_iter().collect()
    }

    pub fn open_native(&mut self, id: String) {
        // Beyond the bound one more open call changes nothing: the run is busy either way.
        if self.native.len() < TOOL_CALLS_OPEN_MAX {
            self.native.insert(id);
        }
    }

    pub fn close_native(&mut self, id: &str) {
        self.native.remove(id);
    }

    /// A turn that ended left no native call open, whether or not each was seen to close.
    pub fn close_turn(&mut self) {
        self.native.clear();
    }

    pub fn relayed_open(&self) -> bool {
        !self.relayed.is_empty()
    }

    /// Whether anything is open that silence is not counted against.
    pub fn busy(&self) -> bool {
        !(self.relayed.is_empty() && self.native.is_empty())
    }

    fn remember(&mut self, id: String) {
        if self.answered.len() == ANSWERED_MAX {
            self.answered.pop_front();
        }
        self.answered.push_back(id);
    }
}

/// Whether the terms of a run offer a tool.
pub fn offers(tools: &[String], tool: &str) -> bool {
    tools.iter().any(|offered| covers(offered, tool))
}

/// Whether an entry of the terms offers a tool: by its name, or by its beginning and a star.
fn covers(offered: &str, tool: &str) -> bool {
    match offered.strip_suffix('*') {
        Some(beginning) => tool.starts_with(beginning),
        None => offered == tool,
    }
}

/// The event of an answer.
pub(super) fn result(id: &str, answer: &ToolAnswer, duration_ms: Option<u64>) -> Draft {
    let (status, denied, output) = match answer {
        ToolAnswer::Value(value) if answer.foreign_failure().is_some() => {
            (ToolStatus::Error, None, value.clone())
        }
        ToolAnswer::Value(value) => (ToolStatus::Ok, None, value.clone()),
        ToolAnswer::Error { code, message } => {
            let denied = matches!(code, Code::PermissionDenied | Code::PermissionUnanswered);
            let output = json!({ "code": code, "message": message });
            (ToolStatus::Error, denied.then_some(true), output)
        }
    };
    Draft::ostler(Body::ToolResult(event::ToolResult {
        tool_call_id: id.to_owned(),
        status,
        denied,
        output,
        duration_ms,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: usize) -> ToolCall {
        ToolCall {
            tool_call_id: format!("c{id}"),
            tool: "read_task".to_owned(),
            args: serde_json::Value::Null,
        }
    }

    #[test]
    fn beyond_the_bound_a_call_is_refused_and_one_answer_makes_room() {
        let tools = ["read_task".to_owned()];
        let mut calls = Calls::default();
        for id in 0..TOOL_CALLS_OPEN_MAX {
            assert_eq!(calls.take(&call(id), &tools, false), Taken::Relay);
        }
        let refused = calls.take(&call(1000), &tools, false);
        let message = "64 calls already wait for an answer".to_owned();
        assert_eq!(refused, Taken::Refuse(ToolAnswer::Error { code: Code::Conflict, message }));
        assert_eq!(calls.take(&call(1000), &tools, false), Taken::Repeated);
        assert!(calls.answer("c0") && !calls.answer("c0"));
        assert_eq!(calls.take(&call(1001), &tools, false), Taken::Relay);
    }

    #[test]
    fn a_star_offers_what_begins_like_it() {
        let rows = [
            ("read_task", "read_task", true),
            ("read_task", "read_task2", false),
            ("git__*", "git__log", true),
            ("git__*", "github__log", false),
            ("git__log", "git__show", false),
        ];
        for (offered, tool, expected) in rows {
            assert_eq!(covers(offered, tool), expected, "{offered} {tool}");
        }
    }

    #[test]
    fn what_is_remembered_of_answered_calls_is_bounded() {
        let mut calls = Calls::default();
        for id in 0..1000 {
            calls.take(&call(id), &[], false);
        }
        assert_eq!(calls.answered.len(), ANSWERED_MAX);
    }
}
