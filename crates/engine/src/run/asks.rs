//! The questions of one run. A relayed tool that writes waits here for a person when the policy says
//! so, and so does whatever the agent itself asks leave for. A question is asked once and decided
//! once: by the policy, by an answer, by its time running out (which denies), or by the run's end.
//! Both the question and its decision are events. An answer is one of the options that the agent
//! named, chosen by its kind, the narrowest that fits, never by its id.

use super::{Effect, Graces, Machine, Now, Stdin, Step, complaint, words};
use contract::card::Policy;
use contract::event::{Body, DecidedBy, Decision, Permission, PermissionOption};
use contract::limits::TOOL_CALLS_OPEN_MAX;
use contract::speech::{Draft, Question, ToolAnswer, ToolCall, Utterance};
use contract::{AskId, Code};
use serde::{Deserialize, Serialize};
use serde_json::json;

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
    pub about: About,
    pub deadline_ms: u64,
}

/// What is done if it is allowed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// A tool of ours is called.
    Relayed(ToolCall),
    /// A tool of ours is called whose answer is what the person says.
    Approval(ToolCall),
    /// The agent goes on with something of its own.
    Native(Question),
}

/// What the policy says of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum May {
    Do,
    Ask,
    Not,
}

/// The answers to our own questions; the narrowest of each kind.
const ALLOW: (&str, &str, &str) = ("allow", "allow_once", "allow it this once");
const DENY: (&str, &str, &str) = ("deny", "reject_once", "deny it");
/// Kinds of options, the narrowest first.
const ALLOWING: [&str; 2] = ["allow_once", "allow_always"];
const REJECTING: [&str; 2] = ["reject_once", "reject_always"];

impl super::Terms {
    /// Reads are free; writes need `allow-all` or an answer, and some things always one.
    pub(super) fn may(&self, tool: &str) -> May {
        if super::tools::offers(&self.asks, tool) {
            return May::Ask;
        }
        match super::tools::offers(&self.writes, tool) {
            true => self.may_do(false),
            false => May::Do,
        }
    }

    /// What was asked for by the agent itself, which may look but not touch.
    fn may_do(&self, reads: bool) -> May {
        match (self.policy, reads) {
            (Policy::AllowAll, _) | (Policy::AllowReads, true) => May::Do,
            (Policy::Ask, _) => May::Ask,
            (Policy::Deny, _) | (Policy::AllowReads, false) => May::Not,
        }
    }
}

impl Ask {
    /// What it is about, in one line.
    pub fn title(&self) -> String {
        match &self.about {
            About::Relayed(call) => words::title(call),
            About::Approval(call) => words::request(call).unwrap_or_else(|| words::title(call)),
            About::Native(question) => question.title.clone(),
        }
    }

    pub fn tool_call_id(&self) -> Option<&str> {
        match &self.about {
            About::Relayed(call) | About::Approval(call) => Some(&call.tool_call_id),
            About::Native(question) => question.tool_call_id.as_deref(),
        }
    }

    /// The answers there are.
    pub fn options(&self) -> Vec<PermissionOption> {
        match &self.about {
            About::Relayed(_) => [ALLOW, DENY].map(own_option).into(),
            About::Approval(call) => match words::options(call) {
                options if options.is_empty() => [ALLOW, DENY].map(own_option).into(),
                options => options.into_iter().chain([own_option(DENY)]).collect(),
            },
            About::Native(question) => question.options.clone(),
        }
    }

    /// The option that a person means: its id, its kind, or the bare word `allow` or `deny`.
    fn meant(&self, given: &str) -> Option<PermissionOption> {
        let options = self.options();
        let named = options.iter().find(|option| option.id == given || option.kind == given);
        named.cloned().or_else(|| match given {
            "allow" => narrowest(&options, ALLOWING),
            "deny" => narrowest(&options, REJECTING),
            _ => None,
        })
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

    fn asks(&self, request: &str) -> bool {
        self.open.iter().any(|ask| matches!(&ask.about, About::Native(q) if q.request == request))
    }
}

impl Machine {
    /// Asks a person about a relayed call.
    pub(super) fn ask(&mut self, now: Now, call: ToolCall, out: &mut Vec<Step>) {
        let about = match super::tools::offers(&self.terms.answered, &call.tool) {
            true if words::request(&call).is_none() => {
                let message = format!("the arguments of {}: missing field `text`", call.tool);
                let answer = ToolAnswer::Error { code: Code::Usage, message };
                return self.answer(now, call.tool_call_id, answer, 0, out);
            }
            true => About::Approval(call),
            false => About::Relayed(call),
        };
        let ask = self.question(now, about);
        out.push(Step::Append(Draft::ostler(asked(&ask, None))));
        self.asks.open.push(ask);
    }

