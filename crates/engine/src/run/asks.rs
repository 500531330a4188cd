//! The questions of one run: a relayed tool that writes waits here for a person when the policy says
//! so. A question is asked once and decided once: by an answer, by its time running out (which
//! denies), or by the run's end. Both the question and its decision are events.

use super::{Effect, Machine, Now, Step, complaint};
use contract::card::Policy;
use contract::event::{Body, DecidedBy, Decision, Permission, PermissionOption};
use contract::speech::{Draft, ToolAnswer, ToolCall};
use contract::{AskId, Code};
use serde::{Deserialize, Serialize};

/// What is open.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Asks {
    asked: u64,
    open: Vec<Ask>,
}

/// A question that waits for its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    pub ask_id: AskId,
    /// What is done if it is allowed.
    pub call: ToolCall,
    pub deadline_ms: u64,
}

/// What the policy says of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum May {
    Do,
    Ask,
    Not,
}

/// The answers there are; the narrowest of each kind.
const ALLOW: (&str, &str, &str) = ("allow", "allow_once", "allow it this once");
const DENY: (&str, &str, &str) = ("deny", "reject_once", "deny it");

impl super::Terms {
    /// Reads are free; writes need `allow-all` or an answer.
    pub(super) fn may(&self, tool: &str) -> May {
        if !super::tools::offers(&self.writes, tool) {
            return May::Do;
        }
        match self.policy {
            Policy::AllowAll => May::Do,
            Policy::Ask => May::Ask,
            Policy::Deny | Policy::AllowReads => May::Not,
        }
    }
}

impl Asks {
    pub fn open(&self) -> &[Ask] {
        &self.open
    }

    pub fn deadline_ms(&self) -> Option<u64> {
        self.open.iter().map(|ask| ask.deadline_ms).min()
    }

    fn take(&mut self, ask_id: AskId) -> Option<Ask> {
        let place = self.open.iter().position(|ask| ask.ask_id == ask_id)?;
        Some(self.open.remove(place))
    }
}

impl Machine {
    pub(super) fn ask(&mut self, now: Now, call: ToolCall, out: &mut Vec<Step>) {
        let ask_id = self.terms.ask_id(self.asks.asked);
        self.asks.asked += 1;
        let deadline_ms = now.mono_ms.saturating_add(self.terms.ask_ms);
        let ask = Ask { ask_id, call, deadline_ms };
        out.push(Step::Append(Draft::ostler(question(&ask, None))));
        self.asks.open.push(ask);
    }

    /// A person answered.
    pub(super) fn decide(&mut self, now: Now, ask_id: AskId, option: &str, out: &mut Vec<Step>) {
        let allowed = match option {
            option if option == ALLOW.0 || option == ALLOW.1 => true,
            option if option == DENY.0 || option == DENY.1 => false,
            option => {
                let option: String = option.chars().take(40).collect();
                let particulars =
                    format!("'{option}' is no answer to {ask_id}: say {} or {}", ALLOW.0, DENY.0);
                out.push(Step::Append(complaint(Code::Usage, Some(&particulars), None, None)));
                return;
            }
        };
        let Some(ask) = self.asks.take(ask_id) else {
            let particulars = format!("no question {ask_id} is open in this run");
            out.push(Step::Append(complaint(Code::NotFound, Some(&particulars), None, None)));
            return;
        };
        let (decision, option) =
            if allowed { (Decision::Allow, ALLOW) } else { (Decision::Deny, DENY) };
        let decided = Decided { decision, option: Some(option.0), by: Some(DecidedBy::Person) };
        out.push(Step::Append(Draft::operator(question(&ask, Some(decided)))));
        match allowed {
            true => out.push(Step::Do(Effect::Relay(ask.call))),
            false => self.refuse(now, ask.call.tool_call_id, Code::PermissionDenied, out),
        }
    }

    /// Questions whose time is up are denied.
    pub(super) fn deny_overdue(&mut self, now: Now, out: &mut Vec<Step>) {
        let (due, open) = std::mem::take(&mut self.asks.open)
            .into_iter()
            .partition(|ask: &Ask| ask.deadline_ms <= now.mono_ms);
        self.asks.open = open;
        for ask in due {
            let decided = Decided {
                decision: Decision::Deny,
                option: Some(DENY.0),
                by: Some(DecidedBy::Timeout),
            };
            out.push(Step::Append(Draft::ostler(question(&ask, Some(decided)))));
            self.refuse(now, ask.call.tool_call_id, Code::PermissionUnanswered, out);
        }
    }

    /// The run is ending: nobody needs the answers any more. The calls are answered with the rest.
    pub(super) fn withdraw_questions(&mut self, out: &mut Vec<Step>) {
        for ask in std::mem::take(&mut self.asks.open) {
            let decided = Decided { decision: Decision::Cancelled, option: None, by: None };
            out.push(Step::Append(Draft::ostler(question(&ask, Some(decided)))));
        }
    }

    /// Answers a call that may not be carried out, in the words of the fault table.
    pub(super) fn refuse(
        &mut self,
        now: Now,
        tool_call_id: String,
        code: Code,
        out: &mut Vec<Step>,
    ) {
        let answer = ToolAnswer::Error { code, message: code.row().message.to_owned() };
        self.answer(now, tool_call_id, answer, 0, out);
    }
}

struct Decided {
    decision: Decision,
    option: Option<&'static str>,
    by: Option<DecidedBy>,
}

fn question(ask: &Ask, decided: Option<Decided>) -> Body {
    let option = |(id, kind, name): (&str, &str, &str)| PermissionOption {
        id: id.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
    };
    Body::Permission(Permission {
        ask_id: ask.ask_id,
        tool_call_id: Some(ask.call.tool_call_id.clone()),
        title: format!("may it use {}?", ask.call.tool),
        options: vec![option(ALLOW), option(DENY)],
        decision: decided.as_ref().map(|decided| decided.decision),
        option: decided.as_ref().and_then(|decided| decided.option).map(str::to_owned),
        decided_by: decided.and_then(|decided| decided.by),
    })
}
