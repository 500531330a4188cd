//! Writes steps the way scripts spell them: short, and complete where a rule decides the value.

use contract::event::{Body, Remaining, RunResult};
use contract::speech::{Draft, ToolAnswer, Utterance};
use engine::{Booked, Covers, Effect, Step};
use serde::Serialize;
use serde_json::Value;

pub fn step(step: &Step) -> String {
    match step {
        Step::Append(draft) => format!("append {}", draft_line(draft)),
        Step::Book(booked) => format!("book {}", booked_line(booked)),
        Step::KeepSession(id) => format!("keep session {id}"),
        Step::Do(effect) => format!("do {}", effect_line(effect)),
    }
}

fn booked_line(booked: &Booked) -> String {
    let model = if booked.model.is_empty() { "-" } else { &booked.model };
    let paid = match (booked.nanousd, booked.unpriced) {
        (Some(amount), false) => format!("{} usd", amount.usd()),
        (None, true) => "unpriced".to_owned(),
        (None, false) if booked.replaces != Covers::Nothing => "nothing".to_owned(),
        odd => panic!("either a price or none: {odd:?}"),
    };
    let covers = match booked.covers {
        Covers::Nothing => "",
        Covers::Model => ", for all of the model",
        Covers::Run => ", for all of the run",
    };
    let approximate = if booked.approximate { ", approximate" } else { "" };
    let replaces = match booked.replaces {
        Covers::Nothing => "",
        Covers::Model => ", in place of approximate figures of the model",
        Covers::Run => ", in place of all approximate figures",
    };
    let tokens = booked.tokens.total();
    format!("{model}({tokens} tokens, {paid}{covers}{approximate}{replaces})")
}

fn draft_line(draft: &Draft) -> String {
    let parts = match &draft.body {
        Body::Lease(lease) => {
            let expires = lease.expires_at.map(|at| format!("until {at}"));
            [Some(word(&lease.action)), expires].into_iter().flatten().collect()
        }
        Body::Lifecycle(lifecycle) => [
            Some(word(&lifecycle.phase)),
            lifecycle.why.clone(),
            lifecycle.pid.map(|pid| format!("pid {pid}")),
            lifecycle.isolation.clone(),
        ]
        .into_iter()
        .flatten()
        .collect(),
        Body::ToolResult(result) => {
            let denied = result.denied.map(|denied| format!("denied {denied}"));
            let took = result.duration_ms.map(|ms| format!("{ms} ms"));
            let known = [
                Some(result.tool_call_id.clone()),
                Some(word(&result.status)),
                Some(result.output.to_string()),
                denied,
                took,
            ];
            known.into_iter().flatten().collect()
        }
        Body::Budget(budget) => {
            vec![budget.scope.clone(), word(&budget.level), remaining(&budget.remaining)]
        }
        Body::Error(error) => {
            let detail = error.detail.as_ref().map(|detail| format!("detail {detail:?}"));
            let head = Some(format!("{}: {}", error.code, error.message));
            let retry = error.retry_at.map(|at| format!("retry at {at}"));
            [head, retry, detail].into_iter().flatten().collect()
        }
        Body::Permission(asked) => {
            let number = asked.ask_id.uuid().as_u128();
            let decision = asked.decision.map(|decision| word(&decision));
            let by = asked.decided_by.map(|by| format!("by {}", word(&by)));
            let head = [Some(format!("ask {number}")), asked.tool_call_id.clone()];
            let title = Some(format!("{:?}", asked.title));
            // A policy is the rule of nearly every question; what a person said is told.
            let rule = asked.rule.as_ref().filter(|rule| !rule.starts_with("--permission"));
            let rule = rule.map(|rule| format!("rule {rule:?}"));
            // That a tool of ours can be allowed for the whole run is so in every script.
            let always = asked.always.as_ref().filter(|always| !always.starts_with("every use"));
            let always = always.map(|always| format!("always {always:?}"));
            let reason = asked.reason.as_ref().map(|reason| format!("reason {reason:?}"));
            let rest = [title, decision, by, rule, always, reason];
            head.into_iter().chain(rest).flatten().collect()
        }
        Body::Result(result) => result_parts(result),
        Body::UserText(text) => vec![format!("{:?}", text.text)],
        Body::Log(log) => vec![word(&log.stream), format!("{:?}", log.text)],
        other => vec![serde_json::to_string(other).unwrap()],
    };
    let by = match draft.origin.word() {
        "ostler" => String::new(),
        other => format!(" by {other}"),
    };
    format!("{}({}){by}", draft.body.kind(), parts.join(", "))
}