    /// The agent asks about something of its own: the policy answers, or a person will.
    pub(super) fn take_question(&mut self, now: Now, question: Question, out: &mut Vec<Step>) {
        if self.asks.asks(&question.request) {
            return;
        }
        let over = self.said.is_some() || self.stopped.is_some();
        let crowded = self.asks.open.len() >= TOOL_CALLS_OPEN_MAX;
        let may = match over || crowded {
            true => May::Not,
            false => self.terms.may_do(question.reads),
        };
        let ask = self.question(now, About::Native(question));
        out.push(Step::Append(Draft::ostler(asked(&ask, None))));
        match may {
            May::Ask => self.asks.open.push(ask),
            May::Do => self.settle_question(now, ask, true, DecidedBy::Policy, out),
            May::Not => self.settle_question(now, ask, false, DecidedBy::Policy, out),
        }
    }

    /// The agent no longer waits for an answer.
    pub(super) fn drop_question(&mut self, request: &str, out: &mut Vec<Step>) {
        let open = std::mem::take(&mut self.asks.open);
        for ask in open {
            match &ask.about {
                About::Native(question) if question.request == request => {
                    out.push(Step::Append(Draft::ostler(asked(&ask, Some(Decided::CANCELLED)))));
                }
                About::Native(_) | About::Relayed(_) | About::Approval(_) => {
                    self.asks.open.push(ask);
                }
            }
        }
    }

    /// A person answered.
    pub(super) fn decide(
        &mut self,
        now: Now,
        ask_id: AskId,
        option: &str,
        person: Option<String>,
        out: &mut Vec<Step>,
    ) {
        let Some(ask) = self.asks.open.iter().find(|ask| ask.ask_id == ask_id) else {
            let particulars = format!("no question {ask_id} is open in this run");
            out.push(Step::Append(complaint(Code::NotFound, Some(&particulars), None, None)));
            return;
        };
        let Some(meant) = ask.meant(option) else {
            let option: String = option.chars().take(40).collect();
            let ids: Vec<_> = ask.options().into_iter().map(|option| option.id).collect();
            let particulars =
                format!("'{option}' is no answer to {ask_id}: say {}", ids.join(" or "));
            out.push(Step::Append(complaint(Code::Usage, Some(&particulars), None, None)));
            return;
        };
        if let Some(ask) = self.asks.take(ask_id) {
            self.carry_out(now, ask, meant, (DecidedBy::Person, person), out);
        }
    }

    /// Questions whose time is up are denied.
    pub(super) fn deny_overdue(&mut self, now: Now, out: &mut Vec<Step>) {
        let (due, open) = std::mem::take(&mut self.asks.open)
            .into_iter()
            .partition(|ask: &Ask| ask.deadline_ms <= now.mono_ms);
        self.asks.open = open;
        for ask in due {
            self.settle_question(now, ask, false, DecidedBy::Timeout, out);
        }
    }

    /// Nobody needs the answers any more: the run is ending, or its turn was interrupted. Relayed
    /// calls are answered with the rest; an agent that still listens is told of its own questions.
    pub(super) fn withdraw_questions(&mut self, out: &mut Vec<Step>) {
        for ask in std::mem::take(&mut self.asks.open) {
            self.withdraw(ask, out);
        }
    }

    /// The turn was interrupted: what the agent asked in it is void, what it called is not.
    pub(super) fn withdraw_native(&mut self, out: &mut Vec<Step>) {
        let (native, kept) = std::mem::take(&mut self.asks.open)
            .into_iter()
            .partition(|ask: &Ask| matches!(ask.about, About::Native(_)));
        self.asks.open = kept;
        for ask in native {
            self.withdraw(ask, out);
        }
    }

