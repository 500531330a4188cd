//! What the cards of command-line agents have in common, so that each states only what differs: its
//! words are a `Product`, its matrix of policies is `Policies`, and `REPORTS` and `CAN` are those of
//! an agent that is only listened to. What a card means is in `contract::card`.

use crate::acp::lane;
use crate::launch;
use contract::card::{
    Can, CardEvidence, Dollars, Mcp, PolicyRow, Reports, Requirement, Retries, SystemPrompt, Told,
};
use contract::plan::Lane;
use contract::{Card, Policy};

/// What is written on the card of an agent that somebody installs.
pub(crate) struct Product {
    pub id: &'static str,
    pub label: &'static str,
    /// The name of the program.
    pub binary: &'static str,
    /// How to install it.
    pub install: &'static str,
    /// The versions that were recorded; none for one that is known by its documentation alone.
    pub recorded: &'static [&'static str],
    /// Its own variables, taken over from the caller where they are set.
    pub env: &'static [&'static str],
    pub retries: Retries,
    pub closing: &'static str,
    /// Where its models are known from.
    pub models: &'static str,
    /// One reason per line, the most important first.
    pub use_when: &'static [&'static str],
    pub dont_use_when: &'static [&'static str],
}

/// What becomes of each policy on the native lane.
pub(crate) struct Policies {
    pub deny: Cell,
    pub ask: Cell,
    pub allow_reads: Cell,
    pub allow_all: Cell,
}

/// One policy, with what is to be known of it.
pub(crate) enum Cell {
    /// It becomes these flags.
    By(&'static [&'static str], &'static str),
    /// It is not possible, for this reason.
    Not(&'static str),
}

/// It tells tokens when its turn ends, and what it does.
pub(crate) const REPORTS: Reports = Reports {
    tokens: true,
    usage: Told::AtTurnEnd,
    answers: Told::Never,
    dollars: Dollars::None,
    quota: false,
    activity: true,
};

/// It tells tokens with each answer of its model.
pub(crate) const REPORTS_ANSWERS: Reports =
    Reports { usage: Told::PerAnswer, answers: Told::PerAnswer, ..REPORTS };

/// It takes one prompt with everything in it, and nothing after.
pub(crate) const CAN: Can = Can {
    resume: false,
    interrupt: false,
    message: false,
    permissions: false,
    compaction: false,
    system_prompt: Some(SystemPrompt::Prepend),
    mcp: Mcp::None,
    api: true,
};

impl Product {
    /// The card with all that is said here and what its second lane adds, if it has one; the rest
    /// is to be put over it.
    pub fn card(&self, policies: Vec<PolicyRow>) -> Card {
        let documented = self.recorded.is_empty();
        Card {
            id: self.id.to_owned(),
            label: self.label.to_owned(),
            versions_recorded: launch::words(self.recorded),
            evidence: if documented { CardEvidence::Documented } else { CardEvidence::Recorded },
            requires: vec![Requirement {
                binary: self.binary.to_owned(),
                version_args: vec!["--version".to_owned()],
                install_hint: self.install.to_owned(),
            }],
            lanes: lane::lanes(self.id),
            models: Vec::new(),
            models_source: self.models.to_owned(),
            default_model: None,
            context_window: None,
            model_list: None,
            reports: REPORTS,
            can: CAN,
            env: launch::words(self.env),
            env_modes: Vec::new(),
            env_files: Vec::new(),
            retries: self.retries,
            closing: self.closing.to_owned(),
            policies: lane::both(self.id, policies),
            skills: None,
            login: None,
            handshake: None,
            use_when: self.use_when.join("\n"),
            dont_use_when: self.dont_use_when.join("\n"),
            config_schema: launch::cli_schema(),
        }
    }

    /// Those of its variables that are the key of a provider.
    pub fn keys(&self) -> Vec<&'static str> {
        self.env.iter().copied().filter(|name| name.ends_with("_KEY")).collect()
    }
}

impl Policies {
    pub fn rows(&self) -> Vec<PolicyRow> {
        let Self { deny, ask, allow_reads, allow_all } = self;
        let rows = [
            (Policy::Deny, deny),
            (Policy::Ask, ask),
            (Policy::AllowReads, allow_reads),
            (Policy::AllowAll, allow_all),
        ];
        rows.map(|(policy, cell)| cell.row(policy)).into()
    }
}

impl Cell {
    fn row(&self, policy: Policy) -> PolicyRow {
        let (flags, note) = match self {
            Self::By(flags, note) => (Some(launch::words(flags)), note),
            Self::Not(note) => (None, note),
        };
        PolicyRow { policy, lane: Lane::Native, flags, note: Some((*note).to_owned()) }
    }
}
