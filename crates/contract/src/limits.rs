//! Every limit of the house, by name. Reaching one is an event or back-pressure, never silence.
//! Defaults that a person may change are here too; their keys are in the configuration.

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

macro_rules! limits {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ty = $value:expr;)+) => {
        $($(#[doc = $doc])+ pub const $name: $type = $value;)+

        /// Name, value and meaning of every limit, for the docs and the schema snapshot.
        pub const ALL: &[(&str, u64, &str)] = &[
            $((stringify!($name), $name as u64, concat!($($doc),+))),+
        ];
    };
}

limits! {
    /// Lifetime of a lease without renewal.
    LEASE_MS: u64 = 300_000;
    /// The shortest lease that can be configured.
    LEASE_MS_MIN: u64 = 2_000;
    /// The share of the window after which a lease is renewed, in percent.
    LEASE_RENEW_PERCENT: u64 = 60;
    /// How long to wait before a failed renewal is tried again.
    LEASE_RETRY_MS: u64 = 10_000;
    /// Runs of an earlier host that are taken over at the same time.
    ADOPTIONS_AT_ONCE_MAX: usize = 16;
    /// How long a host that starts takes over runs of an earlier one before it answers requests meanwhile.
    ADOPTION_ALONE_MS: u64 = 1_000;
    /// How long a request waits for a run that is being taken over.
    ADOPTION_WAIT_MS: u64 = 30_000;
    /// The longest a keeper may take to answer a ping before the host ends it, while its run goes on.
    KEEPER_ANSWER_MS: u64 = 60_000;
    /// The same once its run is being stopped, after the graces of the stop.
    KEEPER_STOP_ANSWER_MS: u64 = 5_000;
    /// How long the host waits for a keeper to end that it has killed. A keeper in an uninterruptible
    /// wait for a disk may take longer; its run is settled without it.
    KEEPER_KILLED_MS: u64 = 2_000;
    /// Wall time of a run.
    WALL_MS: u64 = 2 * 3600 * 1000;
    /// Silence on both streams while no tool call and no question is open.
    SILENCE_MS: u64 = 600_000;
    /// Time to the first byte.
    FIRST_OUTPUT_MS: u64 = 300_000;
    /// How long a program that is to speak ACP may take to answer `initialize`.
    ACP_INITIALIZE_MS: u64 = 30_000;
    /// How long a shutdown frame may take to work before SIGTERM.
    FAREWELL_MS: u64 = 5_000;
    /// How long a turn whose last answer was text may take to end before a used-up budget stops it.
    TURN_END_MS: u64 = 250;
    /// How long SIGTERM may take to work before SIGKILL.
    TERM_MS: u64 = 15_000;
    /// How long a process may linger after its closing evidence before it is stopped.
    LINGER_MS: u64 = 5_000;
    /// How long a program may take to tell its models.
    MODELS_MS: u64 = 30_000;
    /// The longest list of models that a program tells.
    MODELS_LISTED_MAX: usize = 2_000;
    /// How long all probes of one name may take together, which doctor makes at the same time.
    DOCTOR_MS: u64 = 5_000;
    /// How long SIGTERM may take to work on a probe before SIGKILL.
    PROBE_TERM_MS: u64 = 200;
    /// What a probe may print.
    PROBE_OUTPUT_BYTES_MAX: u64 = 1024 * 1024;
    /// How many names are probed at once.
    PROBES_MAX: usize = 4;
    /// How long pipes held by grandchildren are drained after the agent's exit.
    DRAIN_MS: u64 = 200;
    /// How long a permission question waits for a person.
    ASK_MS: u64 = 600_000;
    /// How long a rate limit may last before the run is ended.
    PATIENCE_MS: u64 = 300_000;
    /// How long to wait for a quota whose reset is not known or is in the past.
    QUOTA_RESET_MS: u64 = 30 * 60 * 1000;
    /// The longest wait for a reset, whatever was told: after it, one run asks again.
    QUOTA_RESET_MS_MAX: u64 = 8 * 24 * 3600 * 1000;
    /// How long the first run after a reset goes on without a new answer before others follow it.
    QUOTA_PROBE_MS: u64 = 60_000;
    /// Between two starts of one quota's scope while it is taken up again.
    QUOTA_STAGGER_MS: u64 = 2_000;
    /// For how long starts are spread after a reset.
    QUOTA_RAMP_MS: u64 = 30 * 60 * 1000;
    /// What is kept of the words with which a provider refused.
    QUOTA_WHY_BYTES_MAX: usize = 512;
    /// Windows that are kept of what a provider tells of an account.
    QUOTA_WINDOWS_MAX: usize = 16;
    /// What a run without a budget of its own sets aside of a shared one, and asks for more of when
    /// it is used: nano-dollars.
    RESERVE_NANOUSD: i64 = 1_000_000_000;
    /// The same in tokens.
    RESERVE_TOKENS: u64 = 500_000;
    /// The same in turns.
    RESERVE_TURNS: u32 = 10;
    /// The same in time.
    RESERVE_MS: u64 = 15 * 60 * 1000;
    /// The share of what was set aside that is left when a run asks for more, in percent.
    RESERVE_MORE_PERCENT: u64 = 50;
    /// Runs that are looked at for one page of a filtered list.
    RUNS_SCANNED_MAX: usize = 10_000;
    /// How long a run may have waited between the making of its id and its start, for filters by time.
    RUN_WAIT_MS: i64 = 24 * 3600 * 1000;
    /// How often a tool call over MCP that waits for a person reports that it still waits.
    MCP_PROGRESS_MS: u64 = 15_000;
    /// How long `wait_run` of `ostler mcp` waits unless its caller says otherwise: less than the 60 s
    /// after which clients of MCP give up.
    WAIT_RUN_MS: u64 = 45_000;
    /// How long it may be told to wait.
    WAIT_RUN_MS_MAX: u64 = 600_000;
    /// Budgets that are looked at before one start.
    BUDGETS_MAX: usize = 64;
    /// How long a provider may take to tell how an account stands.
    USAGE_MS_MAX: u64 = 3_000;
    /// How long its answer is used.
    USAGE_FRESH_MS: u64 = 30 * 60 * 1000;
    /// How long it is not asked again after a trouble.
    USAGE_FAILED_MS: u64 = 5 * 60 * 1000;
    /// The shortest time between two questions about one account, whoever wants a fresh answer.
    USAGE_ASK_MS_MIN: u64 = 30_000;
    /// Accounts that are asked about at once.
    USAGE_ASKS_MAX: usize = 8;
    /// What it may answer.
    USAGE_ANSWER_BYTES_MAX: usize = 64 * KIB;
    /// Runs of one conversation before a fresh one is begun, where the agent does not compact it.
    ROTATION_RUNS: u64 = 200;
    /// Age of one conversation before a fresh one is begun, where the agent does not compact it.
    ROTATION_MS: u64 = 72 * 3600 * 1000;
    /// One line of an agent's output.
    LINE_BYTES_MAX: usize = 64 * MIB;
    /// Of an unfinished line that is longer only the head is held in memory; it is read back from the
    /// spool once it is whole.
    LINE_BYTES_HELD_MAX: usize = MIB;
    /// What is kept of one line in the trace.
    TRACE_LINE_BYTES_MAX: usize = MIB;
    /// All output of a run.
    OUTPUT_BYTES_MAX: u64 = 512 * MIB as u64;
    /// A text that stays inside its event; longer ones become a preview and a blob.
    TEXT_BYTES_MAX: usize = 64 * KIB;
    /// Tool input or output that stays inside its event.
    TOOL_BYTES_MAX: usize = 16 * KIB;
    /// What is shown of a text that went to a blob.
    PREVIEW_BYTES: usize = 2 * KIB;
    /// The end of stderr that is kept as the detail of a fault.
    STDERR_TAIL_BYTES: usize = 10 * KIB;
    /// A prompt given on a command line.
    PROMPT_ARGV_BYTES_MAX: usize = 96 * KIB;
    /// Launches inside one run: the second is a fresh start after an unknown native session.
    ATTEMPTS_MAX: u32 = 2;
    /// A prompt or task body.
    PROMPT_BYTES_MAX: usize = 4 * MIB;
    /// How long a command waits for piped input before it says that it waits.
    STDIN_NOTICE_MS: u64 = 3_000;
    /// How long a command waits for the first byte of a pipe beside a prompt if nobody watches and no
    /// program of the same pipeline can write to it.
    STDIN_IDLE_MS: u64 = 10_000;
    /// Skills of one agent.
    SKILLS_MAX: usize = 32;
    /// The name of a skill.
    SKILL_NAME_BYTES_MAX: usize = 64;
    /// The description of a skill, which every prompt carries.
    SKILL_DESCRIPTION_BYTES_MAX: usize = KIB;
    /// The SKILL.md of a skill.
    SKILL_TEXT_BYTES_MAX: usize = 256 * KIB;
    /// All files of a skill together.
    SKILL_BYTES_MAX: usize = 8 * MIB;
    /// How many files a skill has.
    SKILL_FILES_MAX: usize = 512;
    /// How deep the directories of a skill go.
    SKILL_DEPTH_MAX: usize = 8;
    /// A segment of the spool.
    SPOOL_SEGMENT_BYTES: u64 = 64 * MIB as u64;
    /// Events in one Batch.
    BATCH_EVENTS_MAX: usize = 256;
    /// Bytes of events in one Batch.
    BATCH_BYTES_MAX: usize = 4 * MIB;
    /// Deltas of one block are joined up to this size.
    JOIN_BYTES_MAX: usize = 8 * KIB;
    /// Deltas of one block are joined for at most this long.
    JOIN_MS: u64 = 100;
    /// A block that others come between keeps this much of a known value to itself until it goes on;
    /// less tells nothing, and a word that is cut short looks odd.
    HELD_BYTES_MIN: usize = 4;
    /// So many blocks may wait for that.
    HELD_BLOCKS_MAX: usize = 16;
    /// What a question that an agent puts to people may say.
    APPROVAL_CHARS_MAX: usize = 1_000;
    /// The answers it may offer.
    APPROVAL_OPTIONS_MAX: usize = 8;
    /// And each of them.
    APPROVAL_OPTION_CHARS_MAX: usize = 60;
    /// The content of a permission question, as JSON.
    PERMISSION_REQUEST_BYTES_MAX: usize = 16 * 1024;
    /// The reason that a person gives with a denial.
    DENIAL_REASON_BYTES_MAX: usize = 4 * 1024;
    /// Permissions that hold for the rest of a run.
    RUN_GRANTS_MAX: usize = 64;
    /// How long the command may take that tells people of something.
    NOTIFY_MS: u64 = 10_000;
    /// How much waits to be told while it runs.
    NOTICES_MAX: usize = 64;
    /// How often a server looks for runs that are too old or too much.
    RETENTION_LOOK_MS: u64 = 600_000;
    /// How many of them go at one look.
    RETENTION_RUNS_MAX: usize = 200;
    /// How many of them before what is left is weighed again.
    RETENTION_SLICE: usize = 10;
    /// The pause after each, for those who work.
    RETENTION_PAUSE_MS: u64 = 20;
    /// The longest name of a hired agent.
    AGENT_NAME_BYTES_MAX: usize = 64;
    /// Rows in one page of a listing.
    PAGE_ROWS_MAX: usize = 500;
    /// Events in one page.
    PAGE_EVENTS_MAX: usize = 512;
    /// Where a page of events ends, whole events and at least one: a watcher who does not read holds
    /// one of them.
    PAGE_BYTES_MAX: usize = 64 * KIB;
    /// What waits in memory to be sent over one connection before more is asked for.
    UNSENT_BYTES_MAX: usize = 32 * KIB;
    /// One event in the stream of a watcher.
    FRAME_BYTES_MAX: usize = 16 * MIB;
    /// Commands waiting in one run's inbox.
    INBOX_MAX: usize = 256;
    /// Jobs waiting for the store's writer.
    WRITER_QUEUE_MAX: usize = 1024;
    /// Room set aside in the data directory, so that runs can end on a full disk.
    STORE_RESERVE_BYTES: u64 = 8 * MIB as u64;
    /// Free space below which a disk that was full still counts as full.
    STORE_ROOM_BYTES: u64 = 8 * MIB as u64;
    /// Body of an HTTP request.
    BODY_BYTES_MAX: usize = 8 * MIB;
    /// All headers of an HTTP request, with its first line.
    HEADER_BYTES_MAX: usize = 16 * KIB;
    /// Headers of an HTTP request.
    HEADERS_MAX: usize = 100;
    /// How long the headers of a request may take, and how long a connection may wait for the next.
    HEADER_MS: u64 = 10_000;
    /// How long the body of a request may take.
    BODY_MS: u64 = 30_000;
    /// Connections to one host at once. The next one takes the place of the stranger who came first.
    CONNECTIONS_MAX: usize = 512;
    /// Connections of one token, or of the token of one run, that stay when places are needed.
    TOKEN_CONNECTIONS_MAX: usize = 64;
    /// How long requests without a good token are counted for an address.
    REFUSED_MS: u64 = 60_000;
    /// Such requests of one address in that time that are told why; the next ones are told to wait.
    REFUSED_MAX: u32 = 60;
    /// Such requests of one address in that time that are written down.
    REFUSED_TOLD_MAX: u32 = 10;
    /// Addresses that are counted apart.
    REFUSED_ADDRESSES_MAX: usize = 256;
    /// The file in which they are written down; the one before it is kept too.
    AUDIT_BYTES_MAX: u64 = MIB as u64;
    /// Tokens of the API and sessions of browsers that are kept at once.
    TOKENS_MAX: usize = 256;
    /// The name of a token.
    TOKEN_NAME_CHARS_MAX: usize = 64;
    /// Lifetime of a sign-in link.
    SIGN_IN_MS: u64 = 10 * 60 * 1000;
    /// Sign-in links that are open at once; the next one takes the place of the oldest.
    SIGN_INS_MAX: usize = 16;
    /// How long a browser that signed in stays so.
    SIGNED_IN_MS: u64 = 7 * 24 * 3600 * 1000;
    /// How long the answer to a request under an idempotency key is kept.
    ANSWERS_MS: u64 = 24 * 3600 * 1000;
    /// Idempotency keys that are kept at once.
    ANSWERS_MAX: usize = 10_000;
    /// An idempotency key.
    ANSWER_KEY_BYTES_MAX: usize = 255;
    /// An answer that is kept for its key.
    ANSWER_BYTES_MAX: usize = 64 * KIB;
    /// How long a write may wait for a peer that does not read, before its connection is closed.
    STALLED_MS: u64 = 30_000;
    /// Watchers of one host at once.
    WATCHERS_MAX: usize = 64;
    /// Watchers with one token at once; the owner's has no share, and may have all places.
    WATCHERS_OF_TOKEN_MAX: usize = 16;
    /// Places for watchers that only the owner takes.
    WATCHERS_OF_OWNER_MIN: usize = 16;
    /// Runs at once on one remote, when its adapter does not say.
    REMOTE_RUNS_MAX: u32 = 4;
    /// How long one request for a run may wait for a slot before it is told where it stands.
    LINE_ASK_MS: u64 = 5_000;
    /// Requests for runs that wait at one host for their turn; more are told at once where they stand.
    LINE_ASKS_MAX: usize = 64;
    /// How long the requester of a waiting run has to repeat its request before the run is cancelled.
    LINE_BACK_MS: u64 = 10_000;
    /// Runs of one agent at once, when it does not say.
    AGENT_RUNS_MAX: u32 = 1;
    /// Tasks below one task.
    SUBTASKS_MAX: u32 = 32;
    /// How deep tasks may be below each other.
    SUBTASK_DEPTH_MAX: u32 = 4;
    /// The title of a task.
    TASK_TITLE_BYTES_MAX: usize = KIB;
    /// The key under which a task is there once.
    TASK_KEY_BYTES_MAX: usize = 256;
    /// Labels of a task.
    LABELS_MAX: usize = 16;
    /// One label.
    LABEL_CHARS_MAX: usize = 64;
    /// Tasks that must be done before one.
    DEPENDENCIES_MAX: usize = 64;
    /// What is said of a task at once.
    COMMENT_BYTES_MAX: usize = 64 * KIB;
    /// Agents that are mentioned in one comment.
    MENTIONS_MAX: usize = 8;
    /// Tasks that comments of agents on one task may make for the same mentioned agent.
    MENTION_TASKS_MAX: u32 = 4;
    /// How far mentions by agents reach: an agent that such a chain of mentions woke wakes no other.
    MENTION_HOPS_MAX: u32 = 3;
    /// The `context` of a run or a task, as JSON.
    CONTEXT_BYTES_MAX: usize = 16 * KIB;
    /// Earlier runs of a task of which a new conversation is told.
    HANDOVER_RUNS_MAX: usize = 5;
    /// How long a session waits for the one that it resumes to be closed.
    SESSION_CLOSE_MS: u64 = 20_000;
    /// Sessions of callers elsewhere that run at once, unless it is said otherwise.
    SESSIONS_MAX: usize = 4;
    /// Sessions of callers elsewhere that are kept, those that have ended included.
    SESSIONS_KEPT_MAX: usize = 256;
    /// Closed sessions of which a caller who comes late is told that they were there.
    SESSIONS_CLOSED_MAX: usize = 1_024;
    /// How long a session without any traffic is kept.
    SESSION_SILENCE_MS: u64 = 600_000;
    /// The caller's name of a session.
    SESSION_NAME_BYTES_MAX: usize = 256;
    /// The longest file of a remote's token.
    TOKEN_FILE_BYTES_MAX: usize = 16 * 1024;
    /// How long a connection may take to agree on its encryption.
    HANDSHAKE_MS: u64 = 10_000;
    /// A file that `read_file` gives to an agent.
    READ_FILE_BYTES_MAX: usize = MIB;
    /// Entries that `list_files` gives to an agent.
    LIST_FILES_MAX: usize = 2_000;
    /// A file that `write_file` writes, or that a patch makes or changes.
    WRITE_FILE_BYTES_MAX: usize = 4 * MIB;
    /// Files that one patch may touch.
    PATCH_FILES_MAX: usize = 256;
    /// Files of a workspace in one snapshot.
    SNAPSHOT_FILES_MAX: usize = 20_000;
    /// A workspace in one snapshot.
    SNAPSHOT_BYTES_MAX: u64 = 256 * MIB as u64;
    /// How deep the directories of a snapshot go, where no repository lists its files.
    SNAPSHOT_DEPTH_MAX: usize = 64;
    /// Files of a workspace that are compared with its beginning, where the policy forbids to change it.
    COMPARED_FILES_MAX: usize = 100_000;
    /// How long git may take to list the files of a workspace.
    GIT_MS_MAX: u64 = 20_000;
    /// What git may list.
    GIT_ANSWER_BYTES_MAX: usize = 16 * MIB;
    /// How long git may take for what touches every file of a worktree.
    GIT_TREE_MS_MAX: u64 = 300_000;
    /// A patch that is given back to a checkout; a merge has no such limit.
    GIT_PATCH_BYTES_MAX: usize = 64 * MIB;
    /// What a diff of a worktree shows.
    DIFF_BYTES_MAX: usize = 4 * MIB;
    /// Files that a diff of a worktree names.
    DIFF_FILES_MAX: usize = 5_000;
    /// Worktrees of one directory among which a conversation is looked for.
    TREES_LOOK_MAX: usize = 64;
    /// How long a background host stays after its last run has ended, in case another one is started.
    BACKGROUND_LINGER_MS: u64 = 3_000;
    /// An asset that an agent may upload.
    ASSET_BYTES_MAX: usize = 4 * MIB;
    /// Relayed tool calls of one run waiting for their answer.
    TOOL_CALLS_OPEN_MAX: usize = 64;
    /// One answer of an MCP server of the configuration that is reached by HTTP.
    MCP_ANSWER_BYTES_MAX: usize = 8 * MIB;
    /// One answer of the authorization server of an MCP server.
    MCP_LOGIN_ANSWER_BYTES_MAX: usize = MIB;
    /// How long `ostler mcp login` waits for its person.
    MCP_LOGIN_WAIT_MS: u64 = 600_000;
    /// Tools of one MCP server of the configuration that are offered.
    MCP_TOOLS_MAX: usize = 256;
    /// Characters of one progress message of an MCP server that are passed on.
    MCP_PROGRESS_CHARS_MAX: usize = 1_000;
    /// Reports of progress of one call that wait for a caller that is slower than its server.
    MCP_PROGRESS_QUEUE_MAX: usize = 64;
    /// Addresses of earlier hosts at which one host listens for the agents of runs it took over.
    DOORS_MAX: usize = 64;
    /// Rules in one mapping.
    MAPPING_RULES_MAX: usize = 128;
    /// A mapping, which is kept with its run's conversation.
    MAPPING_BYTES_MAX: usize = 64 * KIB;
    /// Steps of one path in a mapping.
    MAPPING_PATH_STEPS_MAX: usize = 16;
    /// The id of a native call, or of a block of text, that a mapping finds.
    MAPPING_ID_BYTES_MAX: usize = 256;
    /// A configuration file.
    CONFIG_BYTES_MAX: usize = MIB;
    /// Prices in an imported table.
    PRICES_MAX: usize = 50_000;
    /// The `provider/model` of a price.
    PRICE_NAME_BYTES_MAX: usize = 256;
    /// Agents whose costs are read at once.
    COST_ROWS_MAX: usize = 10_000;
    /// The shortest secret value that is looked for; shorter ones would redact ordinary words.
    SECRET_BYTES_MIN: usize = 6;
    /// Known secret values of one run.
    SECRETS_MAX: usize = 1024;
    /// Colours and other control sequences inside one secret value through which it is still found.
    PAINT_BYTES_MAX: usize = 16 * KIB;
    /// How long a connection to a remote may take.
    REMOTE_CONNECT_MS: u64 = 10_000;
    /// How long a remote may take to answer a request.
    REMOTE_ANSWER_MS: u64 = 30_000;
    /// How long a remote that cannot be reached is tried before a run is ended at its start.
    REMOTE_START_MS: u64 = 3_000;
    /// How long a remote that was cut off is tried before it is lost.
    REMOTE_LOST_MS: u64 = 60_000;
    /// The first pause between two tries; each is twice as long as the one before.
    REMOTE_PAUSE_MS: u64 = 200;
    /// The longest pause between two tries.
    REMOTE_PAUSE_MS_MAX: u64 = 5_000;
    /// How long a remote may send nothing whole, not even a comment, before its stream counts as cut.
    REMOTE_IDLE_MS: u64 = 60_000;
    /// A stream of a remote that lasted this long was no failure, even if it brought no event.
    REMOTE_STEADY_MS: u64 = 10_000;
    /// How long a remote may take to end by itself when nothing more will be said to it.
    REMOTE_PARTING_MS: u64 = 3_000;
    /// How long the end of a session may take to be told to its remote.
    REMOTE_DELETE_MS: u64 = 2_000;
    /// How long a remote has to end by itself when the lease of its run is over.
    REMOTE_FAREWELL_MS: u64 = 2_000;
    /// The shortest time that the holder of a remote has to end its session there.
    REMOTE_TERM_MS_MIN: u64 = 3_000;
    /// Redirects of a remote, within its own origin, that are followed one after the other.
    REMOTE_REDIRECTS_MAX: usize = 3;
    /// What a remote may answer to a request.
    REMOTE_ANSWER_BYTES_MAX: usize = 64 * KIB;
    /// One event of a remote; with what stands around it, it is still a line.
    REMOTE_EVENT_BYTES_MAX: usize = 64 * MIB - 4 * KIB;
    /// What of a remote is held besides one event, while lines wait to be read.
    REMOTE_AHEAD_BYTES: usize = MIB;
    /// From how many bytes on an event of a remote is written by itself, and not copied once more.
    REMOTE_APART_BYTES: usize = 256 * KIB;
    /// What is passed on of that which a remote sends in the place of an event, and is none.
    REMOTE_TEXT_BYTES_MAX: usize = 8 * MIB;
    /// The id of a call that is refused by name.
    REMOTE_CALL_ID_BYTES_MAX: usize = 4 * KIB;
    /// What must have come of an event that takes long, for its stream not to count as cut.
    REMOTE_PROGRESS_BYTES: usize = 64 * KIB;
    /// The id of a session of a remote.
    REMOTE_SESSION_BYTES_MAX: usize = 256;
    /// How often a session of a remote is taken up after host and keeper were lost.
    REMOTE_ATTACHES_MAX: u32 = 16;
    /// Words on their way to a remote.
    REMOTE_INPUTS_MAX: usize = 256;
    /// How long a remote that answers with its work may take for it; one that takes longer says 202.
    REMOTE_WORK_MS: u64 = 600_000;
    /// What a remote may answer that answers with its work.
    REMOTE_WORK_BYTES_MAX: usize = 8 * MIB;
    /// The shortest pause between two looks at how work stands, whatever the remote asks for.
    REMOTE_LOOK_MS_MIN: u64 = 100;
    /// The longest one.
    REMOTE_LOOK_MS_MAX: u64 = 60_000;
    /// How often it is passed on that a remote says that it still works.
    REMOTE_ALIVE_MS: u64 = 30_000;
    /// The address at which a remote says how work stands.
    REMOTE_STATUS_BYTES_MAX: usize = 2 * KIB;
    /// Fences under which an old token of a run is still told from one that never was.
    FENCES_KNOWN_MAX: u64 = 64;
    /// Events that a remote may send in one call back.
    REMOTE_CALLBACK_EVENTS_MAX: usize = 256;
    /// Threads of a server that run its tasks; otherwise one for each core.
    WORKER_THREADS_MAX: usize = 16;
    /// Blocking work on directories of the user that runs at once, on all file systems together.
    BLOCKING_DIRECTORIES_MAX: usize = 256;
    /// The same on one mounted file system, or in one directory of the root file system.
    BLOCKING_MOUNT_MAX: usize = 32;
    /// Blocking work on the data directory that runs at once.
    BLOCKING_DATA_MAX: usize = 128;
    /// Waits for processes and for input that block a thread at once.
    BLOCKING_WAITS_MAX: usize = 128;
    /// Threads for blocking work: the limits above, with room for the store and for name resolution.
    BLOCKING_THREADS_MAX: usize = 768;
    /// Blocking work that takes longer is logged.
    BLOCKING_SLOW_MS: u64 = 5_000;
    /// How long a directory of the user may take to open before its file system counts as hung.
    DIRECTORY_OPEN_MS_MAX: u64 = 10_000;
    /// How long other work in a directory of the user may take, such as a tool call or a worktree.
    DIRECTORY_WORK_MS_MAX: u64 = 600_000;
    /// How long a process that ends waits for blocking work that is under way.
    BLOCKING_END_MS: u64 = 5_000;
    /// Lines of the operator log that wait to be written; more are dropped and counted.
    LOG_LINES_QUEUED_MAX: usize = 4_096;
    /// How long a process that exits waits until its log is written.
    LOG_FLUSH_MS: u64 = 1_000;
    /// How deep a JSON value of an agent may nest in an event before it is kept as text.
    JSON_DEPTH_MAX: usize = 96;
}
