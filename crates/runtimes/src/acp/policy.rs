//! Holds what an agent did against the permission policy. A call that edits, deletes, moves or
//! executes and went through without a question that was answered with yes breaks every policy but
//! `allow-all`: the agent is cancelled and the run ends as `policy_broken`, naming the call.
//!
//! Counted as asked for: the call itself; a call of the same kind that was open when the question was
//! allowed, because some agents ask once for several calls; a question under another id, or without
//! one, that no reported call has; and every later call of a kind that was allowed for always. Not
//! judged: calls of Ostler's own tools, which the relay judges; commands that only read; commands in
//! the mode in which codex runs them in a read-only sandbox; and the history of a session that is
//! taken up again. The reasons are in
//! `docs/decisions/0023-a-policy-is-held-against-what-is-seen.md`.

use super::ear::Ear;
use super::state::{Asked, OpenCall, short};
use super::wire::Call;
use contract::{Policy, Signal, limits};
use serde_json::Value;

/// Kinds of calls that change something.
const CHANGING: [&str; 4] = ["edit", "delete", "move", "execute"];
const EXECUTE: &str = "execute";
/// What the name or the title of a call of Ostler's own tools begins with, by agent.
const OWN_TOOLS: [&str; 6] =
    ["mcp__ostler__", "mcp_ostler_", "ostler_", "ostler__", "ostler:", "ostler-"];
/// How one agent writes the same in a title.
const OWN_SERVER: &str = "(ostler MCP Server)";
/// Commands that only read, whatever their arguments are.
const READING: [&str; 24] = [
    "basename", "cat", "cut", "date", "df", "dirname", "du", "echo", "false", "file", "grep",
    "head", "ls", "printf", "pwd", "realpath", "rg", "stat", "tail", "test", "true", "uname", "wc",
    "which",
];
/// The longest output that says so: a longer one is that of a call that did something.
const NOT_EXECUTED_BYTES_MAX: usize = 400;
/// Words with which agents say of a denied call, which they report as completed, that it did not
/// happen.
const NOT_EXECUTED: [&str; 2] = ["not executed", "user rejected the tool call"];
/// Subcommands of git that only read, when no option names a program or a file to write.
const READING_GIT: [&str; 6] = ["blame", "diff", "log", "ls-files", "show", "status"];

/// Whether a shell command only reads: simple commands of a short list, joined by `|`, `&&`, `||`
/// or `;`. Redirections, substitutions, variables and everything else that is not known count as
/// a change.
pub(super) fn only_reads(command: &str) -> bool {
    let odd = |char: char| matches!(char, '>' | '<' | '`' | '$' | '(' | ')' | '{' | '}' | '\\');
    if command.contains(odd) || command.contains('\n') {
        return false;
    }
    // A single `&` starts a command in the background; `&&` only joins two.
    let joined = command.replace("&&", ";").replace("||", ";");
    if joined.contains('&') {
        return false;
    }
    let mut simple = joined.split([';', '|']).map(str::trim).peekable();
    simple.peek().is_some_and(|first| !first.is_empty())
        && simple.filter(|part| !part.is_empty()).all(reads_alone)
}

fn reads_alone(command: &str) -> bool {
    let mut words = command.split_whitespace();
    match words.next() {
        Some("git") => {
            let verb = words.next().unwrap_or_default();
            let writes = |word: &str| word.starts_with("--output") || word.starts_with("--ext");
            READING_GIT.contains(&verb) && !words.any(writes)
        }
        // `--pre` names a program that is run for every file.
        Some("rg") => !words.any(|word| word.starts_with("--pre")),
        Some("date") => !words.any(|word| word.starts_with("-s") || word.starts_with("--s")),
        Some(word) => READING.contains(&word),
        None => false,
    }
}

