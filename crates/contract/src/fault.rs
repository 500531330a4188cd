//! The one fault table: code → exit status → HTTP status → retry → what to say and what to do.
//! Nothing else in the house decides wording, exit codes or statuses.

use crate::known::{UNKNOWN, Words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// When the same thing may be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Retry {
    No,
    /// Once, at once.
    Once,
    /// After 2 min, 10 min, 30 min and 2 h, each ± 25 %, at most four times.
    Backoff,
    /// When the provider's window resets.
    AtReset,
    /// By continuing the native session, at most twice.
    Resume,
    /// By another run with a higher fence.
    Requeue,
    /// After a person has mended something.
    AfterFix,
    /// When a person says so.
    Person,
}

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    pub code: Code,
    pub word: &'static str,
    pub exit: u8,
    pub http: u16,
    pub retry: Retry,
    /// The first line a person reads, before the particulars.
    pub message: &'static str,
    /// What to do next, for a person at a terminal.
    pub hint: &'static str,
}

/// The place where a fault is read, which decides the words of its hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Surface {
    /// A terminal: commands and flags of `ostler`.
    Cli,
    /// The HTTP API: methods, addresses and fields.
    Api,
    /// A model that calls tools over MCP: names of tools and their arguments.
    Tool,
}

/// Whether a hint names a command or a flag of `ostler`, which only a person at a terminal can use.
fn names_command(hint: &str) -> bool {
    hint.contains("`ostler ") || hint.split([' ', '`', '(']).any(|word| word.starts_with("--"))
}

/// The row of a fault that only a newer version knows.
const UNKNOWN_ROW: Row = Row {
    code: Code::Unknown,
    word: UNKNOWN,
    exit: 1,
    http: 500,
    retry: Retry::No,
    message: "a newer version of Ostler named this fault",
    hint: "use that version or a newer one to see what it is",
};

macro_rules! table {
    ($($exit:literal $http:literal $retry:ident $code:ident $word:literal, $message:literal, $hint:literal;)+) => {
        /// A named fault. The words are stable: users and tests rely on them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum Code {
            $(#[serde(rename = $word)] $code,)+
            // A fault of a newer version, which this one can only show.
            #[serde(rename = "unknown", other)]
            Unknown,
        }

        impl Code {
            /// Every fault of this version.
            pub const ALL: &'static [Self] = &[$(Self::$code),+];

            pub const fn row(self) -> Row {
                match self {
                    $(Self::$code => Row {
                        code: Self::$code,
                        word: $word,
                        exit: $exit,
                        http: $http,
                        retry: Retry::$retry,
                        message: $message,
                        hint: $hint,
                    },)+
                    Self::Unknown => UNKNOWN_ROW,
                }
            }
        }

        impl Words for Code {
            const WORDS: &'static [&'static str] = &[$($word),+];

            fn from_word(word: &str) -> Option<Self> {
                Self::from_word(word)
            }
        }
    };
}

