//! Says of a session mode whether an agent asks in it before it acts. Ids are compared without case,
//! `-`, `_` and spaces, because agents spell the same mode in many ways; where an id is not known, the
//! mode's name and description decide. Text that states both is believed in its less safe sense, and a
//! promise with a negation beside it ("asks for nothing") is none. What follows from a kind is decided
//! in `mode`.

use serde::{Deserialize, Serialize};

/// The conduct of an agent in one of its modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ModeKind {
    /// It asks before it changes anything.
    Asks,
    /// It changes nothing.
    Holds,
    /// It changes something without asking.
    Loose,
    /// Neither the id nor the description says.
    Unknown,
}

const ASKING_IDS: &[&str] = &[
    super::mode::MADE_UP,
    "default",
    "normal",
    "ask",
    "ask-always",
    "always-ask",
    "ask-before-edits",
    "manual",
    "manual-approval",
    "confirm",
    "supervised",
    "https://agentclientprotocol.com/protocol/session-modes#agent",
];
const HOLDING_IDS: &[&str] = &["read-only", "plan", "architect"];
const LOOSE_IDS: &[&str] = &[
    "accept-all",
    "accept-edits",
    "accept-everything",
    "agent-full-access",
    "allow-all",
    "auto",
    "auto-accept",
    "auto-approve",
    "auto-edit",
    "auto-high",
    "auto-low",
    "auto-medium",
    "autonomous",
    "autopilot",
    "bypass",
    "bypass-permissions",
    "dangerous",
    "dont-ask",
    "full-access",
    "full-auto",
    "https://agentclientprotocol.com/protocol/session-modes#autopilot",
    "never-ask",
    "workspace-write",
    "yolo",
];
/// Words of a description after which something is done without a question.
const LOOSE_WORDS: &[&str] = &[
    "accept all",
    "accepts all",
    "accept edits",
    "accept everything",
    "allow-all",
    "auto-accept",
    "auto-allow",
    "auto-approv",
    "auto approv",
    "auto accept",
    "automatically accept",
    "automatically approv",
    "automatically allow",
    "autonomous",
    "bypass",
    "don't ask",
    "full access",
    "full auto",
    "never ask",
    "no approval",
    "no confirmation",
    "only ask for",
    "only asks for",
    "outside the workspace",
    "outside this workspace",
    "other files",
    "skip permission",
    "skips permission",
    "unrestricted",
    "without approval",
    "without asking",
    "without confirm",
    "without permission",
    "without prompting",
    "yolo",
];
const ASKING_WORDS: &[&str] = &[
    "always ask",
    "approval is required",
    "approval for",
    "ask before",
    "ask for approval",
    "ask for permission",
    "ask permission",
    "asks before",
    "asks for",
    "asks permission",
    "confirm before",
    "only read operations",
    "prompts before",
    "prompts for",
    "prompt for",
    "require approval",
    "requires approval",
    "require confirmation",
    "requires confirmation",
    "require permission",
    "requires permission",
];
const HOLDING_WORDS: &[&str] = &[
    "disallows all edit",
    "makes no changes",
    "no actual tool execution",
    "no edits",
    "no tool execution",
    "read only",
    "read-only",
    "readonly",
    "without making changes",
];

/// Words that turn a promise beside them into its opposite.
const NEGATIONS: &[&str] = &["never", "nobody", "none", "not", "nothing"];

/// The kind of a mode, by its id and by what the agent says of it.
pub(super) fn kind(id: &str, said: &str) -> ModeKind {
    let listed = |ids: &[&str]| ids.iter().any(|known| plain(known) == plain(id));
    let said = said.to_lowercase();
    let clauses = || said.split(['.', ',', ';', ':', '(', ')', '\n']);
    let promises = |words: &[&str], denied: bool| {
        let of_kind = |clause: &&str| is_negated(clause) == denied;
        clauses().filter(of_kind).any(|clause| words.iter().any(|word| clause.contains(word)))
    };
    let loose = LOOSE_WORDS.iter().any(|word| said.contains(word));
    let (asks, holds) = (promises(ASKING_WORDS, false), promises(HOLDING_WORDS, false));
    let denied = promises(ASKING_WORDS, true) || promises(HOLDING_WORDS, true);
    if listed(LOOSE_IDS) || loose && !asks && !listed(HOLDING_IDS) {
        ModeKind::Loose
    } else if denied && !asks && !holds {
        if loose { ModeKind::Loose } else { ModeKind::Unknown }
    } else if listed(HOLDING_IDS) || holds && !asks && !loose {
        ModeKind::Holds
    } else if listed(ASKING_IDS) {
        ModeKind::Asks
    } else if loose {
        ModeKind::Loose
    } else if asks {
        ModeKind::Asks
    } else {
        ModeKind::Unknown
    }
}

