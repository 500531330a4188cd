//! What a run is started with: the values that the seal must know, and the terms of its machine
//! (limits, tools, policy). Nothing here does anything.

use super::{ATTEMPT, Checked, Identity, Site};
use crate::ops::run::{Budget, RunRequest, ToolsBy};
use crate::ops::{catalog, errand};
use crate::trace::warning;
use crate::{Host, chance, clock, upstream};
use contract::card::Told;
use contract::plan::{Adapter, Clocks, Lane, LaunchPlan, Limit};
use contract::{Code, Draft, Fault, Policy, limits};
use engine::{Greeting, MustCount, RunBudget, Terms};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The values the seal must know: what the plan names, and what we gave ourselves.
pub(super) fn secrets(
    plan: &LaunchPlan,
    env: &[(String, String)],
    caller: &BTreeMap<String, String>,
    identity: &Identity,
) -> Result<Vec<(String, String)>, Fault> {
    let mut secrets = vec![("OSTLER_LEASE_TOKEN".to_owned(), identity.lease_token.clone())];
    for name in &plan.secrets {
        let given = env.iter().find(|(given, _)| given == name).map(|(_, value)| value);
        for value in given.into_iter().chain(caller.get(name)) {
            if !secrets.iter().any(|(_, known)| known == value) {
                secrets.push((name.clone(), value.clone()));
            }
        }
    }
    if secrets.len() > limits::SECRETS_MAX {
        // Leaving some out would leave them in everything that is kept.
        let message = format!(
            "one run gets {} secret values; at most {} can be removed from what is stored",
            secrets.len(),
            limits::SECRETS_MAX
        );
        return Err(Fault::new(Code::InvalidConfig, message)
            .with_hint("give the agent only the variables it needs"));
    }
    Ok(secrets)
}

/// The names whose values are too short to be told from ordinary words.
pub(super) fn short_secrets(secrets: &[(String, String)]) -> Vec<String> {
    let short = |value: &str| (1..limits::SECRET_BYTES_MIN).contains(&value.trim().len());
    secrets.iter().filter(|(_, value)| short(value)).map(|(name, _)| name.clone()).collect()
}

pub(super) fn too_short(name: String) -> Draft {
    warning(format!(
        "the value of {name} has fewer than {} bytes and is not removed from what is stored, \
         because it cannot be distinguished from ordinary words",
        limits::SECRET_BYTES_MIN
    ))
}

/// The limits of a run, and the tools it is offered.
pub(super) fn terms(
    request: &RunRequest,
    checked: &Checked,
    plan: &LaunchPlan,
    lease_ms: u64,
    fence: u64,
) -> Terms {
    let planned = Clocks { linger_ms: plan.linger_ms, ..Clocks::default() };
    let clocks = request.clocks.over(checked.adapter.clocks).over(planned);
    let Budget { nanousd, tokens, turns, ms, best_effort: _ } = request.budget;
    let counted = &request.counted_budget;
    let must_count = MustCount {
        dollars: counted.nanousd.is_some() && !counted.best_effort,
        tokens: counted.tokens.is_some() && !counted.best_effort,
    };
    let offered = |tool: &str| {
        request.tools.as_ref().is_none_or(|tools| tools.iter().any(|given| given == tool))
    };
    let wanted = request.tools.as_deref();
    let servers = checked.adapter.mcp_servers.keys();
    let foreign: Vec<String> =
        servers.flat_map(|server| upstream::offered(server, wanted)).collect();
    let policy = checked.policy;
    // Whether a foreign tool only reads is not known yet: where people are asked, they are asked.
    let asked = foreign.iter().filter(|_| policy == Policy::Ask).cloned();
    let writes = catalog::ALL.iter().filter(|tool| tool.writes).map(|tool| tool.name.to_owned());
    let writes = writes.chain(asked).collect();
    let tools = match checked.adapter.mcp {
        true => {
            let names = catalog::ALL.iter().map(|tool| tool.name);
            names.filter(|tool| offered(tool)).map(str::to_owned).chain(foreign).collect()
        }
        false => Vec::new(),
    };
    let (tools, writes) = match (request.tools_by, checked.adapter.mcp) {
        (ToolsBy::Host, _) | (ToolsBy::Caller, false) => (tools, writes),
        // What there is and what may be written is decided where it is carried out.
        (ToolsBy::Caller, true) => {
            let names = catalog::ALL.iter().map(|tool| tool.name);
            (names.chain(["*"]).map(str::to_owned).collect(), Vec::new())
        }
    };
    let budget = RunBudget { nanousd, tokens, turns, ms };
    // Whoever carries out the tools also asks about them.
    let people = |tools: &[&str]| match request.tools_by {
        ToolsBy::Host => tools.iter().map(|tool| (*tool).to_owned()).collect(),
        ToolsBy::Caller => Vec::new(),
    };
    let (asks, answered) = (people(&catalog::ASKED), people(&catalog::ANSWERED));
    let greeting = greeting(plan, clocks.first_output);
    Terms {
        greeting,
        budget,
        billing: checked.adapter.billing,
        own_nanousd: request.own_budget.nanousd,
        budget_best_effort: counted.best_effort,
        must_count,
        usage_is_uncertain: checked.runtime.card().reports.usage == Told::ByAgent,
        lease_ms,
        tools,
        writes,
        asks,
        answered,
        policy,
        ask_base: chance::ask_id(),
        ..Terms::from(&clocks, fence, ATTEMPT)
    }
}

