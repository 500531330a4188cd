//! The questions of one run. A relayed tool that writes waits here for a person when the policy says
//! so, and so does whatever the agent itself asks leave for. A question is asked once and decided
//! once: by the policy, by an answer, by its time running out (which denies), or by the run's end.
//! Both the question and its decision are events. An answer is one of the options that the agent
//! named, chosen by its kind, the narrowest that fits, never by its id. The answer `always` is ours:
//! the agent is told its narrowest yes, and the machine answers what the grant covers from then on
//! (`grants.rs`), because the scope of an agent's own "always" differs and may outlive the run.

use super::grants::Grant;
use super::{Effect, Graces, Machine, Now, Stdin, Step, complaint, words};
use contract::card::Policy;
use contract::event::{Body, DecidedBy, Decision, Permission, PermissionOption, PermissionRequest};
use contract::limits::{DENIAL_REASON_BYTES_MAX, RUN_GRANTS_MAX, TOOL_CALLS_OPEN_MAX};
use contract::speech::{Draft, Question, ToolAnswer, ToolCall, Utterance};
use contract::{AskId, Code, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// What is open.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Asks {
    asked: u64,
    open: Vec<Ask>,
    /// What a person allowed for the rest of the run.
    #[serde(default)]
    grants: Vec<Grant>,
}

/// A person's answer to a question.
pub(super) struct Answer {
    pub ask_id: AskId,
    pub option: String,
    pub by: Option<String>,
    /// Why it is denied.
    pub reason: Option<String>,
}

/// A question that waits for its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    pub ask_id: AskId,
    pub about: About,
    pub deadline_ms: u64,
    /// Needs an answer each time, so `always` is none.
    #[serde(default)]
    pub each_time: bool,
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
/// The answer that also gives a grant for the rest of the run.
const ALWAYS: &str = "always";

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

    /// The policy's answer to a request of the agent itself. Under `ask` too, what the runtime classes
    /// as reading is allowed: a terminal must not make a run stricter about reads than none.
    fn may_do(&self, reads: bool) -> May {
        match (self.policy, reads) {
            (Policy::AllowAll, _) | (Policy::AllowReads | Policy::Ask, true) => May::Do,
            (Policy::Ask, false) => May::Ask,
            (Policy::Deny, _) | (Policy::AllowReads, false) => May::Not,
        }
    }
}

