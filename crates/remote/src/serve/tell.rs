//! The events of a run as lines of the process protocol, so that the caller's run shows what ours
//! shows. What the protocol has a type for goes by it; what an agent may state goes as `event`; what
//! is ours alone (leases, budgets, the life of our process, answers that the caller gave itself) is
//! not told, because the caller's run has its own. A line depends on its event and on nothing else.

use contract::Code;
use contract::event::{
    self, Body, Decision, Error, Event, Origin, Outcome, Permission, RunResult, Stream, Usage, Via,
};
use contract::money::CostSource;
use contract::speech::ACCEPTS;
use serde::Serialize;
use serde_json::Value;

/// A line as the caller reads it: its type comes first.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line<'a> {
    Hello {
        accepts: Vec<&'a str>,
    },
    Event {
        event: &'a Body,
    },
    /// An event that is not as it was stored.
    #[serde(rename = "event")]
    Changed {
        event: Box<Body>,
    },
    ToolCall {
        id: &'a str,
        tool: &'a str,
        args: &'a Value,
    },
    Progress(&'a event::Progress),
    Comment(&'a event::Comment),
    Complete {
        #[serde(skip_serializing_if = "Option::is_none")]
        output: Option<&'a Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<&'a str>,
    },
    Failed {
        reason: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        details: Option<&'a str>,
        code: Code,
    },
}

impl Line<'_> {
    /// The line without an end, as JSON. Keys are texts and numbers finite, so it always is.
    pub fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// The line of an event; `None` for what is not told.
pub fn line(event: &Event) -> Option<Line<'_>> {
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
            Via::Relayed => {
                Line::ToolCall { id: &call.tool_call_id, tool: &call.name, args: &call.input }
            }
        }),
        // The answer of a relayed call is the caller's own.
        Body::ToolResult(_) => by_agent.then(|| stated(&event.body)),
        Body::Progress(progress) => Some(Line::Progress(progress)),
        Body::Comment(comment) => Some(Line::Comment(comment)),
        Body::Usage(usage) => Some(Line::Changed { event: Box::new(Body::Usage(spent(usage))) }),
        Body::Log(log) => logged(log, event),
        Body::Error(error) => trouble(error, by_agent),
        Body::Permission(permission) => asked(permission),
        Body::Result(result) => Some(ended(result)),
        // Only the reader of a newer version knows what it is.
        Body::Unknown(_) => None,
        Body::Budget(_) | Body::Lease(_) | Body::Lifecycle(_) => None,
    }
}

/// An event that an agent may state itself.
fn stated(body: &Body) -> Line<'_> {
    Line::Event { event: body }
}

fn note(level: &str, text: String) -> Option<Line<'static>> {
    let log = event::Log { stream: Stream::Stdout, text, level: Some(level.to_owned()) };
    Some(Line::Changed { event: Box::new(Body::Log(log)) })
}

/// What was spent, as the agent said it. Dollars are told where they are the agent's own or a price
/// of this side's owner; what is only in the built-in table is priced by the caller, who has its own.
fn spent(usage: &Usage) -> Usage {
    let ours = match usage.cost_source {
        CostSource::Runtime | CostSource::Direct | CostSource::UserTable => true,
        CostSource::BuiltIn | CostSource::Unpriced => false,
    };
    Usage {
        reported_nanousd: usage
            .reported_nanousd
            .filter(|_| matches!(usage.cost_source, CostSource::Runtime | CostSource::Direct)),
        effective_nanousd: usage.effective_nanousd.filter(|_| ours),
        computed_nanousd: None,
        price_version: None,
        ..usage.clone()
    }
}

/// A line of the agent that meant nothing, or a note about one; other notes are for this side.
fn logged<'a>(log: &'a event::Log, event: &'a Event) -> Option<Line<'a>> {
    let ours = event.origin != Origin::Agent;
    if ours && log.level.as_deref() == Some(ACCEPTS) {
        return Some(Line::Hello { accepts: log.text.split_whitespace().collect() });
    }
    (!ours || event.raw.is_some()).then(|| stated(&event.body))
}

/// An error on the way. The protocol has no word for it but the last one, which tells it again.
fn trouble(error: &Error, by_agent: bool) -> Option<Line<'static>> {
    let told_at_the_end =
        by_agent && matches!(error.code, Code::AgentFailed | Code::BudgetExceeded);
    if told_at_the_end {
        return None;
    }
    let detail = error.detail.as_deref().map(|detail| format!("\n{detail}")).unwrap_or_default();
    note("error", format!("{}: {}{detail}", error.code, error.message))
}

/// A question that this side's policy, or a person there, decides.
fn asked(permission: &Permission) -> Option<Line<'static>> {
    let decision = match permission.decision {
        None => "asked",
        Some(Decision::Allow) => "allowed",
        Some(Decision::Deny) => "denied",
        Some(Decision::Cancelled) => "withdrawn",
    };
    note("permission", format!("{decision}: {}", permission.title))
}

