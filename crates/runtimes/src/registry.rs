//! The list of runtimes: one line each, and the only place besides its own folder where a runtime
//! is known. Nothing else may match on a runtime's id. Agents that a mapping describes are in no
//! list: `of` makes their runtime from the adapter, `adopted` from the saved conversation. A runtime
//! that speaks ACP too has a second lane: `on_lane` takes it, and `kept_as` says so in what is stored.

use crate::account::Account;
use crate::acp::lane::{ByAcp, Laned};
use crate::mapped::{self, Mapped};
use crate::{
    Runtime, acp, aider, claude, cline, codex, copilot, cursor_agent, demo, droid, gemini, hermes,
    kilo, openclaw, opencode, openhands, pi, process, remote,
};
use contract::plan::{Adapter, Lane};
use contract::{Code, Fault};
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

static RUNTIMES: [&'static dyn Runtime; 18] = [
    &process::Process,          // any program that speaks JSON lines
    &demo::Demo,                // the built-in demo agent
    &claude::Claude,            // Claude Code by stream-json
    &codex::Codex,              // OpenAI's Codex, by its app-server
    &gemini::Gemini,            // Gemini CLI, headless
    &pi::Pi,                    // pi, headless
    &opencode::OpenCode,        // OpenCode, headless
    &kilo::Kilo,                // Kilo Code, made from OpenCode
    &droid::Droid,              // Factory's droid, headless
    &copilot::Copilot,          // GitHub Copilot CLI, headless
    &cline::Cline,              // Cline, headless
    &openclaw::Openclaw,        // OpenClaw, embedded
    &cursor_agent::CursorAgent, // Cursor's agent, headless, by its documentation
    &hermes::Hermes,            // Hermes Agent, by its one-shot mode
    &openhands::OpenHands,      // OpenHands, headless
    &aider::Aider,              // Aider, by a message file
    &acp::Acp,                  // any program that speaks ACP
    &remote::ByHttp,            // any agent that is reached by HTTP
];

/// Their ids, in the same order. A card is made anew each time that it is asked for, and every run
/// looks for its runtime more than once.
static IDS: LazyLock<Vec<String>> =
    LazyLock::new(|| RUNTIMES.iter().map(|runtime| runtime.card().id).collect());

/// The ids of all, in the order people see.
pub fn ids() -> &'static [String] {
    &IDS
}

/// The runtime with this id.
pub fn find(id: &str) -> Option<&'static dyn Runtime> {
    RUNTIMES.into_iter().zip(ids()).find_map(|(runtime, own)| (own == id).then_some(runtime))
}

/// The runtime whose program this is: a name on PATH, or a path that ends in it.
pub fn by_binary(binary: &str) -> Option<&'static dyn Runtime> {
    let name = binary.rsplit('/').next().filter(|name| !name.is_empty())?;
    let is_its = |runtime: &&dyn Runtime| {
        runtime.card().requires.first().is_some_and(|required| required.binary == name)
    };
    RUNTIMES.into_iter().find(is_its)
}

/// How the program of an agent that Ostler knows, as a runtime or by ACP, is installed.
pub fn install_hint(binary: &str) -> Option<String> {
    let of_runtime = by_binary(binary).and_then(|runtime| runtime.card().requires.pop());
    let of_runtime = of_runtime.map(|required| required.install_hint);
    of_runtime.or_else(|| acp::cards::by_binary(binary).map(|known| known.install_hint.to_owned()))
}

/// Those of them that speak ACP too, each by the lane that its own folder describes.
static LANED: [&Laned; 8] = [
    &claude::BY_ACP,
    &codex::BY_ACP,
    &copilot::BY_ACP,
    &droid::BY_ACP,
    &gemini::BY_ACP,
    &hermes::BY_ACP,
    &kilo::BY_ACP,
    &opencode::BY_ACP,
];

/// Every runtime with both lanes, in the order people see.
pub fn by_acp() -> &'static [&'static Laned] {
    &LANED
}

/// The providers that answer how an account of a runtime stands.
static ACCOUNTS: [(&str, &dyn Account); 1] = [("claude", &claude::account::Usage)];

/// Whom to ask for the quota of this runtime's account.
pub fn account(id: &str) -> Option<&'static dyn Account> {
    ACCOUNTS.into_iter().find(|(runtime, _)| *runtime == id).map(|(_, account)| account)
}

