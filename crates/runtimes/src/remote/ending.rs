//! The end that a remote names, with the code that it may say for itself. A remote knows better than
//! we do whether its provider refused, its agent crashed or its time was up, so a `failed` line may
//! carry a code of the fault table beside its reason (`docs/protocols/ca-http-v1.md`). Who owns the
//! work, what a person wanted and how our own house stands is not for it to say: such a code counts
//! as none. The process protocol itself knows no code, and does not learn of one here.

use crate::Out;
use contract::event::{Body, Error};
use contract::{Code, Signal};
use serde::Deserialize;
use std::borrow::Cow;

/// What of a failure is read again: everything else was heard already.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Failed<'a> {
    #[serde(borrow)]
    code: Option<Cow<'a, str>>,
    #[serde(borrow)]
    reason: Option<Cow<'a, str>>,
    #[serde(borrow)]
    details: Option<Cow<'a, str>>,
}

/// How much had been heard before a line.
pub(super) struct Before {
    drafts: usize,
    signals: usize,
}

impl Before {
    pub(super) fn of(out: &Out) -> Self {
        Self { drafts: out.drafts.len(), signals: out.signals.len() }
    }

    /// Puts the code of a failure where the process protocol had to put its own.
    pub(super) fn name_failure(&self, event: &str, out: &mut Out) {
        let mut signals = out.signals.iter_mut().skip(self.signals);
        let ending = signals.find_map(|signal| match signal {
            Signal::Ended(ending) => ending.code.map(|heard| (heard, ending)),
            _ => None,
        });
        let Some((heard, ending)) = ending else { return };
        let Ok(failed) = serde_json::from_str::<Failed<'_>>(event) else { return };
        let named = failed.code.as_deref().and_then(Code::from_word);
        // What the reason named already is not named otherwise.
        let Some(code) = named.filter(|code| may_say(*code)) else { return };
        if heard != Code::AgentFailed && heard != code {
            return;
        }
        ending.code = Some(code);
        if failed.reason.as_deref() == Some(code.word()) {
            ending.detail =
                failed.details.as_deref().and_then(|details| particulars(code, details));
        }
        let told =
            out.drafts.iter_mut().skip(self.drafts).find_map(|draft| match &mut draft.body {
                Body::Error(error) => Some(error),
                _ => None,
            });
        if let Some(error) = told {
            *error = Error {
                code,
                message: code.row().message.to_owned(),
                retryable: code.retryable(),
                retry_at: None,
                hint: None,
                detail: ending.detail.clone(),
            };
        }
    }
}

/// What is said beyond the words of the table, which are said here again.
fn particulars(code: Code, details: &str) -> Option<String> {
    let details = match details.strip_prefix(code.row().message) {
        Some("") => return None,
        Some(rest) => rest.strip_prefix(": ").unwrap_or(details),
        None => details,
    };
    Some(details.to_owned())
}

/// Whether the side of the agent may name this end of its own work.
fn may_say(code: Code) -> bool {
    match code {
        // Its provider, its model, its program, its clocks, its limits, the questions asked there.
        Code::AuthRequired
        | Code::AuthFailed
        | Code::Billing
        | Code::ProviderQuota
        | Code::RateLimited
        | Code::Overloaded
        | Code::UpstreamError
        | Code::BudgetExceeded
        | Code::TimeoutWall
        | Code::TimeoutSilence
        | Code::TimeoutFirstOutput
        | Code::AgentFailed
        | Code::ModelRefusal
        | Code::ModelNotFound
        | Code::MaxTurns
        | Code::ContextOverflow
        | Code::NotInstalled
        | Code::SpawnFailed
        | Code::ProcessCrashed
        | Code::ProcessKilled
        | Code::EndedWithoutResult
        | Code::AnswerCut
        | Code::OutputLimit
        | Code::ProtocolError
        | Code::ParseFailed
        | Code::PermissionDenied
        | Code::PermissionUnanswered
        | Code::PolicyBroken => true,
        // Who owns the work, what a person here wanted, what we lost, and how our house stands.
        Code::LeaseExpired
        | Code::FenceStale
        | Code::Conflict
        | Code::Cancelled
        | Code::ProcessLost
        | Code::RemoteUnavailable
        | Code::RemoteLost
        | Code::NativeSessionUnknown
        | Code::InternalError
        | Code::Usage
        | Code::MethodNotAllowed
        | Code::TooLarge
        | Code::UnsupportedMedia
        | Code::InvalidConfig
        | Code::UnknownAgent
        | Code::UnknownPlaceholder
        | Code::BadWorkspace
        | Code::PolicyNotPossible
        | Code::BudgetNotCountable
        | Code::PromptTooLarge
        | Code::NotSupported
        | Code::Unauthorized
        | Code::Forbidden
        | Code::StoreLocked
        | Code::StoreNewer
        | Code::StoreUnreadable
        | Code::DiskFull
        | Code::PortInUse
        | Code::UnknownTool
        | Code::NotFound
        | Code::Unknown => false,
    }
}