table! {
    1 500 No InternalError "internal_error", "something inside Ostler went wrong", "please report it with the output of the same command and --debug";
    2 400 No Usage "usage", "the command or request is not valid", "see --help";
    2 405 No MethodNotAllowed "method_not_allowed", "this address does not accept that method", "see /api/v1/openapi.json for the methods that it accepts";
    2 413 No TooLarge "too_large", "the request is larger than the limit", "send less, or send it in parts";
    2 415 No UnsupportedMedia "unsupported_media", "the request is not JSON", "send content-type: application/json";
    3 422 No InvalidConfig "invalid_config", "the configuration is not valid", "fix the named key; `ostler config schema` prints what is allowed";
    3 422 No UnknownAgent "unknown_agent", "no agent, adapter or runtime has this name", "`ostler runtimes` lists the names; an adapter in ostler.json adds one";
    3 422 No UnknownPlaceholder "unknown_placeholder", "a placeholder is not known", "see the placeholders in docs/configuration.md";
    3 422 No BadWorkspace "bad_workspace", "the working directory cannot be used", "give an existing directory with --cwd";
    3 422 No PolicyNotPossible "policy_not_possible", "this runtime cannot enforce the requested policy", "choose another --permission, or use --worktree or another lane";
    3 422 No BudgetNotCountable "budget_not_countable", "the budget cannot be counted", "use --budget-minutes, or add --budget-best-effort to run anyway; in `budgets` of ostler.json, `minutes` or `\"bestEffort\": true`";
    3 422 No PromptTooLarge "prompt_too_large", "the prompt is too large for this runtime's command line", "shorten it, or put it in a file the agent can read";
    3 422 No NotSupported "not_supported", "this is not supported here", "see the agent's card: `ostler runtimes`";
    4 424 No NotInstalled "not_installed", "the agent's program was not found", "install it, or set the adapter's binary to its full path";
    4 424 No SpawnFailed "spawn_failed", "the agent's program could not be started", "check that the file is executable and built for this machine";
    5 401 AfterFix Unauthorized "unauthorized", "the token is missing or wrong", "send authorization: Bearer with the token file of the data directory";
    5 401 AfterFix AuthRequired "auth_required", "the agent is not logged in", "log in with the agent's own command, then run again";
    5 401 AfterFix AuthFailed "auth_failed", "the credentials were refused", "log in again, or check the key";
    5 402 AfterFix Billing "billing", "the provider requires payment", "check the account's billing";
    6 429 AtReset ProviderQuota "provider_quota", "the provider's quota is used up", "wait for the reset, or use another account";
    6 429 Backoff RateLimited "rate_limited", "the provider's rate limit was reached", "wait and try again";
    6 429 Backoff Overloaded "overloaded", "the provider is overloaded", "wait and try again";
    6 429 Backoff UpstreamError "upstream_error", "the provider answered with an error", "wait and try again";
    7 402 Person BudgetExceeded "budget_exceeded", "the budget is used up", "raise the budget and run again";
    8 504 Once TimeoutWall "timeout_wall", "the run took longer than allowed", "raise --timeout or timeoutSec";
    8 504 Once TimeoutSilence "timeout_silence", "the agent was silent for too long", "raise silenceSec, or see what it waits for with `ostler show`";
    8 504 Once TimeoutFirstOutput "timeout_first_output", "the agent did not answer in time", "run its command by hand, and check that it flushes its output; raise firstOutputSec if it starts slowly";
    9 409 No AgentFailed "agent_failed", "the agent reported a failure", "look at the whole run with `ostler show`";
    9 409 No ModelRefusal "model_refusal", "the model refused", "change the prompt";
    9 409 No ModelNotFound "model_not_found", "the model is not known to the provider", "check --model";
    9 409 No AnswerCut "answer_cut", "the answer of the model was cut by its token limit", "continue with --resume and ask for the rest, or raise the output limit of the model";
    9 409 Resume MaxTurns "max_turns", "the agent reached its limit of turns", "continue with --resume";
    9 409 No ContextOverflow "context_overflow", "the conversation no longer fits the model", "start a new conversation with a smaller task";
    9 409 No NativeSessionUnknown "native_session_unknown", "the agent does not know the conversation to resume", "run again without --resume";
    10 502 Once ProcessCrashed "process_crashed", "the agent's process ended with an error", "see its last lines, or the whole run with `ostler show`";
    10 502 No ProcessKilled "process_killed", "the agent's process was killed by another process", "find the process that sent the signal, or check for lack of memory";
    10 502 Once ProcessLost "process_lost", "the agent's process was lost", "run again";
    10 502 Once EndedWithoutResult "ended_without_result", "the agent ended without reporting a result", "see its last lines, or the whole run with `ostler show`";
    10 502 No OutputLimit "output_limit", "the agent printed more than allowed", "raise maxOutputBytes, or make it print less";
    11 502 Backoff RemoteUnavailable "remote_unavailable", "the remote cannot be reached", "check its address and that it runs";
    11 502 Backoff RemoteLost "remote_lost", "the connection to the remote was lost during the run", "run again";
    12 403 No PermissionDenied "permission_denied", "permission was denied", "allow it, or change --permission";
    12 403 No PermissionUnanswered "permission_unanswered", "the request for approval was not answered in time", "answer with `ostler answer`, or raise askTimeoutSec";
    12 403 No PolicyBroken "policy_broken", "the agent acted against the permission policy", "the workspace may have changed: look at what it did; if it may do that, give another --permission";
    12 403 No Forbidden "forbidden", "access is not allowed", "use the address that `ostler serve` printed, and a token of the needed scope";
    13 409 Requeue LeaseExpired "lease_expired", "the run lost its lease", "run again";
    13 409 Requeue FenceStale "fence_stale", "another run owns this task now", "nothing to do: the other run continues";
    13 409 Requeue Conflict "conflict", "this is not possible in the current state", "see its state with `ostler show` or `ostler task show`";
    14 503 AfterFix StoreLocked "store_locked", "another process holds the store and does not answer", "wait until that process ends, or stop it";
    14 503 AfterFix StoreNewer "store_newer", "the store was made by a newer Ostler", "use that version or a newer one";
    14 503 AfterFix StoreUnreadable "store_unreadable", "the store cannot be read", "check the data directory's owner and disk; restore a backup";
    14 503 AfterFix DiskFull "disk_full", "the disk is full", "free some space, then run again";
    14 503 AfterFix PortInUse "port_in_use", "the address is in use", "choose another with --listen";
    15 502 No ProtocolError "protocol_error", "the agent violated its protocol", "`ostler conformance` shows the line";
    15 502 No UnknownTool "unknown_tool", "no tool has this name", "see the tools listed for this run";
    15 502 No ParseFailed "parse_failed", "the input could not be parsed", "see the line above";
    16 404 No NotFound "not_found", "not found", "`ostler runs` lists the runs";
    130 409 No Cancelled "cancelled", "stopped by a person", "run it again when you are ready";
}

