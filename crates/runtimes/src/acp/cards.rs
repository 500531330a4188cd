//! Agents that speak ACP, by name: what to start, how it tells its version, how it is installed, and
//! whether it was seen at work. Data only: all of them are driven by the one runtime, and what is
//! configured under a name of these comes before it. What was seen of each is in `NOTES.md`.

use contract::card::CardEvidence::{self, Documented, Recorded};

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

const fn row(
    (id, label): (&'static str, &'static str),
    (binary, args): (&'static str, &'static [&'static str]),
    install_hint: &'static str,
    evidence: CardEvidence,
) -> Known {
    Known { id, label, binary, args, version_args: VERSION, install_hint, evidence }
}

/// Every agent that is known by name.
pub const KNOWN: &[Known] = &[
    row(
        ("claude-acp", "Claude Code, by its bridge"),
        ("claude-agent-acp", &[]),
        "npm install -g @agentclientprotocol/claude-agent-acp",
        Recorded,
    ),
    row(
        ("codex-acp", "Codex, by its bridge"),
        ("codex-acp", &[]),
        "npm install -g @agentclientprotocol/codex-acp",
        Recorded,
    ),
    row(
        ("copilot-acp", "GitHub Copilot"),
        ("copilot", &["--acp"]),
        "npm install -g @github/copilot",
        Recorded,
    ),
    row(
        ("droid-acp", "Factory Droid"),
        ("droid", &["exec", "--output-format", "acp"]),
        "npm install -g @factory/cli",
        Recorded,
    ),
    row(
        ("gemini-acp", "Gemini CLI"),
        ("gemini", &["--acp"]),
        "npm install -g @google/gemini-cli",
        Recorded,
    ),
    row(("hermes-acp", "Hermes"), ("hermes-acp", &[]), "pip install 'hermes-agent[acp]'", Recorded),
    row(("kilo-acp", "Kilo"), ("kilo", &["acp"]), "npm install -g @kilocode/cli", Recorded),
    row(
        ("opencode-acp", "OpenCode"),
        ("opencode", &["acp"]),
        "npm install -g opencode-ai",
        Recorded,
    ),
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

/// The agent of this name.
pub fn find(id: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry;
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    #[test]
    fn every_name_is_free_and_every_row_whole() {
        let ids: BTreeSet<_> = KNOWN.iter().map(|known| known.id).collect();
        assert_eq!(ids.len(), KNOWN.len(), "two agents share a name");
        for known in KNOWN {
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
        for known in KNOWN.iter().filter(|known| known.evidence == Recorded) {
            let command = [&[known.binary], known.args].concat().join(" ");
            assert!(commands.contains(&command), "{command} is not among {commands:?}");
        }
    }
}
