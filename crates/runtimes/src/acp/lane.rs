//! Runtimes that speak ACP too: the second lane of a product that has one of its own here. It is
//! started by a command and heard by the one dialect, with what its own card knows: which variables
//! it needs, how a login is told. Here is how such a lane works, and which policies are kept on it by
//! each way of asking; whose lane it is stands in the folder of that runtime, as a `Laned`. `registry`
//! lists them; nothing here knows a runtime by name, or how the other lane is driven.

use super::cards::Known;
use super::{Acp, handshake, mode};
use crate::launch::{self, Start};
use crate::{Dialect, ExitEvidence, Runtime, Spec, registry};
use contract::card::{ModelList, PolicyRow, Requirement};
use contract::plan::{Lane, StdinMode};
use contract::{Card, Code, Fault, LaunchPlan, Policy};
use serde_json::Value;

/// How an agent is held to a policy over ACP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// It asks before it changes anything, in the mode that is set.
    Asking,
    /// It asks because of rules that are given to it in variables.
    ByRules,
    /// It does not ask about everything, but has a mode in which it changes nothing unasked.
    ReadOnly,
    /// It does not ask before everything that changes something, and no mode of it does.
    Unasked,
}

/// One runtime by ACP, as its own folder tells it.
#[derive(Debug, Clone, Copy)]
pub struct Laned {
    /// The id of the runtime.
    pub runtime: &'static str,
    /// The agent that it is among those that speak ACP.
    pub known: Known,
    pub held: Held,
    /// Variables that it is given for a policy.
    pub env: fn(&Spec) -> Vec<(String, String)>,
    /// What it is known to tell beside the protocol.
    pub aside: Aside,
}

/// What an agent tells in its own way, where the protocol has no word for it.
#[derive(Debug, Clone, Copy)]
pub struct Aside {
    /// It says in plain text what its model's provider answered, and what it has to remark itself.
    pub confession: Option<Confession>,
    /// What the id of a question's call begins with, where that is another one than the call's own.
    pub asks_as: Option<&'static str>,
    /// The name it gives itself, where it begins to tell the history of a session and replies that the
    /// session is open before it has told it.
    pub tells_late: Option<&'static str>,
    /// What it says of its model beside the title of its session.
    pub meta: fn(&Value) -> Option<Told>,
    /// What a line of its log on stderr tells of a retry.
    pub stderr: fn(&str) -> Option<ToldRetry>,
}

impl Aside {
    /// Nothing.
    pub const NONE: Self = Self {
        confession: None,
        asks_as: None,
        tells_late: None,
        meta: nothing_told,
        stderr: nothing_logged,
    };
}

/// How an agent confesses in text that its model failed, and then ends the turn as if all were well.
/// It is believed only of a turn whose reply counts no tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confession {
    /// The name that the agent gives itself.
    pub agent: &'static str,
    /// What such a text begins with.
    pub failure: &'static str,
    /// What a remark of its own begins with, which is no word of the model.
    pub remark: &'static str,
}

/// What an agent told of its model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told {
    /// The model is not to be reached, whatever the turn says when it ends.
    pub failing: bool,
    pub error: Option<ToldError>,
}

/// An error of the model's provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToldError {
    pub said: String,
    /// The HTTP status, where it is told.
    pub status: Option<u64>,
    pub tries_again: bool,
}

/// A request to the model's provider that failed and is sent again by the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToldRetry {
    pub code: Code,
    /// The provider's words.
    pub said: String,
    /// How long the agent waits before it sends the request again.
    pub wait_ms: Option<u64>,
    /// The provider holds the agent back.
    pub is_limit: bool,
    /// Waiting is in vain.
    pub terminal: bool,
}

impl Laned {
    /// A lane on which nothing is to be set and nothing is told beside the protocol.
    pub const fn new(runtime: &'static str, known: Known, held: Held) -> Self {
        Self { runtime, known, held, env: nothing_set, aside: Aside::NONE }
    }
}

fn nothing_set(_: &Spec) -> Vec<(String, String)> {
    Vec::new()
}

fn nothing_told(_: &Value) -> Option<Told> {
    None
}

fn nothing_logged(_: &str) -> Option<ToldRetry> {
    None
}

/// The second lane of this runtime.
pub fn of(runtime: &str) -> Option<&'static Laned> {
    registry::by_acp().iter().copied().find(|laned| laned.runtime == runtime)
}