/// The command of a call, where its input has one.
fn command(input: &Value) -> Option<String> {
    match &input["command"] {
        Value::String(command) => Some(command.clone()),
        Value::Array(words) => {
            let words: Option<Vec<_>> = words.iter().map(Value::as_str).collect();
            match words?.as_slice() {
                // A shell that is given a script.
                [shell, flag, script] if shell.ends_with("sh") && flag.ends_with('c') => {
                    Some((*script).to_owned())
                }
                words => Some(words.join(" ")),
            }
        }
        _ => None,
    }
}

/// Whether the output of a denied call says that it did not happen.
pub(super) fn says_not_executed(output: &Value) -> bool {
    let output = output.to_string();
    if output.len() > NOT_EXECUTED_BYTES_MAX {
        return false;
    }
    let output = output.to_lowercase();
    NOT_EXECUTED.iter().any(|words| output.contains(words))
}

impl OpenCall {
    /// The kind that the policy is about; a call with changes of files is an edit whatever it says.
    fn changing_kind(&self) -> Option<&str> {
        let kind = self.kind.as_deref().filter(|kind| CHANGING.contains(kind));
        kind.or_else(|| (!self.diffs.is_empty()).then_some("edit"))
    }

    /// How a person recognises the call.
    fn shown(&self) -> String {
        let kind = self.changing_kind().unwrap_or("tool");
        let title = self.called.as_deref().unwrap_or(&self.id);
        let title = &title[..title.floor_char_boundary(limits::PREVIEW_BYTES / 4)];
        format!("the {kind} call '{title}'")
    }
}

impl Ear<'_> {
    /// Remembers of a call what the policy is about.
    pub(super) fn note_conduct(&mut self, id: &str, call: &Call, reported: bool) {
        let own = [&call.name, &call.title].into_iter().flatten().any(|text| is_own(text));
        let command = call.raw_input.as_ref().and_then(command);
        let Some(open) = self.state.call(id) else { return };
        open.reported |= reported;
        open.own |= own;
        open.kind = short(call.kind.clone()).or(open.kind.take());
        open.called = short(call.title.clone()).or(open.called.take());
        open.only_reads = command.map_or(open.only_reads, |command| only_reads(&command));
    }

    /// A question was allowed: for the call it names, and for those of its kind that are open.
    pub(super) fn note_allowed(&mut self, asked: &Asked, option: &str) {
        let call = asked.tool_call_id.as_deref().and_then(|id| self.state.call(id));
        let kind = call.as_ref().and_then(|call| call.kind.clone()).or(asked.kind.clone());
        let named = call.is_some();
        for open in &mut self.state.open {
            let same = Some(open.id.as_str()) == asked.tool_call_id.as_deref();
            let alike = open.reported && !open.denied && open.kind == kind;
            open.allowed |= same || alike;
        }
        let kind = kind.unwrap_or_default();
        if asked.always.iter().any(|id| id == option) && !self.state.always_allowed.contains(&kind)
        {
            self.state.always_allowed.push(kind.clone());
            self.state.always_allowed.truncate(limits::TOOL_CALLS_OPEN_MAX);
        }
        if !named && self.state.allowed_apart.len() < limits::TOOL_CALLS_OPEN_MAX {
            self.state.allowed_apart.push(kind);
        }
    }

    /// A question under an id of its own was denied: it was about the reported calls that have the
    /// same input.
    pub(super) fn note_denied(&mut self, input: u64) {
        let same = |open: &&mut OpenCall| open.reported && open.input == input;
        self.state.open.iter_mut().filter(same).for_each(|open| open.denied = true);
    }

    /// Holds a call that went through against the policy.
    pub(super) fn judge_conduct(&mut self, call: &OpenCall) {
        if self.state.wanted.policy == Policy::AllowAll || call.own || call.allowed {
            return;
        }
        let Some(kind) = call.changing_kind() else { return };
        let harmless = call.only_reads || self.state.sandboxed;
        if kind == EXECUTE && call.diffs.is_empty() && harmless {
            return;
        }
        let kind = kind.to_owned();
        if !call.denied && self.was_allowed_otherwise(&kind) {
            return;
        }
        let policy = self.state.wanted.policy.word();
        let how = if call.denied { "although it was denied" } else { "without asking" };
        self.break_policy(format!("under {policy} {} was carried out {how}", call.shown()));
    }

    /// Takes up an answer that names no reported call, or one that was given for always.
    fn was_allowed_otherwise(&mut self, kind: &str) -> bool {
        let fits = |allowed: &str| allowed == kind || allowed.is_empty();
        if self.state.always_allowed.iter().any(|allowed| fits(allowed)) {
            return true;
        }
        if let Some(place) = self.state.allowed_apart.iter().position(|allowed| fits(allowed)) {
            self.state.allowed_apart.remove(place);
            return true;
        }
        let mut open = self.state.open.iter_mut();
        let asked_about = |call: &&mut OpenCall| {
            call.allowed && !call.reported && fits(call.kind.as_deref().unwrap_or_default())
        };
        let apart = open.find(asked_about);
        apart.is_some_and(|apart| std::mem::take(&mut apart.allowed))
    }

    /// A call that cannot be followed, because it is not the session's own or too many are open.
    pub(super) fn judge_stranger(&mut self, call: &Call, has_diffs: bool) {
        let ended = call.status.as_deref() == Some("completed");
        let Some(id) = call.tool_call_id.as_deref().filter(|_| ended) else { return };
        let known = self.state.open.iter().find(|open| open.id == id).cloned();
        let mut open = known.unwrap_or_default();
        open.kind = call.kind.clone().or(open.kind);
        open.called = call.title.clone().or(open.called).or_else(|| Some(id.to_owned()));
        open.own |= [&call.name, &call.title].into_iter().flatten().any(|text| is_own(text));
        let command = call.raw_input.as_ref().and_then(command);
        open.only_reads |= command.is_some_and(|command| only_reads(&command));
        if has_diffs {
            open.kind = Some("edit".to_owned());
        }
        self.judge_conduct(&open);
    }

    fn break_policy(&mut self, what: String) {
        if std::mem::replace(&mut self.state.policy_broken, true) {
            return;
        }
        let cancel = self.state.cancel();
        self.out.frames.extend(cancel);
        self.signal(Signal::PolicyBroken { what });
    }
}