/// The provider that a runtime names when it reports a quota.
pub fn quota_provider(id: &str) -> Option<&'static str> {
    match id {
        "claude" => Some("anthropic"),
        "codex" => Some("openai"),
        _ => None,
    }
}

/// The variables that each agent sets for what it starts.
static MARKERS: [&[&str]; 5] =
    [claude::MARKERS, codex::MARKERS, cursor_agent::MARKERS, gemini::MARKERS, opencode::MARKERS];

/// Names by which agents notice that they run inside another one, and then refuse or change their
/// manners.
pub fn nested_markers() -> impl Iterator<Item = &'static str> {
    MARKERS.into_iter().flatten().copied()
}

/// A session of an agent that goes on elsewhere although whoever held it here is gone: how this
/// program is started to take it up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    pub args: Vec<String>,
    /// The variable whose value it needs.
    pub token_env: Option<String>,
    /// The file from which that variable is filled.
    pub token_file: Option<String>,
    /// The fence under which the session was opened, where that is known.
    pub fence: Option<u64>,
    /// The first line that it is told.
    pub first: Vec<u8>,
}

/// Finds in a saved conversation how its session is taken up.
type TakenUp = fn(&[u8]) -> Option<Left>;

/// The runtimes whose agents go on elsewhere.
static ELSEWHERE: [(&str, TakenUp); 1] = [("remote", remote::left)];

/// How the session of a saved conversation is taken up, if it goes on without us.
pub fn left(id: &str, saved: &[u8]) -> Option<Left> {
    let (_, left) = ELSEWHERE.into_iter().find(|(runtime, _)| *runtime == id)?;
    left(saved)
}

/// The lines of events that an agent sent by itself, beside whoever holds it, if it may.
pub fn called_back(saved: &[u8], given: &serde_json::Value) -> Result<Vec<Vec<u8>>, Fault> {
    remote::called_back(saved, given)
}

/// A runtime that was chosen for a run.
#[derive(Clone)]
pub enum Chosen {
    Listed(&'static dyn Runtime),
    Mapped(Arc<Mapped>),
    /// A listed one on its second lane.
    ByAcp(ByAcp),
}

impl Deref for Chosen {
    type Target = dyn Runtime;