    fn withdraw(&mut self, ask: Ask, out: &mut Vec<Step>) {
        out.push(Step::Append(Draft::ostler(asked(&ask, Some(Decided::CANCELLED)))));
        match ask.about {
            About::Native(question) if self.stdin == Stdin::Open => {
                let request = question.request;
                out.push(Step::Do(Effect::Say(Utterance::Decide { request, option: None })));
            }
            About::Native(_) | About::Relayed(_) | About::Approval(_) => {}
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

    fn question(&mut self, now: Now, about: About) -> Ask {
        let ask_id = self.terms.ask_id(self.asks.asked);
        self.asks.asked += 1;
        Ask { ask_id, about, deadline_ms: now.mono_ms.saturating_add(self.terms.ask_ms) }
    }

    /// Decides by the narrowest option that fits. An agent that offers none is told that nobody
    /// chose; if it was to be allowed, the run cannot go on as its policy says, and ends at once.
    fn settle_question(
        &mut self,
        now: Now,
        ask: Ask,
        allowed: bool,
        by: DecidedBy,
        out: &mut Vec<Step>,
    ) {
        let kinds = if allowed { ALLOWING } else { REJECTING };
        match narrowest(&ask.options(), kinds) {
            Some(option) => self.carry_out(now, ask, option, (by, None), out),
            None => {
                self.withdraw(ask, out);
                if allowed {
                    self.stop(now, Code::PermissionDenied, None, Graces::Full, out);
                }
            }
        }
    }

    fn carry_out(
        &mut self,
        now: Now,
        ask: Ask,
        option: PermissionOption,
        (by, person): (DecidedBy, Option<String>),
        out: &mut Vec<Step>,
    ) {
        let allowed = ALLOWING.contains(&option.kind.as_str());
        let decision = if allowed { Decision::Allow } else { Decision::Deny };
        let decided = Decided { decision, option: Some(&option.id), by: Some(by), person };
        let event = asked(&ask, Some(decided));
        out.push(Step::Append(match by {
            DecidedBy::Person => Draft::operator(event),
            DecidedBy::Policy | DecidedBy::Timeout => Draft::ostler(event),
        }));
        self.watch.stir(now);
        match (ask.about, allowed) {
            (About::Relayed(call), true) => out.push(Step::Do(Effect::Relay(call))),
            (About::Relayed(call), false) => {
                let code = match by {
                    DecidedBy::Timeout => Code::PermissionUnanswered,
                    DecidedBy::Person | DecidedBy::Policy => Code::PermissionDenied,
                };
                self.refuse(now, call.tool_call_id, code, out);
            }
            (About::Approval(call), _) => {
                let answer = json!({
                    "decision": decision,
                    "option": option.id,
                    "decided_by": by,
                });
                self.answer(now, call.tool_call_id, ToolAnswer::Value(answer), 0, out);
            }
            (About::Native(question), _) => {
                let (request, option) = (question.request, Some(option.id));
                out.push(Step::Do(Effect::Say(Utterance::Decide { request, option })));
            }
        }
    }
}

struct Decided<'a> {
    decision: Decision,
    option: Option<&'a str>,
    by: Option<DecidedBy>,
    person: Option<String>,
}

impl Decided<'_> {
    const CANCELLED: Self =
        Self { decision: Decision::Cancelled, option: None, by: None, person: None };
}

fn narrowest(options: &[PermissionOption], kinds: [&str; 2]) -> Option<PermissionOption> {
    kinds.iter().find_map(|kind| options.iter().find(|option| option.kind == *kind)).cloned()
}

fn own_option((id, kind, name): (&str, &str, &str)) -> PermissionOption {
    PermissionOption { id: id.to_owned(), kind: kind.to_owned(), name: name.to_owned() }
}

fn asked(ask: &Ask, decided: Option<Decided<'_>>) -> Body {
    Body::Permission(Permission {
        ask_id: ask.ask_id,
        tool_call_id: ask.tool_call_id().map(str::to_owned),
        title: ask.title(),
        options: ask.options(),
        decision: decided.as_ref().map(|decided| decided.decision),
        option: decided.as_ref().and_then(|decided| decided.option).map(str::to_owned),
        decided_by: decided.as_ref().and_then(|decided| decided.by),
        by: decided.and_then(|decided| decided.person),
    })
}
