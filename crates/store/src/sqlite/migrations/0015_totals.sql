-- What is read often is found without a scan.

-- The short form in which people give an id (its last eight digits), and the same backwards for who
-- gives fewer of the last ones. Nothing is stored but the indexes.
ALTER TABLE runs ADD COLUMN short_id TEXT
    GENERATED ALWAYS AS (substr(lower(hex(id)), -8)) VIRTUAL;
ALTER TABLE runs ADD COLUMN short_id_reversed TEXT
    GENERATED ALWAYS AS (substr(lower(hex(id)), -1, 1) || substr(lower(hex(id)), -2, 1)
        || substr(lower(hex(id)), -3, 1) || substr(lower(hex(id)), -4, 1)
        || substr(lower(hex(id)), -5, 1) || substr(lower(hex(id)), -6, 1)
        || substr(lower(hex(id)), -7, 1) || substr(lower(hex(id)), -8, 1)) VIRTUAL;
ALTER TABLE tasks ADD COLUMN short_id TEXT
    GENERATED ALWAYS AS (substr(lower(hex(id)), -8)) VIRTUAL;
ALTER TABLE tasks ADD COLUMN short_id_reversed TEXT
    GENERATED ALWAYS AS (substr(lower(hex(id)), -1, 1) || substr(lower(hex(id)), -2, 1)
        || substr(lower(hex(id)), -3, 1) || substr(lower(hex(id)), -4, 1)
        || substr(lower(hex(id)), -5, 1) || substr(lower(hex(id)), -6, 1)
        || substr(lower(hex(id)), -7, 1) || substr(lower(hex(id)), -8, 1)) VIRTUAL;
-- The id under which a run was asked for that waits for a slot.
ALTER TABLE tasks ADD COLUMN run_short_id TEXT
    GENERATED ALWAYS AS (substr(lower(hex(run)), -8)) VIRTUAL;
ALTER TABLE tasks ADD COLUMN run_short_id_reversed TEXT
    GENERATED ALWAYS AS (substr(lower(hex(run)), -1, 1) || substr(lower(hex(run)), -2, 1)
        || substr(lower(hex(run)), -3, 1) || substr(lower(hex(run)), -4, 1)
        || substr(lower(hex(run)), -5, 1) || substr(lower(hex(run)), -6, 1)
        || substr(lower(hex(run)), -7, 1) || substr(lower(hex(run)), -8, 1)) VIRTUAL;
CREATE INDEX runs_by_short_id ON runs (short_id);
CREATE INDEX runs_by_short_id_reversed ON runs (short_id_reversed);
CREATE INDEX tasks_by_short_id ON tasks (short_id);
CREATE INDEX tasks_by_short_id_reversed ON tasks (short_id_reversed);
CREATE INDEX tasks_by_run_short_id ON tasks (run_short_id)
    WHERE state = 'waiting' AND run IS NOT NULL;
CREATE INDEX tasks_by_run_short_id_reversed ON tasks (run_short_id_reversed)
    WHERE state = 'waiting' AND run IS NOT NULL;

-- The events that are read by their task: what agents say of it, and how far they are.
CREATE TABLE task_events (
    run INTEGER NOT NULL REFERENCES runs (num),
    kind TEXT NOT NULL,
    event INTEGER NOT NULL,
    PRIMARY KEY (run, kind, event)
) STRICT, WITHOUT ROWID;

-- Inside a text the quotes around the name of a kind would be escaped.
INSERT INTO task_events
SELECT run, CAST(bytes AS TEXT) ->> '$.kind', id FROM events
WHERE (instr(substr(bytes, 1, 512), CAST('"kind":"comment"' AS BLOB)) > 0
        OR instr(substr(bytes, 1, 512), CAST('"kind":"progress"' AS BLOB)) > 0)
    AND CAST(bytes AS TEXT) ->> '$.kind' IN ('comment', 'progress');

-- What all settled runs of a scope have spent. The upper and the lower halves of the numbers are added
-- apart, because a sum may not fit; a total ends at the largest number.
CREATE TABLE scope_totals (
    scope TEXT NOT NULL PRIMARY KEY,
    nanousd INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    turns INTEGER NOT NULL,
    ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO scope_totals
SELECT scope,
    iif(a_high + (a_low >> 32) > 2147483647, 9223372036854775807, (a_high << 32) + a_low),
    iif(b_high + (b_low >> 32) > 2147483647, 9223372036854775807, (b_high << 32) + b_low),
    iif(c_high + (c_low >> 32) > 2147483647, 9223372036854775807, (c_high << 32) + c_low),
    iif(d_high + (d_low >> 32) > 2147483647, 9223372036854775807, (d_high << 32) + d_low)
FROM (SELECT scope,
        sum(nanousd >> 32) AS a_high, sum(nanousd & 4294967295) AS a_low,
        sum(tokens >> 32) AS b_high, sum(tokens & 4294967295) AS b_low,
        sum(turns >> 32) AS c_high, sum(turns & 4294967295) AS c_low,
        sum(ms >> 32) AS d_high, sum(ms & 4294967295) AS d_low
    FROM reservations WHERE settled_at IS NOT NULL GROUP BY scope);
