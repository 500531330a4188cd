//! Tries the modes of policies in a session that is never prompted, for doctor: which settings a run
//! under each policy would ask for, and what the agent replied to them. It sees that a mode is
//! accepted, and nothing of what the agent then does in it.

use super::mode;
use super::state::{Setting, frame, number};
use super::wire::{Line, Opened};
use super::words;
use crate::lenient;
use contract::{Code, Policy};
use serde_json::{Value, json};

/// The id of the request that opens the session. Those of settings follow.
pub const OPEN_ID: u64 = 1;
/// Policies that restrict the agent.
const RESTRICTING: [Policy; 3] = [Policy::Deny, Policy::Ask, Policy::AllowReads];

/// What a session showed of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModeTrial {
    /// The agent accepted the mode that the policy needs.
    Accepted,
    /// The session began in such a mode, or in one that is at least as safe.
    Begun,
    /// The policy cannot be kept, with the reason.
    NotPossible(String),
    /// The agent did not answer, or answered with something that is not about the mode.
    Unknown,
}

/// Whether a line is the reply to a request of this id.
pub fn answers(line: &str, id: u64) -> bool {
    let line = lenient::object::<Line>(line);
    line.is_some_and(|line| line.method.is_none() && line.id.as_ref().and_then(number) == Some(id))
}

/// The requests that set the modes of the policies, by the reply that opened the session. The first has
/// the id 2, and each of the others the next one.
pub fn mode_requests(reply: &str) -> Vec<Vec<u8>> {
    let Some(opened) = opened(reply) else { return Vec::new() };
    let line = |(id, setting): (u64, Setting)| {
        let (method, params) = mode::set(opened.session_id.as_deref(), &setting);
        frame(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
    };
    numbered(&opened).into_iter().map(line).collect()
}

/// What a session showed of each policy that restricts the agent, by everything that the agent printed.
/// `None` when it told of no modes: then nothing was seen.
pub fn policies_tried(printed: &str) -> Option<Vec<(Policy, ModeTrial)>> {
    let reply = |id: u64| printed.lines().find(|line| answers(line, id));
    let opened = opened(reply(OPEN_ID)?)?;
    if !mode::are_offered(&opened) {
        return None;
    }
    let numbered = numbered(&opened);
    let of = |setting: &Setting| {
        let (id, _) = numbered.iter().find(|(_, numbered)| is_same(numbered, setting))?;
        let refusal = lenient::object::<Line>(reply(*id)?)?.error;
        Some(match refusal {
            None => ModeTrial::Accepted,
            Some(refusal) => match (words::code(&refusal), setting.loose) {
                (Code::AuthRequired | Code::AuthFailed, _) => ModeTrial::Unknown,
                (_, true) => {
                    ModeTrial::NotPossible(mode::not_taken(setting, &words::said(&refusal)))
                }
                // A run goes on in the mode that the session began in.
                (_, false) => ModeTrial::Begun,
            },
        })
    };
    let trial = |policy: Policy| match mode::settings(policy, &opened) {
        Err(why) => ModeTrial::NotPossible(why),
        Ok(planned) if planned.settings.is_empty() => ModeTrial::Begun,
        Ok(planned) => {
            let all =
                planned.settings.iter().map(|setting| of(setting).unwrap_or(ModeTrial::Unknown));
            all.reduce(ModeTrial::with).unwrap_or(ModeTrial::Begun)
        }
    };
    Some(RESTRICTING.map(|policy| (policy, trial(policy))).into())
}

impl ModeTrial {
    /// What follows from two settings that a policy needs: the worse of both.
    fn with(self, other: Self) -> Self {
        match (self, other) {
            (Self::NotPossible(why), _) | (_, Self::NotPossible(why)) => Self::NotPossible(why),
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            (Self::Accepted, _) | (_, Self::Accepted) => Self::Accepted,
            (Self::Begun, Self::Begun) => Self::Begun,
        }
    }
}

/// The settings that the policies need, each once, with the ids of their requests.
fn numbered(opened: &Opened) -> Vec<(u64, Setting)> {
    let mut settings: Vec<Setting> = Vec::new();
    for policy in RESTRICTING {
        let planned = mode::settings(policy, opened).map(|planned| planned.settings);
        for setting in planned.unwrap_or_default() {
            if !settings.iter().any(|known| is_same(known, &setting)) {
                settings.push(setting);
            }
        }
    }
    (OPEN_ID + 1..).zip(settings).collect()
}

fn is_same(one: &Setting, other: &Setting) -> bool {
    (&one.option, &one.value) == (&other.option, &other.value)
}

fn opened(reply: &str) -> Option<Opened> {
    let result: Value = lenient::object::<Line>(reply)?.result?;
    serde_json::from_value(result).ok()
}
