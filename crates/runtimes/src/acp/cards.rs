//! Agents that speak ACP, by name: what to start, how it tells its version, how it is installed, and
//! whether it was seen at work. Data only: all of them are driven by the one runtime, and what is
//! configured under a name of these comes before it. Those that are runtimes here stand in their own
//! folders (`lane` has the mechanism), the others in the table below. What was seen of each is in
//! `NOTES.md`.

use crate::Runtime as _;
use crate::registry;
use contract::Card;
use contract::card::CardEvidence::{self, Documented};
use contract::card::{ModelList, Requirement};

/// One agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// What `ostler run` takes.
    pub id: &'static str,
    pub label: &'static str,
    pub binary: &'static str,
    pub args: &'static [&'static str],
    pub version_args: &'static [&'static str],
    pub install_hint: &'static str,
    pub evidence: CardEvidence,
}

const VERSION: &[&str] = &["--version"];

/// A row of the agents, with what nearly all of them share.
pub(crate) const fn row(
    (id, label): (&'static str, &'static str),
    (binary, args): (&'static str, &'static [&'static str]),
    install_hint: &'static str,
    evidence: CardEvidence,
) -> Known {
    Known { id, label, binary, args, version_args: VERSION, install_hint, evidence }
}

/// Every agent that speaks ACP and is no runtime of its own here.
const STRANGERS: &[Known] = &[
    row(
        ("auggie-acp", "Auggie"),
        ("auggie", &["--acp"]),
        "npm install -g @augmentcode/auggie",
        Documented,
    ),
    row(
        ("cursor-acp", "Cursor"),
        ("cursor-agent", &["acp"]),
        "see cursor.com/cli for its installer",
        Documented,
    ),
    // Without its own mode for asking it would ask nobody, and in a directory that it does not trust
    // yet it would wait for a person at a terminal.
    row(
        ("devin-acp", "Devin"),
        ("devin", &["--permission-mode", "normal", "--respect-workspace-trust", "false", "acp"]),
        "see docs.devin.ai for its installer",
        Documented,
    ),
    row(
        ("goose-acp", "goose"),
        ("goose", &["acp"]),
        "see the goose documentation for its installer",
        Documented,
    ),
    row(
        ("kimi-acp", "Kimi"),
        ("kimi", &["acp"]),
        "see kimi.com/code for its installer",
        Documented,
    ),
    row(("kiro-acp", "Kiro"), ("kiro-cli", &["acp"]), "see kiro.dev for its installer", Documented),
    row(
        ("qwen-acp", "Qwen Code"),
        ("qwen", &["--acp"]),
        "npm install -g @qwen-code/qwen-code",
        Documented,
    ),
    row(("vibe-acp", "Mistral Vibe"), ("vibe-acp", &[]), "pip install mistral-vibe", Documented),
];

/// Every agent that is known by name, in the order people see.
pub fn all() -> impl Iterator<Item = &'static Known> {
    registry::by_acp().iter().map(|laned| &laned.known).chain(STRANGERS)
}

/// The agent of this name.
pub fn find(id: &str) -> Option<&'static Known> {
    all().find(|known| known.id == id)
}

/// The agent whose program this is: a name on PATH, or a path that ends in it.
pub fn by_binary(binary: &str) -> Option<&'static Known> {
    let name = binary.rsplit('/').next().filter(|name| !name.is_empty())?;
    all().find(|known| known.binary == name)
}

/// The card of an agent that is known by name: that of its runtime on this lane, or that of any agent
/// that speaks ACP, with what is known of this one.
pub fn card(known: &Known) -> Card {
    let runtime = super::lane::runtime_of(known).and_then(registry::find);
    let laned = runtime.and_then(super::lane::ByAcp::of);
    let mut card = match &laned {
        Some(laned) => laned.card(),
        None => super::Acp.card(),
    };
    introduce(&mut card, known);
    card
}

/// Puts over a card what is known of an agent by its name.
pub fn introduce(card: &mut Card, known: &Known) {
    let words =
        |words: &[&str]| -> Vec<String> { words.iter().map(|word| (*word).to_owned()).collect() };
    let version_args = words(known.version_args);
    let (binary, install_hint) = (known.binary.to_owned(), known.install_hint.to_owned());
    card.requires = vec![Requirement { binary, version_args, install_hint }];
    known.id.clone_into(&mut card.id);
    known.label.clone_into(&mut card.label);
    card.evidence = known.evidence;
    card.handshake = super::handshake(&words(known.args));
    card.model_list = Some(ModelList::Session);
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::card::CardEvidence::Recorded;
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    #[test]
    fn every_name_is_free_and_every_row_whole() {
        let ids: BTreeSet<_> = all().map(|known| known.id).collect();
        assert_eq!(ids.len(), all().count(), "two agents share a name");
        for known in all() {
            assert!(registry::find(known.id).is_none(), "{} is a runtime", known.id);
            assert!(!known.install_hint.is_empty() && !known.label.is_empty(), "{}", known.id);
            assert!(find(known.id).is_some());
        }
    }

    #[test]
    fn what_is_called_recorded_was_recorded_with_this_command() {
        let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "src/acp/recordings"].iter().collect();
        let mut commands = BTreeSet::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.to_string_lossy().ends_with("-hello.meta.json") {
                let text = std::fs::read_to_string(path).unwrap();
                let meta: serde_json::Value = serde_json::from_str(&text).unwrap();
                let argv: Vec<_> = meta["argv"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|arg| arg.as_str().unwrap())
                    .collect();
                let program = argv[0].rsplit('/').next().unwrap();
                commands.insert([&[program], &argv[1..]].concat().join(" "));
            }
        }
        for known in all().filter(|known| known.evidence == Recorded) {
            let command = [&[known.binary], known.args].concat().join(" ");
            // Flags that only add a log to stderr were found later.
            let recorded = commands.iter().any(|recorded| command.starts_with(recorded.as_str()));
            assert!(recorded, "{command} is not among {commands:?}");
        }
    }
}