/// Hints whose row names a command or a flag, for callers of the API and for models that call tools.
macro_rules! hints {
    ($($code:ident, $api:literal, $tool:literal;)+) => {
        impl Row {
            /// What to do next, in the words of a surface.
            pub const fn hint_on(self, surface: Surface) -> &'static str {
                match (surface, self.code) {
                    $((Surface::Api, Code::$code) => $api,)+
                    $((Surface::Tool, Code::$code) => $tool,)+
                    (Surface::Cli | Surface::Api | Surface::Tool, _) => self.hint,
                }
            }
        }
    };
}

hints! {
    InternalError, "please report it with the request that was sent", "please report it to the person you work for";
    Usage, "see the operation in /api/v1/openapi.json", "see the input schema of the tool";
    InvalidConfig, "fix the named key; docs/configuration.md lists what is allowed", "ask the person to fix the named key of ostler.json";
    UnknownAgent, "GET /api/v1/agents lists the agents; the name of a runtime, such as `demo`, is taken too", "call list_runtimes or list_agents for the names";
    BadWorkspace, "give an existing directory as `cwd`", "give an existing directory as `cwd`";
    PolicyNotPossible, "give another `permission`, or `workspace: worktree`", "give another `permission`, or `worktree: true`";
    BudgetNotCountable, "limit the minutes in `budget`, or give `best_effort` in it; in `budgets` of ostler.json, `minutes` or `\"bestEffort\": true`", "give `timeout_minutes` in place of the budget; for `budgets` of ostler.json, ask the person";
    NotSupported, "the card of the runtime says what it can do", "call list_runtimes to see what the runtime can do";
    Unauthorized, "send `authorization: Bearer TOKEN` with a token of this server", "ask the person for a token";
    TimeoutWall, "raise `clocks.wall`, or timeoutSec of the adapter", "give a longer `timeout_minutes`";
    TimeoutSilence, "raise `clocks.silence`, or read the events of the run for what it waits for", "read the run with show_run for what it waits for";
    AgentFailed, "its reason is in the result event of the run", "read its reason with show_run";
    ModelNotFound, "check `model`", "check `model`";
    AnswerCut, "start another run with `resume` and ask for the rest, or raise the output limit of the model", "start another run with `resume` and ask for the rest";
    MaxTurns, "start another run with `resume` to go on", "start another run with `resume` to go on";
    NativeSessionUnknown, "start a run without `resume`", "start a run without `resume`";
    ProcessCrashed, "its last lines are in the result event of the run", "read its last lines with show_run";
    EndedWithoutResult, "its last lines are in the result event of the run", "read its last lines with show_run";
    PermissionDenied, "allow it, or start the run with another `permission`", "ask the person, or give another `permission`";
    PermissionUnanswered, "POST /api/v1/approvals/{approval}/answer, or raise askTimeoutSec", "ask the person to answer sooner";
    Forbidden, "use the address of the server and a token of the needed scope", "ask the person; this token may not do it";
    Conflict, "GET it again to see how it stands now", "call show_run or show_task to see how it stands now";
    PortInUse, "choose another address", "choose another address";
    ProtocolError, "the line is in the events of the run", "read the run with show_run";
    NotFound, "GET the list of this kind, such as /api/v1/runs, for what there is", "call list_runs, list_tasks, list_agents or list_approvals for the names and ids";
    PolicyBroken, "the workspace may have changed: read the events of the run; if the agent may do that, give another `permission`", "the workspace may have changed: tell the person; if the agent may do that, give another `permission`";
}