impl super::Terms {
    /// The rule by which a question is asked or decided, in words.
    fn rule(&self, ask: &Ask) -> String {
        match ask.tool().filter(|_| ask.each_time) {
            Some(tool) => format!("{tool} always needs an answer"),
            None => format!("--permission {}", self.policy.word()),
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

    /// The relayed tool that is called.
    fn tool(&self) -> Option<&str> {
        match &self.about {
            About::Relayed(call) | About::Approval(call) => Some(&call.tool),
            About::Native(_) => None,
        }
    }

    pub fn tool_call_id(&self) -> Option<&str> {
        match &self.about {
            About::Relayed(call) | About::Approval(call) => Some(&call.tool_call_id),
            About::Native(question) => question.tool_call_id.as_deref(),
        }
    }

    /// What is asked for, in full as far as it fits.
    pub fn request(&self) -> Option<PermissionRequest> {
        match &self.about {
            About::Relayed(call) => Some(PermissionRequest {
                tool: Some(call.tool.clone()),
                input: Some(call.args.clone()).filter(|args| !args.is_null()),
                ..PermissionRequest::default()
            }),
            About::Approval(_) => None,
            About::Native(question) => {
                let content = PermissionRequest::clone(&question.content);
                Some(content).filter(|content| *content != PermissionRequest::default())
            }
        }
        .map(PermissionRequest::bounded)
    }

    /// What the answer `always` allows for the rest of the run, where it is an answer.
    pub fn always(&self) -> Option<String> {
        Grant::of(self).map(|grant| grant.words())
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
    /// The grant that covers a question, in words.
    fn granted(&self, ask: &Ask) -> Option<String> {
        let grant = Grant::of(ask)?;
        self.grants.contains(&grant).then(|| format!("allowed before: {}", grant.words()))
    }

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
        let granted = self.asks.granted(&ask);
        let may = if granted.is_some() { May::Do } else { May::Ask };
        self.open_question(now, ask, may, granted, out);
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
        let granted = self.asks.granted(&ask).filter(|_| may == May::Ask);
        let may = if granted.is_some() { May::Do } else { may };
        self.open_question(now, ask, may, granted, out);
    }

    /// Tells a question, and its decision where no person is needed.
    fn open_question(
        &mut self,
        now: Now,
        ask: Ask,
        may: May,
        granted: Option<String>,
        out: &mut Vec<Step>,
    ) {
        let ask_ms = i64::try_from(self.terms.ask_ms).unwrap_or(i64::MAX);
        let waits = Some(now.wall.plus_ms(ask_ms)).filter(|_| may == May::Ask);
        let rule = granted.unwrap_or_else(|| self.terms.rule(&ask));
        out.push(Step::Append(Draft::ostler(question_event(&ask, &rule, waits))));
        match may {
            May::Ask => self.asks.open.push(ask),
            May::Do => self.settle_question(now, ask, true, (DecidedBy::Policy, Some(rule)), out),
            May::Not => self.settle_question(now, ask, false, (DecidedBy::Policy, Some(rule)), out),
        }
    }

    /// The agent no longer waits for an answer.
    pub(super) fn drop_question(&mut self, request: &str, out: &mut Vec<Step>) {
        let open = std::mem::take(&mut self.asks.open);
        for ask in open {
            match &ask.about {
                About::Native(question) if question.request == request => {
                    out.push(Step::Append(Draft::ostler(cancelled(&ask))));
                }
                About::Native(_) | About::Relayed(_) | About::Approval(_) => {
                    self.asks.open.push(ask);
                }
            }
        }
    }

    /// A person answered.
    pub(super) fn decide(&mut self, now: Now, answer: Answer, out: &mut Vec<Step>) {
        let Answer { ask_id, option, by, reason } = answer;
        let Some(ask) = self.asks.open.iter().find(|ask| ask.ask_id == ask_id) else {
            let particulars = format!("no approval {ask_id} is waiting in this run");
            out.push(Step::Append(complaint(Code::NotFound, Some(&particulars), None, None)));
            return;
        };
        let grant = Grant::of(ask).filter(|_| option == ALWAYS);
        let meant = match grant {
            Some(_) => narrowest(&ask.options(), ALLOWING),
            None => ask.meant(&option),
        };
        let Some(meant) = meant else {
            let option: String = option.chars().take(40).collect();
            let ids: Vec<_> = ask.options().into_iter().map(|option| option.id).collect();
            let particulars =
                format!("'{option}' is not a valid answer to {ask_id}: use {}", ids.join(" or "));
            out.push(Step::Append(complaint(Code::Usage, Some(&particulars), None, None)));
            return;
        };
        let Some(ask) = self.asks.take(ask_id) else { return };
        let rule = grant.as_ref().map(Grant::words);
        let reason = reason.map(|mut reason| {
            reason.truncate(reason.floor_char_boundary(DENIAL_REASON_BYTES_MAX));
            reason
        });
        let decider = Decider { by: DecidedBy::Person, person: by, rule, reason };
        self.carry_out(now, ask, meant, decider, out);
        if let Some(grant) = grant {
            self.grant(now, grant, out);
        }
    }

    /// Remembers a grant, and answers by it what is open already.
    fn grant(&mut self, now: Now, grant: Grant, out: &mut Vec<Step>) {
        if self.asks.grants.len() >= RUN_GRANTS_MAX || self.asks.grants.contains(&grant) {
            return;
        }
        self.asks.grants.push(grant);
        for ask in std::mem::take(&mut self.asks.open) {
            match self.asks.granted(&ask) {
                Some(rule) => {
                    self.settle_question(now, ask, true, (DecidedBy::Policy, Some(rule)), out);
                }
                None => self.asks.open.push(ask),
            }
        }
    }

    /// Questions whose time is up are denied.
    pub(super) fn deny_overdue(&mut self, now: Now, out: &mut Vec<Step>) {
        let (due, open) = std::mem::take(&mut self.asks.open)
            .into_iter()
            .partition(|ask: &Ask| ask.deadline_ms <= now.mono_ms);
        self.asks.open = open;
        for ask in due {
            self.settle_question(now, ask, false, (DecidedBy::Timeout, None), out);
        }
    }

    /// The caller of a relayed tool has gone: a question about that call is withdrawn, so that a later
    /// answer does nothing. A call that is being carried out is not affected.
    pub(super) fn withdraw_call(&mut self, now: Now, tool_call_id: &str, out: &mut Vec<Step>) {
        let is_of_call = |ask: &Ask| match &ask.about {
            About::Relayed(call) | About::Approval(call) => call.tool_call_id == tool_call_id,
            About::Native(_) => false,
        };
        let Some(place) = self.asks.open.iter().position(is_of_call) else { return };
        let ask = self.asks.open.remove(place);
        self.withdraw(ask, out);
        let message = "the caller left before a person answered".to_owned();
        let answer = ToolAnswer::Error { code: Code::Cancelled, message };
        self.answer(now, tool_call_id.to_owned(), answer, 0, out);
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
        out.push(Step::Append(Draft::ostler(cancelled(&ask))));
        match ask.about {
            About::Native(question) if self.stdin == Stdin::Open => {
                let request = question.request;
                out.push(Step::Do(Effect::Say(Utterance::Decide {
                    request,
                    option: None,
                    reason: None,
                })));
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
        self.refuse_because(now, tool_call_id, code, None, out);
    }

    /// The same, with the reason that a person gave.
    fn refuse_because(
        &mut self,
        now: Now,
        tool_call_id: String,
        code: Code,
        reason: Option<&str>,
        out: &mut Vec<Step>,
    ) {
        if matches!(code, Code::PermissionDenied | Code::PermissionUnanswered) {
            self.count_denial(Some(&tool_call_id));
        }
        let message = match reason {
            Some(reason) => format!("{}: {reason}", code.row().message),
            None => code.row().message.to_owned(),
        };
        self.answer(now, tool_call_id, ToolAnswer::Error { code, message }, 0, out);
    }

    fn question(&mut self, now: Now, about: About) -> Ask {
        let ask_id = self.terms.ask_id(self.asks.asked);
        self.asks.asked += 1;
        let deadline_ms = now.mono_ms.saturating_add(self.terms.ask_ms);
        let mut ask = Ask { ask_id, about, deadline_ms, each_time: false };
        ask.each_time = ask.tool().is_some_and(|tool| super::tools::offers(&self.terms.asks, tool));
        ask
    }

    /// Decides by the narrowest option that fits. An agent that offers none is told that nobody
    /// chose; if it was to be allowed, the run cannot go on as its policy says, and ends at once.
    fn settle_question(
        &mut self,
        now: Now,
        ask: Ask,
        allowed: bool,
        (by, rule): (DecidedBy, Option<String>),
        out: &mut Vec<Step>,
    ) {
        let kinds = if allowed { ALLOWING } else { REJECTING };
        match narrowest(&ask.options(), kinds) {
            Some(option) => {
                let decider = Decider { by, person: None, rule, reason: None };
                self.carry_out(now, ask, option, decider, out);
            }
            None => {
                if !allowed {
                    self.count_denial(ask.tool_call_id());
                }
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
        decider: Decider,
        out: &mut Vec<Step>,
    ) {
        let by = decider.by;
        let allowed = ALLOWING.contains(&option.kind.as_str());
        let decision = if allowed { Decision::Allow } else { Decision::Deny };
        let reason = decider.reason.clone().filter(|_| !allowed);
        if !allowed && !matches!(ask.about, About::Approval(_)) {
            self.count_denial(ask.tool_call_id());
        }
        let event = decision_event(&ask, decision, Some(&option.id), Some(decider));
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
                self.refuse_because(now, call.tool_call_id, code, reason.as_deref(), out);
            }
            (About::Approval(call), _) => {
                let mut answer = json!({
                    "decision": decision,
                    "option": option.id,
                    "decided_by": by,
                });
                if let Some(reason) = reason {
                    answer["reason"] = json!(reason);
                }
                self.answer(now, call.tool_call_id, ToolAnswer::Value(answer), 0, out);
            }
            (About::Native(question), _) => {
                let (request, option) = (question.request, Some(option.id));
                out.push(Step::Do(Effect::Say(Utterance::Decide { request, option, reason })));
            }
        }
    }
}

/// The decider of a question, and on what grounds.
struct Decider {
    by: DecidedBy,
    person: Option<String>,
    /// The rule by which it was decided, or that the person gave.
    rule: Option<String>,
    reason: Option<String>,
}

fn narrowest(options: &[PermissionOption], kinds: [&str; 2]) -> Option<PermissionOption> {
    kinds.iter().find_map(|kind| options.iter().find(|option| option.kind == *kind)).cloned()
}

fn own_option((id, kind, name): (&str, &str, &str)) -> PermissionOption {
    PermissionOption { id: id.to_owned(), kind: kind.to_owned(), name: name.to_owned() }
}

/// The event of a question. `until` is absent when the policy decides it at once.
fn question_event(ask: &Ask, rule: &str, until: Option<Timestamp>) -> Body {
    Body::Permission(Permission {
        request: ask.request().map(Box::new),
        always: ask.always().filter(|_| until.is_some()),
        rule: Some(rule.to_owned()),
        until,
        ..bare(ask)
    })
}

fn decision_event(
    ask: &Ask,
    decision: Decision,
    option: Option<&str>,
    decider: Option<Decider>,
) -> Body {
    let bare =
        Permission { decision: Some(decision), option: option.map(str::to_owned), ..bare(ask) };
    Body::Permission(match decider {
        None => bare,
        Some(Decider { by, person, rule, reason }) => {
            Permission { decided_by: Some(by), by: person, rule, reason, ..bare }
        }
    })
}

fn cancelled(ask: &Ask) -> Body {
    decision_event(ask, Decision::Cancelled, None, None)
}

/// What a question and its decision have in common.
fn bare(ask: &Ask) -> Permission {
    Permission {
        ask_id: ask.ask_id,
        tool_call_id: ask.tool_call_id().map(str::to_owned),
        title: ask.title(),
        request: None,
        options: ask.options(),
        always: None,
        rule: None,
        until: None,
        decision: None,
        option: None,
        decided_by: None,
        by: None,
        reason: None,
    }
}
