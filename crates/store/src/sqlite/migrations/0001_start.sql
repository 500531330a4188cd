-- What someone wants done. The fence rises with every change of ownership.
CREATE TABLE tasks (
    num INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    key TEXT UNIQUE,
    agent TEXT NOT NULL,
    title TEXT NOT NULL,
    body TEXT NOT NULL,
    prompt TEXT NOT NULL,
    system_prompt TEXT,
    state TEXT NOT NULL CHECK (state IN
        ('queued', 'waiting', 'running', 'review', 'done', 'failed', 'cancelled')),
    waiting_for TEXT,
    review TEXT NOT NULL CHECK (review IN ('none', 'person')),
    fence INTEGER NOT NULL DEFAULT 0,
    generation INTEGER NOT NULL DEFAULT 1,
    created_at INTEGER NOT NULL
) STRICT;

CREATE INDEX tasks_open ON tasks (state, id) WHERE state IN ('queued', 'waiting', 'review');

-- One agent's work on one task under one lease.
CREATE TABLE runs (
    num INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    task BLOB NOT NULL REFERENCES tasks (id),
    fence INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('planned', 'live', 'stopping', 'settled')),
    holder TEXT NOT NULL,
    lease_expires_at INTEGER NOT NULL,
    head_seq INTEGER NOT NULL DEFAULT 0,
    agent TEXT NOT NULL,
    adapter TEXT NOT NULL,
    runtime TEXT NOT NULL,
    cwd TEXT NOT NULL,
    model TEXT,
    prompt_preview TEXT NOT NULL,
    pid INTEGER,
    started_at INTEGER NOT NULL,
    totals TEXT,
    ended_at INTEGER,
    outcome TEXT,
    code TEXT,
    message TEXT,
    CHECK ((state = 'settled') = (outcome IS NOT NULL)),
    CHECK ((state = 'settled') = (ended_at IS NOT NULL))
) STRICT;

CREATE INDEX runs_unsettled ON runs (id) WHERE state <> 'settled';
CREATE INDEX runs_of_task ON runs (task);

-- The redacted launch plan of a run, kept with it.
CREATE TABLE plans (
    run INTEGER PRIMARY KEY REFERENCES runs (num),
    plan BLOB NOT NULL
) STRICT;

-- Where the holder of an unsettled run stands. Gone when the run is settled.
CREATE TABLE states (
    run INTEGER PRIMARY KEY REFERENCES runs (num),
    machine BLOB NOT NULL,
    dialect BLOB NOT NULL,
    host BLOB NOT NULL,
    spool_offset INTEGER NOT NULL
) STRICT;

-- Append-ordered. No index by run: random pages would cost more than all else together.
-- (run, seq) is unique because a Batch is refused unless it starts right after the run's head.
CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    bytes BLOB NOT NULL
) STRICT;

-- One row per Batch: its events have consecutive ids, so a run's page is found by its spans.
CREATE TABLE spans (
    run INTEGER NOT NULL,
    first_seq INTEGER NOT NULL,
    first_id INTEGER NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (run, first_seq)
) STRICT, WITHOUT ROWID;

-- Wishes, in the order they came; each is taken once.
CREATE TABLE commands (
    num INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    run INTEGER NOT NULL REFERENCES runs (num),
    asked_at INTEGER NOT NULL,
    wish BLOB NOT NULL,
    taken INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX commands_waiting ON commands (run, num) WHERE taken = 0;

-- What a Batch asked for and no later one reported done.
CREATE TABLE effects (
    run INTEGER NOT NULL REFERENCES runs (num),
    n INTEGER NOT NULL,
    bytes BLOB NOT NULL,
    PRIMARY KEY (run, n)
) STRICT, WITHOUT ROWID;

-- Sums set aside; once the run is settled, what it really spent.
CREATE TABLE reservations (
    scope TEXT NOT NULL,
    run INTEGER NOT NULL REFERENCES runs (num),
    nanousd INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    settled_at INTEGER,
    PRIMARY KEY (scope, run)
) STRICT, WITHOUT ROWID;

CREATE INDEX reservations_of_run ON reservations (run);
