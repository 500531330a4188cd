//! The rest of what an agent tells and asks beside its work: how its provider holds it back, how its
//! account stands, and whether it may use a tool. Every request of the agent's is answered or becomes
//! a question, because it waits for the answer; what it tells of limits becomes `error` and `quota`.

use super::ear::Ear;
use super::result;
use super::tools;
use super::wire::{self, Line, Permit, RateLimit};
use contract::event::{Body, PermissionOption, Quota, QuotaWindow};
use contract::speech::{Limited, Question};
use contract::{Code, Signal};
use serde_json::Value;

/// A refused key may have been renewed meanwhile, so the first attempts are let pass.
const AUTH_ATTEMPTS_MAX: u64 = 2;
/// What is shown of a question's subject.
const TITLE_CHARS_MAX: usize = 500;
/// The answer to a question that only a person at a keyboard could take up.
const NOBODY_CHOOSES: &str = "No person is available to choose. Decide by yourself, and say in your answer what you \
     assumed.";

impl Ear<'_> {
    /// The agent tries again by itself after a while.
    pub(super) fn retry(&mut self, line: &Line) {
        let word = line.error.as_ref().and_then(Value::as_str).unwrap_or("unknown");
        let code = crate::provider::of(line.error_status, word).unwrap_or(Code::UpstreamError);
        let attempt = line.attempt.unwrap_or(0);
        let wait_ms = line.retry_delay_ms.filter(|ms| *ms >= 0.0).map(|ms| ms as u64);
        let status = line.error_status.map_or_else(|| "no status".to_owned(), |s| s.to_string());
        let refused = matches!(code, Code::AuthFailed | Code::AuthRequired | Code::Billing);
        let terminal = refused && attempt > AUTH_ATTEMPTS_MAX;
        // The run is stopped before the next attempt of one that is in vain.
        let detail = match terminal {
            true => format!("{word} ({status})"),
            false => format!(
                "{word} ({status}), attempt {attempt} of {}, next in {} ms",
                line.max_retries.unwrap_or(0),
                wait_ms.unwrap_or(0)
            ),
        };
        self.complain(code, detail);
        self.state.held = true;
        let resets_at = self.state.resets_at;
        self.signal(Signal::Limited(Limited { code, terminal, wait_ms, resets_at }));
    }

    pub(super) fn answers_again(&mut self) {
        if std::mem::replace(&mut self.state.held, false) {
            self.signal(Signal::LimitLifted);
        }
    }

    /// How the account stands with its provider.
    pub(super) fn quota(&mut self, info: &RateLimit) {
        let rejected = info.status.as_deref() == Some("rejected");
        let resets_at = info.resets_at.and_then(result::at_second);
        let percent = |share: Option<f64>| share.map(|share| share * 100.0);
        let mut windows: Vec<_> = info
            .unified_windows
            .iter()
            .flatten()
            .map(|(id, window)| QuotaWindow {
                id: id.clone(),
                label: None,
                used_percent: percent(window.utilization),
                resets_at: window.resets_at.and_then(result::at_second),
                exhausted: window.utilization.is_some_and(|share| share >= 1.0),
            })
            .collect();
        match (
            &info.rate_limit_type,
            windows.iter_mut().find(|w| Some(&w.id) == info.rate_limit_type.as_ref()),
        ) {
            (_, Some(window)) => window.exhausted |= rejected,
            (Some(id), None) => windows.push(QuotaWindow {
                id: id.clone(),
                label: None,
                used_percent: percent(info.utilization),
                resets_at,
                exhausted: rejected,
            }),
            (None, None) => {}
        }
        let rate_limited = rejected && info.is_using_overage != Some(true);
        let provider = "anthropic".to_owned();
        self.draft(Body::Quota(Quota {
            provider,
            account: None,
            windows,
            rate_limited,
            resets_at,
        }));
        if rate_limited {
            self.state.resets_at = resets_at;
            self.state.held = true;
            let code = Code::ProviderQuota;
            self.signal(Signal::Limited(Limited {
                code,
                terminal: false,
                wait_ms: None,
                resets_at,
            }));
        }
    }

    /// The agent asks leave. Whatever it asks is answered, or it would wait for ever.
    pub(super) fn asked(&mut self, line: Line) {
        let request = line.request_id.unwrap_or_default();
        let asked = line.request.unwrap_or_default();
        if asked.subtype.as_deref() != Some("can_use_tool") {
            self.unrecognised();
            return self.out.frames.push(wire::refuse(&request, "this is not supported here"));
        }
        let name = asked.tool_name.unwrap_or_default();
        let input = asked.input.unwrap_or_default();
        if tools::is_own(&name) {
            let updated_input = Some(&input);
            return self.out.frames.push(wire::permit(&request, Permit::Allow { updated_input }));
        }
        if name == tools::CHOICE {
            self.keep(None);
            let message = NOBODY_CHOOSES;
            return self.out.frames.push(wire::permit(&request, Permit::Deny { message }));
        }
        let title = tools::about(&name, &input, asked.description.as_deref());
        let title = title.chars().take(TITLE_CHARS_MAX).collect();
        let cwd = self.state.cwd.clone();
        let content = tools::request(&name, &input, asked.description.as_deref(), cwd);
        let content = Box::new(content);
        if !self.state.ask(&request, input) {
            self.unrecognised();
            let message = "Too many questions wait for an answer.";
            return self.out.frames.push(wire::permit(&request, Permit::Deny { message }));
        }
        let option = |id: &str, kind: &str, name: &str| PermissionOption {
            id: id.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
        };
        let options = vec![
            option("allow", "allow_once", "allow it this once"),
            option("deny", "reject_once", "deny it"),
        ];
        let (tool_call_id, reads) = (asked.tool_use_id, tools::reads(&name));
        let question = Question { request, tool_call_id, title, reads, content, options };
        self.signal(Signal::Asked(question));
    }

    pub(super) fn answered(&mut self, line: &Line) {
        let response = line.response.as_ref();
        match response.and_then(|response| response.subtype.as_deref()) {
            Some("success") => self.accepts(),
            _ => self.keep(Some("warning")),
        }
    }
}
