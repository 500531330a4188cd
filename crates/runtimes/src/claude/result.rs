//! What a `result` line means: whether the turn went well, what it cost, and what the trouble was.
//! The line says `subtype: "success"` over most troubles, so `is_error`, the terminal reason and the
//! status decide. Its dollars and tokens are those of every model that was used, sub-agents and side
//! calls included. A pure reading of one line; drafts and signals are made in `ear.rs`.

use super::wire::{Line, ModelSpent, TurnSpent};
use crate::provider;
use contract::event::{StopReason, Usage};
use contract::money::{Basis, CostSource};
use contract::{Billing, Code, NanoUsd, Timestamp, Tokens};
use serde_json::Value;

/// The terminal reason of a turn that went to its end.
const COMPLETED: &str = "completed";

/// What the agent prints when it does not know the conversation that it was to take up.
const UNKNOWN_SESSION: &[&str] = &[
    "no conversation found",
    "no session found",
    "session not found",
    "unknown session",
    "not a valid uuid",
    "requires a valid session id",
];

/// What is said of a turn that neither said nor did anything.
const NOTHING_DONE: &str = "the agent said success, but neither said nor did anything";

/// Whether these words say that the conversation is not known.
pub(super) fn names_unknown_session(text: &str) -> bool {
    let text = text.to_lowercase();
    UNKNOWN_SESSION.iter().any(|words| text.contains(words))
}

/// How a turn ended.
#[derive(Debug, PartialEq)]
pub(super) struct Verdict {
    /// `None` is success.
    pub code: Option<Code>,
    pub stop: StopReason,
    /// What the agent said of the trouble.
    pub detail: Option<String>,
}

/// Judges a turn; `acted` says that something was said or done in it.
pub(super) fn judge(line: &Line, acted: bool) -> Verdict {
    let said = words(line);
    let code = trouble(line, &said);
    let (code, detail) = match code {
        Some(code) => (Some(code), Some(said).filter(|said| !said.is_empty())),
        None if acted || !said.is_empty() => (None, None),
        None => (Some(Code::EndedWithoutResult), Some(NOTHING_DONE.to_owned())),
    };
    let cut = line.api_error.as_deref() == Some("max_output_tokens");
    let stop = match code {
        None => StopReason::EndTurn,
        Some(_) if cut => StopReason::MaxTokens,
        Some(Code::ModelRefusal) => StopReason::Refusal,
        Some(Code::Cancelled) => StopReason::Cancelled,
        Some(Code::MaxTurns) => StopReason::MaxTurns,
        Some(_) => StopReason::Error,
    };
    Verdict { code, stop, detail }
}

