//! Who could take a task that names nobody: what the rule (`engine::rules::fits`) is told of each agent
//! that works here. Nothing is started to find out: a program is looked for, the newest runs say
//! whether an adapter is in trouble, and the gates (`gate.rs`) say what they would say of a task of
//! that agent. Runtimes that nobody hired or configured as an agent are handed nothing.

use super::gate;
use super::run::{Where, stored};
use super::{agents, errand, line};
use crate::{Host, clock, diagnose};
use contract::plan::{Adapter, Lane, LaneChoice};
use contract::{Card, Fault, Policy, RunState, limits};
use engine::rules::claimable::Room;
use engine::rules::fits::{self, Choice, Offer, TROUBLE_MS, tells_of_trouble};
use runtimes::registry;
use store::{RunRow, RunsPage, TaskRow};

/// What came of asking around.
pub(crate) enum Taker {
    /// This agent, by its name.
    Agent(String),
    Busy,
    Nobody(engine::rules::hold::Hold),
}

/// Finds who takes a task that names nobody.
pub(crate) async fn taker(host: &Host, task: &TaskRow) -> Result<Taker, Fault> {
    let names = agents::active(host).await?;
    let known = Known::look(host).await?;
    let mut offers = Vec::with_capacity(names.len());
    for name in &names {
        offers.push(offer(host, task, name, &known).await?);
    }
    Ok(match fits::choose(&offers) {
        Choice::Takes(at) => Taker::Agent(names[at].clone()),
        Choice::Busy => Taker::Busy,
        Choice::Nobody(hold) => Taker::Nobody(hold),
    })
}

async fn offer<'a>(
    host: &Host,
    task: &TaskRow,
    name: &'a str,
    known: &Known,
) -> Result<Offer<'a>, Fault> {
    let nothing = Room { taken: 0, places: 0 };
    let mut offer =
        Offer { agent: name, room: nothing, slots: None, trouble: None, policy: None, hold: None };
    let as_its_own = TaskRow { agent: name.to_owned(), ..task.clone() };
    let resolved = match errand::resolve(host, &as_its_own).await {
        Ok(resolved) => resolved,
        Err(fault) => {
            offer.trouble = Some(fault.message);
            return Ok(offer);
        }
    };
    let adapter = &resolved.named.adapter;
    let hands = resolved.named.concurrency.filter(|hands| *hands > 0);
    let places = hands.unwrap_or(limits::AGENT_RUNS_MAX).into();
    offer.room = Room { taken: known.runs(|run| run.agent == name), places };
    offer.slots = line::places(adapter).map(|slots| Room {
        taken: known.runs(|run| run.adapter == adapter.name),
        places: slots.into(),
    });
    let card = registry::of(adapter).map(|runtime| runtime.card());
    offer.trouble = match &card {
        Err(fault) => Some(fault.message.clone()),
        Ok(card) => missing(host, card, adapter).or_else(|| known.trouble(adapter)),
    };
    let owned = resolved.named.workspace.is_some_and(|place| place != Where::Here);
    offer.policy = card.ok().and_then(|card| impossible(&card, adapter, owned));
    if offer.trouble.is_none() && offer.policy.is_none() {
        offer.hold = gate::hold(host, &resolved.candidate).await?;
    }
    Ok(offer)
}

/// The program of an adapter that is not there.
fn missing(host: &Host, card: &Card, adapter: &Adapter) -> Option<String> {
    let configured = adapter.binary.as_deref().filter(|binary| !binary.is_empty());
    let required = card.requires.first().map(|required| required.binary.as_str());
    let binary = configured.or(required)?;
    let path = adapter.env.get("PATH").or_else(|| host.inner.environment.get("PATH"));
    let found = diagnose::find_program(binary, path.map(String::as_str));
    found.is_none().then(|| format!("{binary} is not an executable program"))
}

/// Why an agent cannot be held to its policy, which is decided as for a run (`start.rs`) that someone
/// can be asked about.
fn impossible(card: &Card, adapter: &Adapter, owned: bool) -> Option<String> {
    let unasked = if owned { Policy::AllowAll } else { Policy::Ask };
    let policy = adapter.permission.unwrap_or(unasked);
    let fits = |lane: &&Lane| match adapter.lane.unwrap_or(LaneChoice::Auto) {
        LaneChoice::Auto => true,
        LaneChoice::Native => **lane == Lane::Native,
        LaneChoice::Acp => **lane == Lane::Acp,
    };
    let keeps = card.lanes.iter().filter(fits).any(|lane| card.keeps(*lane, policy));
    (!keeps).then(|| format!("{} cannot be held to '{}'", card.label, policy.word()))
}

/// What the newest runs tell.
struct Known {
    live: Vec<RunRow>,
    newest: Vec<RunRow>,
}

impl Known {
    async fn look(host: &Host) -> Result<Self, Fault> {
        let (mut before, mut live) = (None, Vec::new());
        loop {
            let page = RunsPage { before, limit: limits::PAGE_ROWS_MAX, unsettled_only: true };
            let rows = host.store().runs(page).await.map_err(stored)?;
            let Some(last) = rows.last() else { break };
            before = Some(last.id);
            live.extend(rows);
        }
        let page = RunsPage { before: None, limit: limits::PAGE_ROWS_MAX, unsettled_only: false };
        Ok(Self { live, newest: host.store().runs(page).await.map_err(stored)? })
    }

    fn runs(&self, of: impl Fn(&RunRow) -> bool) -> u64 {
        self.live.iter().filter(|run| of(run)).count() as u64
    }

    /// With what the last run of an adapter ended, when that says that it is not in order and was not
    /// long ago.
    fn trouble(&self, adapter: &Adapter) -> Option<String> {
        let ended = |run: &&RunRow| run.adapter == adapter.name && run.state == RunState::Settled;
        let last = self.newest.iter().find(ended)?;
        let code = last.code.filter(|code| tells_of_trouble(*code))?;
        let at = last.ended_at.unwrap_or(last.started_at);
        let recent = clock::now().wall.since(at) < TROUBLE_MS;
        recent.then(|| format!("{} ended with {code}", last.id))
    }
}