    fn deref(&self) -> &(dyn Runtime + 'static) {
        match self {
            Self::Listed(runtime) => *runtime,
            Self::Mapped(mapped) => &**mapped,
            Self::ByAcp(by_acp) => by_acp,
        }
    }
}

/// The runtime of an adapter: the one it names, or the one its mapping describes.
pub fn of(adapter: &Adapter) -> Result<Chosen, Fault> {
    match &adapter.mapping {
        Some(mapping) => Ok(Chosen::Mapped(Arc::new(Mapped::new(adapter, mapping)?))),
        None => find(&adapter.runtime).map(Chosen::Listed).ok_or_else(|| {
            let (name, runtime) = (&adapter.name, &adapter.runtime);
            Fault::new(Code::UnknownAgent, format!("'{name}' names the runtime '{runtime}'"))
        }),
    }
}

/// The same runtime on the lane that a run takes. One that has only that lane is as it was.
pub fn on_lane(chosen: Chosen, lane: Lane) -> Chosen {
    match (&chosen, lane) {
        (Chosen::Listed(native), Lane::Acp) => ByAcp::of(*native).map_or(chosen, Chosen::ByAcp),
        (Chosen::Listed(_) | Chosen::Mapped(_) | Chosen::ByAcp(_), _) => chosen,
    }
}

/// What the id of a runtime ends with when a run took its second lane.
const BY_ACP: &str = ":acp";

/// What is kept as the runtime of a run: its id, and the lane where there are two.
pub fn kept_as(chosen: &Chosen, adapter: &Adapter) -> String {
    match chosen {
        Chosen::Listed(_) | Chosen::Mapped(_) => adapter.runtime.clone(),
        Chosen::ByAcp(_) => format!("{}{BY_ACP}", adapter.runtime),
    }
}

/// Whether two kept ids are one product on two lanes.
pub fn differ_by_lane(one: &str, other: &str) -> bool {
    let stem = |id: &str| id.strip_suffix(BY_ACP).unwrap_or(id).to_owned();
    one != other && stem(one) == stem(other)
}

/// The runtime of a run that goes on elsewhere, by its id and its saved conversation.
pub fn adopted(id: &str, saved: &[u8]) -> Option<Chosen> {
    if let Some(native) = id.strip_suffix(BY_ACP) {
        return find(native).and_then(ByAcp::of).map(Chosen::ByAcp);
    }
    if mapped::is_id(id) {
        return Mapped::of_saved(saved).ok().map(|mapped| Chosen::Mapped(Arc::new(mapped)));
    }
    find(id).map(Chosen::Listed)
}

/// Every runtime, in the order people see.
pub fn all() -> &'static [&'static dyn Runtime] {
    &RUNTIMES
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_runtime_is_found_by_the_id_of_its_card() {
        let ids: BTreeSet<_> = all().iter().map(|runtime| runtime.card().id).collect();
        assert_eq!(ids.len(), all().len(), "two runtimes share an id");
        for id in ids {
            assert_eq!(find(&id).map(|runtime| runtime.card().id), Some(id));
        }
        assert!(find("nothing-like-it").is_none());
    }

    #[test]
    fn every_card_reads_as_it_is_shown() {
        for runtime in all() {
            let card = runtime.card();
            insta::assert_json_snapshot!(format!("card_{}", card.id), card);
        }
    }

    #[test]
    fn no_runtime_puts_a_nul_where_a_process_cannot_take_it() {
        let changes: [fn(&mut crate::Spec); 4] = [
            |spec| spec.prompt = "a\0b".to_owned(),
            |spec| spec.system_prompt = Some("a\0b".to_owned()),
            |spec| spec.model = Some("a\0b".to_owned()),
            |spec| spec.session = Some("a\0b".to_owned()),
        ];
        let mut refused = 0;
        for runtime in all() {
            for change in changes {
                let spec = crate::trial::spec_with(&runtime.card().id, |spec| {
                    spec.adapter.binary = Some("agent".to_owned());
                    change(spec);
                });
                match runtime.plan(&spec) {
                    Ok(plan) => {
                        assert!(!plan.args.concat().contains('\0'), "{}", runtime.card().id)
                    }
                    Err(fault) => {
                        assert_eq!(fault.code, contract::Code::InvalidConfig);
                        refused += 1;
                    }
                }
            }
        }
        assert!(refused > 0, "nothing was refused");
    }

    #[test]
    fn a_runtime_has_the_lanes_that_it_can_be_driven_by() {
        for runtime in all() {
            let card = runtime.card();
            let chosen = Chosen::Listed(*runtime);
            let by_acp = matches!(on_lane(chosen, Lane::Acp), Chosen::ByAcp(_));
            let both = card.lanes.contains(&Lane::Acp) && card.lanes.len() > 1;
            assert_eq!(by_acp, both, "{}: {:?}", card.id, card.lanes);
        }
    }

    #[test]
    fn a_run_on_the_second_lane_is_found_again_by_what_is_kept_of_it() {
        for laned in by_acp() {
            let adapter = Adapter { runtime: laned.runtime.to_owned(), ..Adapter::default() };
            let chosen = on_lane(of(&adapter).unwrap(), Lane::Acp);
            let kept = kept_as(&chosen, &adapter);
            assert!(differ_by_lane(&kept, laned.runtime) && !differ_by_lane(&kept, &kept));
            let card = adopted(&kept, b"{}").expect("its runtime").card();
            assert_eq!((card.id.as_str(), card.lanes), (laned.runtime, vec![Lane::Acp]));
            let native = adopted(laned.runtime, b"{}").expect("its runtime").card();
            assert_eq!(native.lanes, [Lane::Native, Lane::Acp]);
        }
        assert!(!differ_by_lane("one", "other"));
    }

    #[test]
    fn every_card_states_every_policy_for_every_lane_it_has() {
        for runtime in all() {
            let card = runtime.card();
            assert!(!card.closing.is_empty() && !card.use_when.is_empty(), "{}", card.id);
            for lane in &card.lanes {
                let rows = card.policies.iter().filter(|row| row.lane == *lane);
                let policies: BTreeSet<_> =
                    rows.map(|row| serde_json::to_string(&row.policy).unwrap()).collect();
                assert_eq!(policies.len(), 4, "{} on {lane:?}", card.id);
            }
        }
    }
}
