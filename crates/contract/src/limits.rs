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
    /// How long a lease is good for without renewal.
    LEASE_MS: u64 = 300_000;
    /// The shortest lease that can be configured.
    LEASE_MS_MIN: u64 = 2_000;
    /// The share of the window after which a lease is renewed, in percent.
    LEASE_RENEW_PERCENT: u64 = 60;
    /// How long to wait before a failed renewal is tried again.
    LEASE_RETRY_MS: u64 = 10_000;
    /// Wall time of a run.
    WALL_MS: u64 = 2 * 3600 * 1000;
    /// Silence on both streams while no tool call and no question is open.
    SILENCE_MS: u64 = 600_000;
    /// Time to the first byte.
    FIRST_OUTPUT_MS: u64 = 300_000;
    /// How long a shutdown frame may take to work before SIGTERM.
    FAREWELL_MS: u64 = 5_000;
    /// How long SIGTERM may take to work before SIGKILL.
    TERM_MS: u64 = 15_000;
    /// How long a process may linger after its closing evidence before it is stopped.
    LINGER_MS: u64 = 5_000;
    /// How long a probe of doctor may take.
    PROBE_MS_MAX: u64 = 5_000;
    /// How long SIGTERM may take to work on a probe before SIGKILL.
    PROBE_TERM_MS: u64 = 200;
    /// What a probe may print.
    PROBE_OUTPUT_BYTES_MAX: u64 = 1024 * 1024;
    /// How many probes are made at once.
    PROBES_MAX: usize = 4;
    /// How long pipes held by grandchildren are drained after the agent's exit.
    DRAIN_MS: u64 = 200;
    /// How long a permission question waits for a person.
    ASK_MS: u64 = 600_000;
    /// How long a rate limit may last before the run is ended.
    PATIENCE_MS: u64 = 300_000;
    /// How long a provider may take to tell how an account stands.
    USAGE_MS_MAX: u64 = 3_000;
    /// How long what it told is good for.
    USAGE_FRESH_MS: u64 = 30 * 60 * 1000;
    /// How long it is not asked again after a trouble.
    USAGE_FAILED_MS: u64 = 5 * 60 * 1000;
    /// What it may answer.
    USAGE_ANSWER_BYTES_MAX: usize = 64 * KIB;
    /// Runs of one conversation before a fresh one is begun, where the agent does not compact it.
    ROTATION_RUNS: u64 = 200;
    /// Age of one conversation before a fresh one is begun, where the agent does not compact it.
    ROTATION_MS: u64 = 72 * 3600 * 1000;
    /// One line of an agent's output.
    LINE_BYTES_MAX: usize = 64 * MIB;
    /// Above this a line is kept in the spool and not in memory.
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
    /// Rows in one page of a listing.
    PAGE_ROWS_MAX: usize = 500;
    /// Events in one page.
    PAGE_EVENTS_MAX: usize = 512;
    /// One event in the stream of a watcher.
    FRAME_BYTES_MAX: usize = 16 * MIB;
    /// Wishes waiting in one run's inbox.
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
    /// Connections to one host at once; the next ones wait for a place.
    CONNECTIONS_MAX: usize = 512;
    /// Watchers of one host at once.
    WATCHERS_MAX: usize = 64;
    /// Sessions of callers elsewhere that run at once, unless it is said otherwise.
    SESSIONS_MAX: usize = 4;
    /// Sessions of callers elsewhere that are kept, those that have ended included.
    SESSIONS_KEPT_MAX: usize = 256;
    /// How long a session is kept that nobody reads and nobody sends anything to.
    SESSION_SILENCE_MS: u64 = 600_000;
    /// The caller's name of a session.
    SESSION_NAME_BYTES_MAX: usize = 256;
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
    /// An asset that an agent may upload.
    ASSET_BYTES_MAX: usize = 4 * MIB;
    /// Relayed tool calls of one run waiting for their answer.
    TOOL_CALLS_OPEN_MAX: usize = 64;
    /// One answer of an MCP server of the configuration that is reached by HTTP.
    MCP_ANSWER_BYTES_MAX: usize = 8 * MIB;
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
    /// Rows of one answer about costs.
    COST_ROWS_MAX: usize = 10_000;
    /// The shortest secret value that is looked for; shorter ones would redact ordinary words.
    SECRET_BYTES_MIN: usize = 6;
    /// Known secret values of one run.
    SECRETS_MAX: usize = 1024;
    /// Colours and other control sequences inside one secret value through which it is still found.
    PAINT_BYTES_MAX: usize = 16 * KIB;
    /// How deep JSON of an agent may nest before it is kept as text.
    JSON_DEPTH_MAX: usize = 128;
}
