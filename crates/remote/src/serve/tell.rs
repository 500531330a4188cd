//! The events of a run as lines of the process protocol, so that the caller's run shows what ours
//! shows. What the protocol has a type for goes by it; what an agent may state goes as `event`; what
//! is ours alone (leases, budgets, the life of our process, answers that the caller gave itself) is
//! not told, because the caller's run has its own. A line depends on its event and on nothing else.

use contract::event::{
    Body, Decision, Error, Event, Origin, Outcome, Permission, RunResult, Stream, Usage, Via,
};
use contract::money::CostSource;
use contract::speech::ACCEPTS;
use contract::{Code, event};
use serde_json::{Value, json};

/// The line of an event; `None` for what is not told.
pub fn line(event: &Event) -> Option<Value> {
    let by_agent = event.origin == Origin::Agent;
    match &event.body {
        Body::Session(_)
        | Body::Turn(_)
        | Body::AssistantText(_)
        | Body::Thinking(_)
        | Body::ToolUpdate(_)
        | Body::Plan(_)
        | Body::Diff(_)
        | Body::Quota(_) => Some(stated(&event.body)),
        // What the operator said was said by the caller.
        Body::UserText(_) => by_agent.then(|| stated(&event.body)),
        Body::ToolUse(call) => Some(match call.via {
            Via::Native => stated(&event.body),
            Via::Relayed => json!({
                "type": "tool_call",
                "id": call.tool_call_id,
                "tool": call.name,
                "args": call.input,
            }),
        }),
        // The answer of a relayed call is the caller's own.
        Body::ToolResult(_) => by_agent.then(|| stated(&event.body)),
        Body::Progress(progress) => Some(json!({
            "type": "progress",
            "summary": progress.summary,
            "beliefs": progress.beliefs,
            "attempted": progress.attempted,
        })),
        Body::Comment(comment) => Some(
            json!({ "type": "comment", "text": comment.text, "mentions": comment.mentions }),
        ),
        Body::Usage(usage) => Some(stated(&Body::Usage(spent(usage)))),
        Body::Log(log) => logged(log, event),
        Body::Error(error) => trouble(error, by_agent),
        Body::Permission(permission) => asked(permission),
        Body::Result(result) => Some(ended(result)),
        Body::Budget(_) | Body::Lease(_) | Body::Lifecycle(_) => None,
    }
}

/// An event that an agent may state itself.
fn stated(body: &Body) -> Value {
    json!({ "type": "event", "event": body })
}

fn note(level: &str, text: String) -> Option<Value> {
    let log = event::Log { stream: Stream::Stdout, text, level: Some(level.to_owned()) };
    Some(stated(&Body::Log(log)))
}

/// What was spent, as the agent said it. Dollars are told where they are the agent's own or a price
/// of this side's owner; what is only in the built-in table is priced by the caller, who has its own.
fn spent(usage: &Usage) -> Usage {
    let ours = match usage.cost_source {
        CostSource::Runtime | CostSource::Direct | CostSource::UserTable => true,
        CostSource::BuiltIn | CostSource::Unpriced => false,
    };
    Usage {
        reported_nanousd: usage.reported_nanousd.filter(|_| {
            matches!(usage.cost_source, CostSource::Runtime | CostSource::Direct)
        }),
        effective_nanousd: usage.effective_nanousd.filter(|_| ours),
        computed_nanousd: None,
        price_version: None,
        approximate: None,
        ..usage.clone()
    }
}

/// A line of the agent that meant nothing, or a note about one; other notes are for this side.
fn logged(log: &event::Log, event: &Event) -> Option<Value> {
    let ours = event.origin != Origin::Agent;
    if ours && log.level.as_deref() == Some(ACCEPTS) {
        let accepts: Vec<&str> = log.text.split_whitespace().collect();
        return Some(json!({ "type": "hello", "accepts": accepts }));
    }
    (!ours || event.raw.is_some()).then(|| stated(&event.body))
}

/// An error on the way. The protocol has no word for it but the last one, which tells it again.
fn trouble(error: &Error, by_agent: bool) -> Option<Value> {
    let told_at_the_end = by_agent && matches!(error.code, Code::AgentFailed | Code::BudgetExceeded);
    if told_at_the_end {
        return None;
    }
    let detail = error.detail.as_deref().map(|detail| format!("\n{detail}")).unwrap_or_default();
    note("error", format!("{}: {}{detail}", error.code, error.message))
}

/// A question that this side's policy, or a person there, decides.
fn asked(permission: &Permission) -> Option<Value> {
    let decision = match permission.decision {
        None => "asked",
        Some(Decision::Allow) => "allowed",
        Some(Decision::Deny) => "denied",
        Some(Decision::Cancelled) => "withdrawn",
    };
    note("permission", format!("{decision}: {}", permission.title))
}

/// The end, in the one word that the protocol has for it.
fn ended(result: &RunResult) -> Value {
    if result.outcome == Outcome::Succeeded {
        let mut line = json!({ "type": "complete" });
        if let Some(output) = &result.output {
            line["output"] = output.clone();
        }
        if let Some(text) = &result.text {
            line["text"] = text.as_str().into();
        }
        return line;
    }
    let code = result.code.unwrap_or(Code::AgentFailed);
    let message = result.message.as_deref().unwrap_or_default();
    let said = message.strip_prefix(code.row().message).and_then(|rest| rest.strip_prefix(": "));
    match (code, said) {
        (Code::AgentFailed, Some(said)) => json!({ "type": "failed", "reason": said, "code": code }),
        (Code::BudgetExceeded, said) => {
            json!({ "type": "failed", "reason": code, "details": said, "code": code })
        }
        (_, _) => json!({ "type": "failed", "reason": code, "details": message, "code": code }),
    }
}
