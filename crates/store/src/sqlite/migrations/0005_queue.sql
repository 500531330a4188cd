-- Tasks that the queue starts: where they are to be done, what they belong to, when they may be
-- looked at again, how often they were tried in this generation, and what the next run begins with.
ALTER TABLE tasks ADD COLUMN by_queue INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN cwd TEXT;
ALTER TABLE tasks ADD COLUMN labels TEXT NOT NULL DEFAULT '[]';
ALTER TABLE tasks ADD COLUMN parent BLOB;
ALTER TABLE tasks ADD COLUMN depth INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN budget TEXT;
ALTER TABLE tasks ADD COLUMN not_before INTEGER;
-- When to look at a task that waits; null when something else has to happen first.
ALTER TABLE tasks ADD COLUMN until INTEGER;
ALTER TABLE tasks ADD COLUMN tries INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN code TEXT;
ALTER TABLE tasks ADD COLUMN note TEXT;
ALTER TABLE tasks ADD COLUMN next_prompt TEXT;
ALTER TABLE tasks ADD COLUMN resumes BLOB;
ALTER TABLE tasks ADD COLUMN wake TEXT;
-- Someone cancelled it while it ran: nothing is tried again after that run.
ALTER TABLE tasks ADD COLUMN recalled INTEGER NOT NULL DEFAULT 0;

-- The first task of each agent that can be started is found here, however many there are.
CREATE INDEX tasks_ready ON tasks (agent, priority DESC, num)
    WHERE run IS NULL AND (state = 'queued' OR waiting_for = 'pool');
CREATE INDEX tasks_due ON tasks (until) WHERE state = 'waiting' AND until IS NOT NULL;
CREATE INDEX tasks_held ON tasks (waiting_for, priority DESC, num) WHERE state = 'waiting';
CREATE INDEX tasks_of_parent ON tasks (parent, num) WHERE parent IS NOT NULL;
CREATE INDEX runs_of_agent ON runs (agent) WHERE state <> 'settled';

-- A page of any state is a range of this one.
DROP INDEX tasks_open;
CREATE INDEX tasks_by_state ON tasks (state, id);

-- What must be done before what. Only a task that is there can be named, so there is no circle.
CREATE TABLE dependencies (
    task BLOB NOT NULL REFERENCES tasks (id),
    after BLOB NOT NULL REFERENCES tasks (id),
    PRIMARY KEY (task, after)
) STRICT, WITHOUT ROWID;

CREATE INDEX dependencies_by_after ON dependencies (after, task);

CREATE TABLE labels (
    label TEXT NOT NULL,
    task BLOB NOT NULL REFERENCES tasks (id),
    PRIMARY KEY (label, task)
) STRICT, WITHOUT ROWID;

-- What people say of a task. What agents say of it is in the events of their runs.
CREATE TABLE comments (
    num INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    task BLOB NOT NULL REFERENCES tasks (id),
    at INTEGER NOT NULL,
    author TEXT NOT NULL,
    text TEXT NOT NULL,
    mentions TEXT NOT NULL
) STRICT;

CREATE INDEX comments_of_task ON comments (task, num);