/// How long an agent that speaks ACP may take to answer `initialize`: the configured time to its
/// first output, or the limit of the protocol.
fn greeting(plan: &LaunchPlan, first_output: Option<Limit>) -> Option<Greeting> {
    let limit_ms = match first_output {
        None | Some(Limit::Ms(0)) => limits::ACP_INITIALIZE_MS,
        Some(Limit::Ms(ms)) => ms,
        Some(Limit::Unlimited) => return None,
    };
    let words = std::iter::once(&plan.program).chain(&plan.args);
    let command = words.map(String::as_str).collect::<Vec<_>>().join(" ");
    (plan.lane == Lane::Acp).then_some(Greeting { limit_ms, command })
}

/// The farewell and the grace after SIGTERM when nobody renews the lease, and the time for which its
/// keeper may outlive it, in milliseconds.
pub(super) fn lease_stop(lane: Lane, term_ms: u64) -> (u64, u64, u64) {
    match lane {
        // A courier has to end its session at the remote, however short the lease is.
        Lane::Http => {
            let (farewell_ms, term_ms) = (limits::REMOTE_FAREWELL_MS, limits::REMOTE_TERM_MS_MIN);
            (farewell_ms, term_ms, farewell_ms + term_ms)
        }
        Lane::Native | Lane::Acp | Lane::Process => (limits::FAREWELL_MS, term_ms, 0),
    }
}

/// When the lease that a run begins with ends, for an agent that has a clock of its own.
pub(super) fn lease_end(host: &Host) -> contract::Timestamp {
    let length_ms = i64::try_from(host.inner.lease_ms).unwrap_or(i64::MAX);
    clock::now().wall.plus_ms(length_ms)
}

/// What a run may spend, for an agent that cannot ask.
pub(super) fn envelope(budget: &Budget) -> serde_json::Value {
    let usd = budget.nanousd.map(|nanousd| nanousd.usd());
    json!({ "tokens": budget.tokens, "usd": usd, "turns": budget.turns, "ms": budget.ms })
}

/// What the run is told of why it is there: what its caller handed over, and what is known of its
/// task. The names of the latter cannot be taken by the caller.
pub(super) fn told_context(request: &RunRequest, identity: &Identity) -> Map<String, Value> {
    let errand = identity.errand.as_ref();
    let given = errand.map(|errand| &errand.context).or(request.context.as_ref());
    let mut context = given.cloned().unwrap_or_default();
    let wake = errand.map(|errand| &errand.wake);
    let (approval_id, approval_status) = wake.and_then(|wake| wake.approval.clone()).unzip();
    let linked = errand.map(|errand| errand.linked.clone()).unwrap_or_default();
    for (name, value) in [
        ("taskId", json!(identity.task)),
        ("wakeReason", json!(wake.map_or(errand::wake::RUN, |wake| wake.reason.as_str()))),
        ("wakeCommentId", json!(wake.and_then(|wake| wake.comment.as_deref()))),
        ("approvalId", json!(approval_id)),
        ("approvalStatus", json!(approval_status)),
        ("linkedTaskIds", json!(linked)),
    ] {
        context.insert(name.to_owned(), value);
    }
    context
}

/// The policy that was asked for; else everything in a workspace of ours, else to ask where someone
/// can answer, else to let it read only.
pub(super) fn policy(host: &Host, request: &RunRequest, adapter: &Adapter, site: &Site) -> Policy {
    let unasked = match host.inner.serves || request.attended {
        _ if site.is_owned() => Policy::AllowAll,
        true => Policy::Ask,
        false => Policy::AllowReads,
    };
    request.permission.or(adapter.permission).unwrap_or(unasked)
}

/// Says of a policy that somebody chose what it does not cover on this lane: the process and http lanes
/// have no way to hold the agent itself to it.
pub(super) fn coverage(policy: Policy, lane: Lane) -> Option<Draft> {
    match (policy, lane) {
        (Policy::AllowAll, _) | (_, Lane::Native | Lane::Acp) => None,
        (Policy::Deny | Policy::Ask | Policy::AllowReads, Lane::Process | Lane::Http) => {
            Some(warning(format!(
                "--permission {} covers only the tools that Ostler offers to this agent; what it \
                 does by itself is not restricted",
                policy.word()
            )))
        }
    }
}
