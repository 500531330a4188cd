-- Agents that were hired. The spec has the keys of `agents.<name>` in the configuration; it is NULL
-- where the configuration has the agent itself and only its standing is kept here. An agent is never
-- deleted: a retired one keeps its name, because its runs are known by it.
CREATE TABLE agents (
    num INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    name TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL CHECK (state IN ('active', 'paused', 'retired')),
    spec TEXT,
    version INTEGER NOT NULL DEFAULT 1,
    hired_by TEXT NOT NULL,
    hired_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL
) STRICT;

-- A run that was deleted keeps its row: its books stay true and its id is never given again. What
-- it said goes, in slices; `purged` says that all of it is gone.
ALTER TABLE runs ADD COLUMN deleted_at INTEGER;
ALTER TABLE runs ADD COLUMN purged INTEGER NOT NULL DEFAULT 0;

CREATE INDEX runs_half_deleted ON runs (num) WHERE deleted_at IS NOT NULL AND purged = 0;
CREATE INDEX runs_by_end ON runs (ended_at) WHERE ended_at IS NOT NULL AND deleted_at IS NULL;

-- Which runs name a blob: one that nobody names any more is removed with the last run that did.
CREATE TABLE blob_names (
    hash TEXT NOT NULL,
    run INTEGER NOT NULL REFERENCES runs (num),
    PRIMARY KEY (hash, run)
) STRICT, WITHOUT ROWID;

CREATE INDEX blob_names_of_run ON blob_names (run);

INSERT OR IGNORE INTO blob_names
SELECT value ->> '$.hash', run FROM events, json_each(CAST(bytes AS TEXT))
WHERE instr(bytes, CAST('_blob":{' AS BLOB)) > 0 AND key LIKE '%\_blob' ESCAPE '\'
    AND value ->> '$.hash' IS NOT NULL;
