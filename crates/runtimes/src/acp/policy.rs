//! Holds what an agent did against the permission policy. A call that edits, deletes, moves or
//! executes and went through without a question that was answered with yes breaks every policy but
//! `allow-all`: the agent is cancelled and the run ends as `policy_broken`, naming the call.
//!
//! Counted as asked for: the call itself; a call of the same kind that was open when the question was
//! allowed, because some agents ask once for several calls; a question under another id, or without
//! one, that no reported call has; and every later call of a kind that was allowed for always. Not
//! judged: calls of Ostler's own tools that came by the relay, which judges them; commands that only
//! read; commands in the mode in which codex runs them in a read-only sandbox; and the history of a
//! session that is taken up again. The reasons are in
//! `docs/decisions/0023-a-policy-is-held-against-what-is-seen.md` and
//! `docs/decisions/0027-a-mode-is-held-for-the-whole-run.md`.

use super::call::end_of;
use super::ear::Ear;
use super::state::{Asked, NAME_BYTES_MAX, OpenCall, State, short};
use super::wire::Call;
use contract::event::ToolStatus;
use contract::{Policy, Signal, limits};
use serde_json::Value;

/// Kinds of calls that change nothing, in the protocol's words. A kind that it does not have may
/// change something, for example `write`.
const HARMLESS: [&str; 6] = ["read", "search", "think", "fetch", "switch_mode", "other"];
const EXECUTE: &str = "execute";
/// Kinds of calls that change files, whatever command stands in their input.
const FILES: [&str; 3] = ["edit", "delete", "move"];
/// Tools of Ostler's own that are remembered as called.
const RELAYED_MAX: usize = 256;
/// What stands before the tool's name in the name or the title of a call of Ostler's own tools, by
/// agent.
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
    // Quotes hide an option from a comparison, not from the program. A quoted text with spaces is
    // taken for several words, which only makes more commands count as changes.
    let command = command.replace(['\'', '"'], "");
    let mut words = command.split_whitespace();
    let Some(program) = words.next() else { return false };
    let mut has_option =
        |options: &[&str]| words.any(|word| options.iter().any(|option| word.starts_with(option)));
    match program {
        "git" => {
            let verb = words.next().unwrap_or_default();
            let writes = |word: &str| word.starts_with("--ou") || word.starts_with("--ext");
            READING_GIT.contains(&verb) && !words.any(writes)
        }
        // Each names a program that is run.
        "rg" => !has_option(&["--pre", "--hostname-bin"]),
        "date" => !has_option(&["-s", "--s"]),
        // `-C`, also among other letters, and `--compile` write a file.
        "file" => {
            let compiles = |word: &str| match word.strip_prefix('-') {
                Some(letters) => letters.starts_with("-c") || letters.contains('C'),
                None => false,
            };
            !words.any(compiles)
        }
        program => READING.contains(&program),
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
        let kind = self.kind.as_deref().filter(|kind| !HARMLESS.contains(kind));
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
        let command = call.raw_input.as_ref().and_then(command);
        let Some(open) = self.state.call(id) else { return };
        open.reported |= reported;
        open.own_tool = own_tool(call).or(open.own_tool.take());
        open.kind = kind(call).or(open.kind.take());
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
        if !self.needs_leave(call) {
            return;
        }
        let policy = self.state.wanted.policy.word();
        let how = if call.denied { "although it was denied" } else { "without asking" };
        self.break_policy(format!("under {policy} {} was carried out {how}", call.shown()));
    }

    /// Holds a call whose end was never told against the policy, when its turn ended well. What printed
    /// something has run, and so has what was under way with the change of a file; of the others
    /// nothing is known, and that is said.
    pub(super) fn judge_unended(&mut self, call: &OpenCall, ended_well: bool) {
        let under_way = call.status.as_deref() == Some("in_progress") && !call.diffs.is_empty();
        if !call.printed.is_empty() || ended_well && under_way && !call.denied {
            self.judge_conduct(call);
        } else if ended_well && call.reported && !call.denied && self.needs_leave(call) {
            let shown = call.shown();
            self.warn(&format!("{shown} was not asked for, and its end was not reported"));
        }
    }

    /// Whether a call that went through breaks the policy. An answer that is good for one call is
    /// taken up by it.
    fn needs_leave(&mut self, call: &OpenCall) -> bool {
        let all = self.state.wanted.policy == Policy::AllowAll;
        if all || call.allowed || self.is_relayed(call) {
            return false;
        }
        let Some(kind) = call.changing_kind() else { return false };
        let only_reads = call.only_reads && !FILES.contains(&kind);
        let harmless = only_reads || self.state.sandboxed && kind == EXECUTE;
        if harmless && call.diffs.is_empty() {
            return false;
        }
        let kind = kind.to_owned();
        call.denied || !self.was_allowed_otherwise(&kind)
    }

    /// Whether this is a call of one of Ostler's own tools: only of one that came by the relay in this
    /// run, because a title may begin like it, for example with the name of a file.
    fn is_relayed(&self, call: &OpenCall) -> bool {
        call.own_names().any(|name| self.state.relayed.contains(&name))
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
        let ended = call.status.as_deref().and_then(end_of) == Some(ToolStatus::Ok);
        let Some(id) = call.tool_call_id.as_deref().filter(|_| ended) else { return };
        let known = self.state.open.iter().find(|open| open.id == id).cloned();
        let mut open = known.unwrap_or_default();
        open.kind = kind(call).or(open.kind);
        open.called = call.title.clone().or(open.called).or_else(|| Some(id.to_owned()));
        open.own_tool = own_tool(call).or(open.own_tool);
        let command = call.raw_input.as_ref().and_then(command);
        open.only_reads |= command.is_some_and(|command| only_reads(&command));
        if has_diffs {
            open.kind = Some("edit".to_owned());
        }
        self.judge_conduct(&open);
    }

    /// Ends the run for what the agent did. It is told once.
    pub(super) fn break_policy(&mut self, what: String) {
        if std::mem::replace(&mut self.state.policy_broken, true) {
            return;
        }
        let cancel = self.state.cancel();
        self.out.frames.extend(cancel);
        self.signal(Signal::PolicyBroken { what });
    }
}