impl Code {
    pub const fn word(self) -> &'static str {
        self.row().word
    }

    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.word() == word)
    }

    /// Reads a stored word; one of a newer version is `Unknown`.
    pub fn read(word: &str) -> Self {
        Self::from_word(word).unwrap_or(Self::Unknown)
    }

    /// Whether trying again by itself, without a person, can help.
    pub const fn retryable(self) -> bool {
        matches!(
            self.row().retry,
            Retry::Once | Retry::Backoff | Retry::AtReset | Retry::Resume | Retry::Requeue
        )
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A fault on its way to a person or a client: its code, the particulars, and what to do if the
/// table's hint is not the best one. Holds no secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fault {
    pub code: Code,
    /// What was tried, with what, and what came of it: lower case, no full stop.
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl Fault {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None, detail: None }
    }

    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// What to do next, for a person at a terminal.
    pub fn hint(&self) -> &str {
        self.hint_on(Surface::Cli)
    }

    /// What to do next, in the words of a surface. A hint of its own that names a command or a flag is
    /// for a terminal; elsewhere the table's hint for that surface takes its place.
    pub fn hint_on(&self, surface: Surface) -> &str {
        let fits = |hint: &&str| match surface {
            Surface::Cli => true,
            Surface::Api => !names_command(hint),
            Surface::Tool => !names_command(hint) && !hint.contains("/api/v1"),
        };
        self.hint.as_deref().filter(fits).unwrap_or(self.code.row().hint_on(surface))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_code_reads_back_from_its_word_and_says_what_to_do() {
        for code in Code::ALL {
            let row = code.row();
            assert_eq!(Code::from_word(row.word), Some(*code));
            assert_eq!(serde_json::to_value(code).unwrap(), row.word);
            assert!(!row.message.is_empty() && !row.hint.is_empty(), "{}", row.word);
            assert!(!row.message.ends_with('.') && !row.hint.ends_with('.'), "{}", row.word);
        }
    }

    #[test]
    fn a_code_of_a_newer_version_is_unknown() {
        assert_eq!(Code::read("frobnicated"), Code::Unknown);
        let read: Code = serde_json::from_value("frobnicated".into()).unwrap();
        assert_eq!((read, read.word(), read.retryable()), (Code::Unknown, UNKNOWN, false));
        assert_eq!(serde_json::to_value(read).unwrap(), UNKNOWN);
    }

    #[test]
    fn hints_for_api_and_tools_name_no_command() {
        for code in Code::ALL {
            let row = code.row();
            let (api, tool) = (row.hint_on(Surface::Api), row.hint_on(Surface::Tool));
            assert!(!names_command(api) && !names_command(tool), "{}: {api}, {tool}", row.word);
            let typed = Fault::new(*code, "x").with_hint("run `ostler runs`, or give --cwd");
            assert_eq!(typed.hint(), "run `ostler runs`, or give --cwd");
            assert_eq!(typed.hint_on(Surface::Api), api);
            let address = Fault::new(*code, "x").with_hint("see GET /api/v1/runs");
            assert_eq!(address.hint_on(Surface::Tool), tool);
            let plain = Fault::new(*code, "x").with_hint("wait a minute");
            assert_eq!(plain.hint_on(Surface::Tool), "wait a minute");
        }
    }

    #[test]
    fn messages_and_words_are_told_apart() {
        let words: BTreeSet<_> = Code::ALL.iter().map(|code| code.word()).collect();
        let messages: BTreeSet<_> = Code::ALL.iter().map(|code| code.row().message).collect();
        assert_eq!((words.len(), messages.len()), (Code::ALL.len(), Code::ALL.len()));
    }
}