/// Whether an agent runs commands in a read-only sandbox in this mode. The mode is that of codex; in
/// the modes that others offer for planning, commands run like everywhere else.
pub(super) fn is_sandboxed(id: &str) -> bool {
    plain(id) == "readonly"
}

/// Whether a part of a sentence says "not".
fn is_negated(clause: &str) -> bool {
    let mut words = clause.split(|char: char| !char.is_alphanumeric() && !"'’".contains(char));
    words.any(|word| NEGATIONS.contains(&word) || word.ends_with("n't") || word.ends_with("n’t"))
}

/// An id without what agents spell differently.
fn plain(id: &str) -> String {
    id.chars().filter(|char| char.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::ModeKind::{Asks, Holds, Loose, Unknown};
    use super::*;

    #[test]
    fn modes_are_known_by_id_and_description() {
        let rows = [
            // Ids in every spelling.
            ("default", "", Asks),
            ("Default", "", Asks),
            ("ask", "Requires approval for tool executions", Asks),
            ("manual", "", Asks),
            ("ask_before_edits", "Ask permission before edits, writes, shell commands", Asks),
            ("https://agentclientprotocol.com/protocol/session-modes#agent", "Agent", Asks),
            ("accept-edits", "", Loose),
            ("accept_edits", "", Loose),
            ("acceptEdits", "", Loose),
            ("YOLO", "", Loose),
            ("auto-approve", "", Loose),
            ("auto_edit", "", Loose),
            ("Bypass Permissions", "", Loose),
            ("read-only", "Requires approval to edit files and access the internet.", Holds),
            ("plan", "Create a plan before making changes", Holds),
            // Descriptions, where the id is not known.
            ("careful", "Requires approval for tool executions", Asks),
            ("chat", "Prompts for approval before every tool", Asks),
            ("spec", "Build feature specs (read-only)", Holds),
            ("turbo", "Auto-approves all tools", Loose),
            ("fast", "Runs every tool without asking", Loose),
            ("edits", "Auto-accept edit operations, but ask before shell commands", Loose),
            // A description that contradicts a known id is believed.
            ("ask", "Get answers without making changes to the codebase.", Holds),
            ("default", "Auto-approves all tools", Loose),
            // One that only restricts it is not taken for a contradiction.
            ("normal", "Auto-approves only read operations", Asks),
            ("workspace-write", "Edit workspace files; ask before writing outside", Loose),
            ("agent", "Only ask for actions detected as potentially unsafe", Loose),
            // A promise that is denied is none, and contradicts a known id.
            ("careful", "Asks for nothing", Unknown),
            ("careful", "Requires approval for nothing", Unknown),
            ("careful", "Never asks for permission", Loose),
            ("careful", "Doesn't ask for permission", Unknown),
            ("ask", "Asks for nothing", Unknown),
            ("viewer", "Not read-only: writes everything", Unknown),
            ("plan", "Not read-only: writes everything", Unknown),
            ("ask", "Requires approval for every tool; never touches other directories", Asks),
            ("careful", "Asks before edits. Does not run commands.", Asks),
            // Nothing is known.
            ("build", "The default agent. Executes tools by configured permissions.", Unknown),
            ("agent", "", Unknown),
            ("", "", Unknown),
        ];
        for (id, said, expected) in rows {
            assert_eq!(kind(id, said), expected, "{id}: {said}");
        }
    }
}
