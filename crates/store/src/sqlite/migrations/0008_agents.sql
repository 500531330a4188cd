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