fn is_own(text: &str) -> bool {
    OWN_TOOLS.iter().any(|own| text.starts_with(own)) || text.ends_with(OWN_SERVER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_only_read_are_told_apart() {
        let rows = [
            ("ls", true),
            ("ls -la src | head -5", true),
            ("cat a.txt && wc -l a.txt; pwd", true),
            ("git status --short", true),
            ("grep -rn needle .", true),
            ("", false),
            (" ; ", false),
            ("echo one > one.txt", false),
            ("cat $(rm x)", false),
            ("ls `rm x`", false),
            ("ls & rm x", false),
            ("ls\nrm x", false),
            ("ls; rm x", false),
            ("git commit -m x", false),
            ("git diff --output=x", false),
            ("git -c core.pager=x log", false),
            ("rg --pre ./x needle", false),
            ("date -s tomorrow", false),
            ("find . -delete", false),
            ("sort -o x x", false),
            ("python3 x.py", false),
            ("FOO=1 ls", false),
        ];
        for (command, reads) in rows {
            assert_eq!(only_reads(command), reads, "{command}");
        }
    }

    #[test]
    fn a_command_is_read_from_text_and_from_words() {
        let rows = [
            (serde_json::json!({ "command": "ls" }), Some("ls")),
            (serde_json::json!({ "command": ["bash", "-lc", "rm x"] }), Some("rm x")),
            (serde_json::json!({ "command": ["ls", "-l"] }), Some("ls -l")),
            (serde_json::json!({ "path": "x" }), None),
        ];
        for (input, expected) in rows {
            assert_eq!(command(&input).as_deref(), expected, "{input}");
        }
    }
}