/// The runtime that an agent is here.
pub fn runtime_of(known: &Known) -> Option<&'static str> {
    let laned = registry::by_acp().iter().find(|laned| laned.known.id == known.id);
    laned.map(|laned| laned.runtime)
}

/// The lanes of a runtime with one of its own.
pub fn lanes(runtime: &str) -> Vec<Lane> {
    [Some(Lane::Native), of(runtime).map(|_| Lane::Acp)].into_iter().flatten().collect()
}

/// The rows of a card for both lanes: these, and those of the runtime's second one.
pub fn both(runtime: &str, mut native: Vec<PolicyRow>) -> Vec<PolicyRow> {
    native.extend(of(runtime).into_iter().flat_map(|laned| laned.held.policies()));
    native
}

impl Held {
    fn policies(self) -> Vec<PolicyRow> {
        let row = |policy: Policy| {
            let (possible, note) = self.keeps(policy);
            let flags = possible.then(Vec::new);
            PolicyRow { policy, lane: Lane::Acp, flags, note: Some(note.to_owned()) }
        };
        [Policy::Deny, Policy::Ask, Policy::AllowReads, Policy::AllowAll].map(row).into()
    }

    /// Whether a policy is kept, and how.
    fn keeps(self, policy: Policy) -> (bool, &'static str) {
        match (self, policy) {
            (_, Policy::AllowAll) => (
                true,
                "dangerous: every question is answered with yes, each time for that one time",
            ),
            (Self::Unasked, _) => {
                (false, "it asks before it edits a file, but runs commands unasked")
            }
            (Self::ReadOnly, Policy::Ask) => (false, "it asks only where its own sandbox stops it"),
            (Self::ReadOnly, _) => (
                true,
                "its mode 'read-only' is set, which its sandbox keeps, and every question is \
                 answered with no",
            ),
            (Self::Asking, Policy::Deny) => (
                true,
                "its mode that asks is set, and every question is answered with no; what it only \
                 reads it does not ask about",
            ),
            (Self::Asking, Policy::Ask) => {
                (true, "its mode that asks is set, and every question waits for a person")
            }
            (Self::Asking, Policy::AllowReads) => (
                true,
                "its mode that asks is set; a question to read or search is answered with yes, \
                 others with no",
            ),
            (Self::ByRules, Policy::Deny) => {
                (true, "rules let it ask before every tool, and every question is answered with no")
            }
            (Self::ByRules, Policy::Ask) => (
                true,
                "rules let it ask before every tool that does not only read, and every question \
                 waits for a person",
            ),
            (Self::ByRules, Policy::AllowReads) => (
                true,
                "rules let it ask before every tool that does not only read, and every question is \
                 answered with no",
            ),
        }
    }
}

/// The mode that an agent with rules is to be in.
pub(crate) const MADE_UP: &str = mode::MADE_UP;

/// A runtime on its second lane.
#[derive(Clone, Copy)]
pub struct ByAcp {
    laned: &'static Laned,
    native: &'static dyn Runtime,
}

impl ByAcp {
    /// The second lane of a runtime, if it has one.
    pub fn of(native: &'static dyn Runtime) -> Option<Self> {
        Some(Self { laned: of(&native.card().id)?, native })
    }

    /// Whether the same program speaks both ways; a bridge is another one.
    fn is_same_program(&self, card: &Card) -> bool {
        card.requires.iter().any(|required| required.binary == self.laned.known.binary)
    }
}

impl Runtime for ByAcp {
    /// What is known of the product, with what holds on this lane.
    fn card(&self) -> Card {
        let (native, acp) = (self.native.card(), Acp.card());
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let versions_recorded = match self.is_same_program(&native) {
            true => native.versions_recorded,
            false => Vec::new(),
        };
        Card {
            versions_recorded,
            evidence: self.laned.known.evidence,
            requires: vec![Requirement {
                binary: self.laned.known.binary.to_owned(),
                version_args: words(self.laned.known.version_args),
                install_hint: self.laned.known.install_hint.to_owned(),
            }],
            lanes: vec![Lane::Acp],
            reports: acp.reports,
            can: acp.can,
            retries: acp.retries,
            closing: acp.closing,
            policies: self.laned.held.policies(),
            skills: None,
            handshake: handshake(&words(self.laned.known.args)),
            model_list: Some(ModelList::Session),
            ..native
        }
    }