/// The end, in the one word that the protocol has for it. The code is told beside the reason, for
/// callers that know our table.
fn ended(result: &RunResult) -> Line<'_> {
    if result.outcome == Outcome::Succeeded {
        return Line::Complete { output: result.output.as_ref(), text: result.text.as_deref() };
    }
    let code = result.code.unwrap_or(Code::AgentFailed);
    let message = result.message.as_deref();
    let said = message
        .and_then(|message| message.strip_prefix(code.row().message))
        .and_then(|rest| rest.strip_prefix(": "));
    let (reason, details) = match (code, said) {
        (Code::AgentFailed, Some(said)) => (said, None),
        // Its table's own words are said by the caller, who knows this reason.
        (Code::BudgetExceeded, said) => (code.word(), said),
        (_, _) => (code.word(), message),
    };
    Line::Failed { reason, details, code }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// An event of this origin with these fields of its kind.
    fn event(origin: &str, fields: Value) -> Event {
        let mut event = json!({
            "v": 1, "run_id": "run_01900000000070008000000000000007", "seq": 1,
            "ts": "2026-11-16T00:00:00.000Z", "attempt": 1, "fence": 1, "origin": origin,
        });
        let Value::Object(fields) = fields else { panic!("fields are an object") };
        event.as_object_mut().unwrap().extend(fields);
        serde_json::from_value(event).unwrap()
    }

    #[test]
    fn each_event_is_told_as_its_row_says() {
        let result = |more: Value| {
            let mut fields = json!({
                "kind": "result", "outcome": "failed", "duration_ms": 1,
                "totals": { "tokens": { "input_uncached": 0, "cache_read": 0, "cache_write": 0, "output": 0 } },
                "evidence": { "end": "explicit" },
            });
            fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            fields
        };
        let usage = |source: &str| {
            json!({ "kind": "usage", "model": "m", "cost_source": source, "reported_nanousd": 5,
                    "computed_nanousd": 4, "effective_nanousd": 6, "price_version": "v" })
        };
        let rows = [
            (
                "agent",
                json!({ "kind": "assistant_text", "text": "a\nb", "block": "1", "delta": true }),
            ),
            ("agent", json!({ "kind": "user_text", "text": "u" })),
            ("operator", json!({ "kind": "user_text", "text": "u" })),
            (
                "agent",
                json!({ "kind": "tool_use", "tool_call_id": "1", "name": "sh", "input": {"a": 1} }),
            ),
            (
                "agent",
                json!({ "kind": "tool_use", "tool_call_id": "1", "name": "read_file", "input": {"path": "x"}, "via": "relayed" }),
            ),
            (
                "agent",
                json!({ "kind": "tool_result", "tool_call_id": "1", "status": "ok", "output": "o" }),
            ),
            (
                "ostler",
                json!({ "kind": "tool_result", "tool_call_id": "1", "status": "ok", "output": "o" }),
            ),
            ("agent", json!({ "kind": "progress", "summary": "s", "beliefs": ["b"] })),
            ("agent", json!({ "kind": "comment", "text": "c", "mentions": ["@x"] })),
            ("agent", usage("direct")),
            ("agent", usage("runtime")),
            ("agent", usage("user_table")),
            ("agent", usage("built_in")),
            ("agent", json!({ "kind": "usage", "basis": "run_total", "effective_nanousd": null })),
            ("agent", json!({ "kind": "log", "stream": "stderr", "text": "l" })),
            (
                "ostler",
                json!({ "kind": "log", "stream": "ostler", "text": "for this side", "level": "warning" }),
            ),
            (
                "ostler",
                json!({ "kind": "log", "stream": "ostler", "text": "of a line", "level": "warning", "raw": { "stream": "stdout", "line": 2 } }),
            ),
            (
                "ostler",
                json!({ "kind": "log", "stream": "ostler", "text": "message interrupt", "level": "accepts" }),
            ),
            (
                "ostler",
                json!({ "kind": "log", "stream": "ostler", "text": "", "level": "accepts" }),
            ),
            (
                "agent",
                json!({ "kind": "log", "stream": "stdout", "text": "message", "level": "accepts" }),
            ),
            (
                "agent",
                json!({ "kind": "error", "code": "rate_limited", "message": "slow down", "retryable": true, "detail": "d" }),
            ),
            (
                "agent",
                json!({ "kind": "error", "code": "agent_failed", "message": "m", "retryable": false }),
            ),
            (
                "ostler",
                json!({ "kind": "permission", "ask_id": "ask_01900000000070008000000000000007", "title": "run rm", "options": [], "decision": "allow" }),
            ),
            ("ostler", json!({ "kind": "lease", "action": "released" })),
            ("ostler", json!({ "kind": "lifecycle", "phase": "running", "pid": 7 })),
            (
                "ostler",
                json!({ "kind": "budget", "scope": "run", "level": "soft", "remaining": {} }),
            ),
            (
                "ostler",
                result(json!({ "outcome": "succeeded", "text": "t", "output": { "text": "t" } })),
            ),
            ("ostler", result(json!({ "outcome": "succeeded" }))),
            (
                "ostler",
                result(
                    json!({ "code": "agent_failed", "message": "the agent reported a failure: no: way" }),
                ),
            ),
            (
                "ostler",
                result(
                    json!({ "code": "budget_exceeded", "message": "the budget is used up: the limit is 1 usd" }),
                ),
            ),
            (
                "ostler",
                result(
                    json!({ "code": "process_crashed", "message": "the agent's process ended with an error: exit code 3" }),
                ),
            ),
        ];
        let mut shown = String::new();
        for (origin, fields) in rows {
            let event = event(origin, fields.clone());
            let told = line(&event).map(|line| String::from_utf8(line.bytes()).unwrap());
            let told = told.unwrap_or_else(|| "not told".to_owned());
            shown.push_str(&format!("{origin} {fields}\n    {told}\n"));
        }
        insta::assert_snapshot!(shown);
    }
}