/// The final text, or the errors where there is none.
fn words(line: &Line) -> String {
    let told = line.result.clone().filter(|text| !text.is_empty());
    let errors = line.errors.iter().flatten().map(|error| match error {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    // Notes of the agent about its own state are for its makers.
    let errors = errors.filter(|error| !error.starts_with("[ede_diagnostic]"));
    told.unwrap_or_else(|| errors.collect::<Vec<_>>().join("\n"))
}

fn trouble(line: &Line, said: &str) -> Option<Code> {
    let ended = line.terminal_reason.as_deref();
    let subtype = line.subtype.as_deref().unwrap_or("success");
    let well = ended.is_none_or(|reason| reason == COMPLETED) && subtype == "success";
    if line.is_error != Some(true) && well {
        return None;
    }
    match (ended, subtype, line.stop_reason.as_deref()) {
        // The limit of its own was reached by the last answer: the work is finished.
        (_, "error_max_budget_usd", Some("end_turn")) => return None,
        (_, _, Some("refusal")) => return Some(Code::ModelRefusal),
        (Some("prompt_too_long"), _, _) => return Some(Code::ContextOverflow),
        (Some("max_turns"), _, _) | (_, "error_max_turns", _) => return Some(Code::MaxTurns),
        (_, "error_max_budget_usd", _) => return Some(Code::BudgetExceeded),
        (Some(reason), _, _) if reason.starts_with("aborted") => return Some(Code::Cancelled),
        _ if names_unknown_session(said) => return Some(Code::NativeSessionUnknown),
        _ => {}
    }
    match line.api_error.as_deref() {
        Some("max_output_tokens") => Some(Code::AnswerCut),
        Some("connection_failed") => Some(Code::UpstreamError),
        _ => Some(of_provider(line, said).unwrap_or(match ended {
            Some("api_error") => Code::UpstreamError,
            _ => Code::AgentFailed,
        })),
    }
}

/// What the provider's answer means, by words and status, where the line tells either.
pub(super) fn of_provider(line: &Line, said: &str) -> Option<Code> {
    provider::of(line.api_error_status, said).or_else(|| {
        line.error.as_ref().and_then(Value::as_str).and_then(|word| match word {
            "authentication_failed" => Some(Code::AuthFailed),
            "billing_error" => Some(Code::Billing),
            "rate_limit" => Some(Code::RateLimited),
            "overloaded" => Some(Code::Overloaded),
            "server_error" => Some(Code::UpstreamError),
            _ => None,
        })
    })
}

/// A moment given in seconds since the epoch.
pub(super) fn at_second(seconds: f64) -> Option<Timestamp> {
    let ms = seconds * 1000.0;
    (ms.is_finite() && ms > 0.0 && ms < 1e15).then_some(Timestamp(ms as i64))
}

/// The dollars of the whole conversation, as the line tells them.
pub(super) fn dollars(line: &Line) -> Option<NanoUsd> {
    line.total_cost_usd.and_then(NanoUsd::from_usd)
}

/// How the account is paid for, by where the agent found its key: a login needs none.
pub(super) fn billing(key_source: &str) -> Option<Billing> {
    match key_source {
        "none" | "oauth" => Some(Billing::Subscription),
        "" => None,
        _ => Some(Billing::Metered),
    }
}

/// What the turn cost, model by model. The vendor's totals of a conversation that was taken up
/// again hold what earlier processes spent, so what was added since the last result is preferred.
///
/// Without figures by model, the turn's tokens and the growth of the total dollars count, for the
/// model of the conversation. The first total of one that was taken up again holds earlier dollars.
pub(super) fn spent(
    line: &Line,
    resumes: bool,
    model: Option<&str>,
    told: Option<NanoUsd>,
) -> Vec<Usage> {
    let tier = line.usage.as_ref().and_then(|usage| usage.service_tier.clone());
    let (models, basis) = match (&line.model_usage_since_last_result, &line.model_usage) {
        (Some(models), _) => (models, Basis::Increment),
        (None, Some(models)) if !resumes => (models, Basis::RunTotal),
        (None, _) => {
            let before = told.or((!resumes).then_some(NanoUsd(0)));
            let paid = dollars(line).zip(before).map(|(now, before)| now.saturating_sub(before));
            let paid = paid.filter(|paid| *paid >= NanoUsd(0));
            let none = TurnSpent::default();
            let turn = line.usage.as_ref().or(paid.map(|_| &none));
            let main = turn.map(|turn| of_turn(turn, line.usage.is_some(), model, paid));
            return main.into_iter().filter(says_something).collect();
        }
    };
    let usages = models.iter().map(|(name, spent)| of_model(name, spent, basis, tier.clone()));
    usages.filter(says_something).collect()
}

fn says_something(usage: &Usage) -> bool {
    let money = usage.reported_nanousd.is_some_and(|paid| paid > NanoUsd(0));
    money || usage.tokens.is_some_and(|tokens| tokens.total() > 0)
}

fn of_model(name: &str, spent: &ModelSpent, basis: Basis, tier: Option<String>) -> Usage {
    let paid = spent.cost_usd.and_then(NanoUsd::from_usd);
    Usage {
        model: Some(name.to_owned()),
        provider: Some(match spent.provider.as_deref() {
            None | Some("firstParty") => "anthropic".to_owned(),
            Some(other) => other.to_owned(),
        }),
        tokens: Some(Tokens {
            input_uncached: spent.input_tokens,
            cache_read: spent.cache_read_input_tokens,
            cache_write: spent.cache_creation_input_tokens,
            output: spent.output_tokens,
            reasoning: spent.thinking_tokens.filter(|tokens| *tokens > 0),
        }),
        basis,
        reported_nanousd: paid,
        effective_nanousd: paid,
        cost_source: if paid.is_some() { CostSource::Runtime } else { CostSource::Unpriced },
        service_tier: tier,
        ..Usage::default()
    }
}

/// What a version without figures by model tells of one turn: tokens of the main model, and dollars
/// of everything.
fn of_turn(
    spent: &TurnSpent,
    has_tokens: bool,
    model: Option<&str>,
    paid: Option<NanoUsd>,
) -> Usage {
    let tokens = Tokens {
        input_uncached: spent.input_tokens,
        cache_read: spent.cache_read_input_tokens,
        cache_write: spent.cache_creation_input_tokens,
        output: spent.output_tokens,
        reasoning: None,
    };
    Usage {
        model: model.map(str::to_owned),
        provider: Some("anthropic".to_owned()),
        tokens: has_tokens.then_some(tokens),
        reported_nanousd: paid,
        effective_nanousd: paid,
        cost_source: if paid.is_some() { CostSource::Runtime } else { CostSource::Unpriced },
        approximate: paid.is_none().then_some(true),
        service_tier: spent.service_tier.clone(),
        ..Usage::default()
    }
}
