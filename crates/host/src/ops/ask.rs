//! Questions that wait for a person, over all live runs of this host, and their answers. The truth is
//! in each run's machine; this is where its driver shows it. An answer is a wish like any other, so
//! it is durable before it counts and is recorded with who decided.

use super::run::wish;
use super::who::Who;
use crate::Host;
use contract::event::{PermissionOption, PermissionRequest};
use contract::{AskId, Code, Fault, RunId, Timestamp, Wish};
use engine::run::About;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A question as people see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenAsk {
    pub ask_id: AskId,
    pub run_id: RunId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    #[serde(default)]
    pub kind: AskKind,
    pub title: String,
    /// What is asked for, in full as far as it fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<PermissionRequest>,
    pub options: Vec<PermissionOption>,
    /// What the answer `always` allows for the rest of the run; absent when it is no answer here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub always: Option<String>,
    /// When it is denied because nobody answered.
    pub until: Timestamp,
}

/// What an answer leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AskKind {
    /// The agent goes on with what it asked leave for.
    #[default]
    Permission,
    /// The agent is told what a person decided.
    Approval,
    /// An agent is hired.
    Hire,
}

impl AskKind {
    pub(crate) fn of(about: &About) -> Self {
        match about {
            About::Native(_) => Self::Permission,
            About::Relayed(call) if call.tool == "propose_agent" => Self::Hire,
            About::Relayed(_) => Self::Permission,
            About::Approval(_) => Self::Approval,
        }
    }

    pub const fn word(self) -> &'static str {
        match self {
            Self::Permission => "permission",
            Self::Approval => "approval",
            Self::Hire => "hire",
        }
    }
}

/// The open questions by their ids: so many that come after this one. When one is denied is told by the
/// clock of whoever holds its run, so pages by urgency could show a question twice, or not at all.
/// The questions of runs that are being taken over are known only after that, and waited for.
pub async fn list(host: &Host, after: Option<AskId>, limit: usize) -> Result<Vec<OpenAsk>, Fault> {
    host.inner.adopted(None).await?;
    Ok(known(host, after, limit))
}

fn known(host: &Host, after: Option<AskId>, limit: usize) -> Vec<OpenAsk> {
    let live = host.inner.live();
    let open = live.values().flat_map(|run| run.shown.asks.iter());
    let behind = open.filter(|ask| after.is_none_or(|after| ask.ask_id > after));
    let by_id: BTreeMap<AskId, &OpenAsk> = behind.map(|ask| (ask.ask_id, ask)).collect();
    by_id.into_values().take(limit).cloned().collect()
}

/// In the order in which people look at them: the most urgent first.
pub fn by_urgency(mut asks: Vec<OpenAsk>) -> Vec<OpenAsk> {
    asks.sort_by_key(|ask| (ask.until, ask.ask_id));
    asks
}

/// The question that a person means: its whole id, or an end of it that fits no other.
pub fn find(asks: Vec<OpenAsk>, given: &str) -> Result<OpenAsk, Fault> {
    let mut fitting = asks.into_iter().filter(|ask| {
        let id = ask.ask_id.to_string();
        id == given || (given.len() >= 4 && id.ends_with(given))
    });
    match (fitting.next(), fitting.next()) {
        (Some(ask), None) => Ok(ask),
        (None, _) => Err(Fault::new(Code::NotFound, format!("no approval '{given}' is waiting"))
            .with_hint("`ostler approvals` lists the waiting ones")),
        (Some(_), Some(_)) => {
            Err(Fault::new(Code::NotFound, format!("more than one approval matches '{given}'"))
                .with_hint("give more digits of the ID"))
        }
    }
}

/// Whether this can be an answer: an option of the question, its kind, or the bare word.
pub fn check(ask: &OpenAsk, option: &str) -> Result<(), Fault> {
    let named = ask.options.iter().any(|known| known.id == option || known.kind == option);
    if named || ["allow", "deny"].contains(&option) {
        return Ok(());
    }
    if option == "always" {
        return match ask.always {
            Some(_) => Ok(()),
            None => Err(Fault::new(Code::Usage, "this approval cannot be answered with `always`")
                .with_hint("each of these needs its own answer: allow or deny")),
        };
    }
    let ids: Vec<_> = ask.options.iter().map(|option| option.id.as_str()).collect();
    Err(Fault::new(Code::Usage, format!("'{option}' is not a valid answer"))
        .with_hint(format!("use allow or deny, or one of: {}", ids.join(", "))))
}

/// Answers a question.
pub async fn answer(
    host: &Host,
    given: &str,
    option: &str,
    reason: Option<String>,
    by: &Who,
) -> Result<OpenAsk, Fault> {
    let ask = find(list(host, None, usize::MAX).await?, given)?;
    check(&ask, option)?;
    let option = option.to_owned();
    let answer = Wish::Answer { ask_id: ask.ask_id, option, by: None, reason };
    wish(host, ask.run_id, None, answer, by).await?;
    Ok(ask)
}