impl OpenCall {
    /// The names of a tool of Ostler's own that this call may be of.
    fn own_names(&self) -> impl Iterator<Item = String> {
        let text = self.own_tool.as_deref().unwrap_or_default();
        let named = OWN_TOOLS.iter().filter_map(move |own| text.strip_prefix(own));
        named.chain(text.strip_suffix(OWN_SERVER)).map(plain_tool)
    }
}

impl State {
    /// Remembers that a tool of Ostler's own was called by the relay. Gives the call that the agent
    /// reported of it, if only one can be meant.
    pub(super) fn note_relayed(&mut self, tool: &str) -> Option<String> {
        let tool = plain_tool(tool);
        let mut calls = self.open.iter().filter(|call| call.own_names().any(|name| name == tool));
        let call = calls.next().filter(|_| calls.next().is_none()).map(|call| call.id.clone());
        let room = self.relayed.len() < RELAYED_MAX && tool.len() <= NAME_BYTES_MAX;
        if room && !self.relayed.contains(&tool) {
            self.relayed.push(tool);
        }
        call
    }
}

/// The kind of a call as the protocol spells it.
pub(super) fn kind(call: &Call) -> Option<String> {
    short(call.kind.as_ref().map(|kind| kind.to_lowercase()).filter(|kind| !kind.is_empty()))
}

/// The name or the title under which a call may be one of Ostler's own tools.
fn own_tool(call: &Call) -> Option<String> {
    let is_own = |text: &&String| {
        OWN_TOOLS.iter().any(|own| text.starts_with(own)) || text.ends_with(OWN_SERVER)
    };
    short([&call.name, &call.title].into_iter().flatten().find(is_own).cloned())
}

/// The name of a tool without what agents spell differently.
fn plain_tool(name: &str) -> String {
    let plain = |char: char| if char.is_alphanumeric() { char } else { '_' };
    name.trim().chars().map(plain).flat_map(char::to_lowercase).collect()
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
            // Quotes are not part of an option.
            ("git log --format='%h %s' --oneline", true),
            ("rg 'a b' src", true),
            ("git diff \"--output=x\"", false),
            ("git diff --out'put'=x", false),
            ("git diff --outp=x", false),
            ("rg '--pre=./x' needle", false),
            ("rg --hostname-bin=./x needle", false),
            ("'rm' x", false),
            ("file a.txt", true),
            ("file -C -m magic", false),
            ("file -bC -m magic", false),
            ("file '--compile' -m magic", false),
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