fn result_parts(result: &RunResult) -> Vec<String> {
    let RunResult { outcome, code, message, text, output, exit_code, signal, .. } = result;
    let evidence = &result.evidence;
    let head = match code {
        Some(code) => format!("{}/{code}", outcome.word()),
        None => outcome.word().to_owned(),
    };
    let money = match result.totals.effective_nanousd {
        Some(amount) => format!("{} usd", amount.usd()),
        None => "unpriced".to_owned(),
    };
    let tokens = result.totals.tokens.total();
    [
        Some(head),
        message.as_ref().map(|message| format!("{message:?}")),
        text.as_ref().map(|text| format!("text {text:?}")),
        output.as_ref().map(|output| format!("output {output}")),
        exit_code.map(|code| format!("exit {code}")),
        signal.map(|signal| format!("signal {signal}")),
        Some(format!("{} ms", result.duration_ms)),
        (tokens > 0 || result.totals.effective_nanousd.is_some())
            .then(|| format!("{tokens} tokens, {money}")),
        Some(format!("evidence {}", word(&evidence.end))),
        (result.denials > 0).then(|| format!("denials {}", result.denials)),
        evidence.salvaged.map(|salvaged| format!("salvaged {salvaged}")),
        evidence.stopped_by.as_ref().map(|by| format!("stopped by {by}")),
        evidence.forced.map(|forced| format!("forced {forced}")),
        evidence.note.as_ref().map(|note| format!("note {note:?}")),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn effect_line(effect: &Effect) -> String {
    match effect {
        Effect::Launch => "launch".to_owned(),
        Effect::Relaunch => "relaunch".to_owned(),
        Effect::Say(utterance) => format!("say {}", utterance_line(utterance)),
        Effect::Reply => "reply".to_owned(),
        Effect::CloseStdin => "close stdin".to_owned(),
        Effect::Stop { reason, farewell_ms, term_ms } => {
            format!("stop({reason}, farewell {farewell_ms} ms, term {term_ms} ms)")
        }
        Effect::Relay(call) => format!("relay({}, {})", call.tool_call_id, call.tool),
        Effect::Settle => "settle".to_owned(),
    }
}

fn utterance_line(utterance: &Utterance) -> String {
    match utterance {
        Utterance::ToolResult { tool_call_id, answer } => match answer {
            ToolAnswer::Value(value) => format!("tool_result({tool_call_id}, {value})"),
            ToolAnswer::Error { code, .. } => format!("tool_result({tool_call_id}, {code})"),
        },
        Utterance::BudgetUpdate { remaining: left } => {
            format!("budget_update({})", remaining(left))
        }
        Utterance::Decide { request, option, reason } => {
            let reason = reason.as_ref().map(|reason| format!(", {reason:?}")).unwrap_or_default();
            format!("decide({request}, {}{reason})", option.as_deref().unwrap_or("nothing"))
        }
        Utterance::Message { text } => format!("message({text:?})"),
        Utterance::Interrupt => "interrupt".to_owned(),
        Utterance::Shutdown { reason } => format!("shutdown({reason})"),
    }
}

fn remaining(remaining: &Remaining) -> String {
    let parts: Vec<_> = [
        remaining.nanousd.map(|amount| format!("{} usd left", amount.usd())),
        remaining.tokens.map(|tokens| format!("{tokens} tokens left")),
        remaining.turns.map(|turns| format!("{turns} turns left")),
        remaining.ms.map(|ms| format!("{ms} ms left")),
    ]
    .into_iter()
    .flatten()
    .collect();
    parts.join(", ")
}

/// The word that a value has on the wire.
fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        other => panic!("not a word: {other:?}"),
    }
}