    fn plan(&self, spec: &Spec) -> Result<LaunchPlan, Fault> {
        let same = self.is_same_program(&self.native.card());
        let mut spec = spec.clone();
        if !same {
            // Both are for the program of the other lane.
            spec.adapter.binary = None;
            spec.adapter.extra_args.clear();
        }
        let start = Start {
            lane: Lane::Acp,
            program: launch::binary(&spec, self.laned.known.binary),
            args: self.laned.known.args.iter().map(|arg| (*arg).to_owned()).collect(),
            env: (self.laned.env)(&spec),
            stdin: StdinMode::Jsonrpc,
            ..Start::default()
        };
        start.plan(&spec, &self.card())
    }

    fn dialect(&self, spec: &Spec) -> Box<dyn Dialect> {
        Acp.dialect(spec)
    }

    fn restore(&self, state: &[u8]) -> Result<Box<dyn Dialect>, Fault> {
        Acp.restore(state)
    }

    fn classify(&self, evidence: &ExitEvidence<'_>) -> Option<Code> {
        Acp.classify(evidence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acp::cards;
    use crate::acp::tests::spec;
    use contract::plan::EnvSource;

    fn on_acp(runtime: &str) -> ByAcp {
        ByAcp::of(registry::find(runtime).expect("a runtime")).expect("a second lane")
    }

    #[test]
    fn every_row_names_a_runtime_and_an_agent_that_speaks_acp() {
        for laned in registry::by_acp() {
            let known = cards::find(laned.known.id).expect("a known agent");
            assert!(registry::find(laned.runtime).is_some(), "{}", laned.runtime);
            assert_eq!(runtime_of(known), Some(laned.runtime));
        }
    }

    #[test]
    fn the_second_lane_starts_the_command_with_the_variables_of_the_product() {
        for laned in registry::by_acp() {
            let (by_acp, known) = (on_acp(laned.runtime), laned.known);
            let mut spec = Spec { policy: Policy::AllowAll, ..spec() };
            spec.adapter.binary = None;
            let plan = by_acp.plan(&spec).unwrap();
            let argv = (plan.program.as_str(), plan.lane, plan.stdin);
            assert_eq!(argv, (known.binary, Lane::Acp, StdinMode::Jsonrpc));
            assert_eq!(plan.args, known.args);
            for name in by_acp.native.card().env {
                let given = plan.env.iter().any(|entry| entry.name == name);
                assert!(given, "{}: {name}", laned.runtime);
            }
        }
    }

    #[test]
    fn a_configured_program_is_that_of_its_own_lane() {
        let mut spec = spec();
        spec.adapter.binary = Some("/opt/it".to_owned());
        spec.adapter.extra_args = vec!["--more".to_owned()];
        let same = on_acp("gemini").plan(&spec).unwrap();
        assert_eq!(
            (same.program.as_str(), same.args.join(" ")),
            ("/opt/it", "--acp --more".into())
        );
        let bridge = on_acp("claude").plan(&spec).unwrap();
        assert_eq!((bridge.program.as_str(), bridge.args.len()), ("claude-agent-acp", 0));
    }

    #[test]
    fn rules_that_let_it_ask_are_given_under_every_policy_but_one() {
        for policy in [Policy::Deny, Policy::Ask, Policy::AllowReads, Policy::AllowAll] {
            let spec = Spec { policy, ..spec() };
            for (runtime, config) in
                [("opencode", "OPENCODE_CONFIG_CONTENT"), ("kilo", "KILO_CONFIG_CONTENT")]
            {
                let plan = on_acp(runtime).plan(&spec).unwrap();
                let given = plan.env.iter().find(|entry| entry.name == config);
                let Some(given) = given else {
                    assert_eq!(policy, Policy::AllowAll, "{runtime}");
                    continue;
                };
                let EnvSource::Runtime { value } = &given.source else { panic!("{given:?}") };
                let value: serde_json::Value = serde_json::from_str(value).unwrap();
                let rules = &value["agent"][MADE_UP]["permission"];
                assert_eq!((&rules["*"], &rules["ostler_*"]), (&"ask".into(), &"allow".into()));
                let reads = if policy == Policy::Deny { "ask" } else { "allow" };
                assert_eq!((&rules["grep"], &rules["read"]["*"]), (&reads.into(), &reads.into()));
            }
        }
    }
}
