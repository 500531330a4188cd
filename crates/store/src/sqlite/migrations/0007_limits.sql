-- What is known of each quota: whether runs may start in its scope, by whose word not, and how its
-- windows stood when they were last told. The version rises with every change of the breaker; who
-- changes it names the one that was seen.
CREATE TABLE quotas (
    scope TEXT NOT NULL PRIMARY KEY,
    version INTEGER NOT NULL DEFAULT 0,
    breaker TEXT,
    why TEXT,
    opened_at INTEGER,
    opened_by BLOB,
    windows TEXT,
    told_at INTEGER
) STRICT, WITHOUT ROWID;

-- The quota that a run spends.
ALTER TABLE runs ADD COLUMN quota_scope TEXT;
CREATE INDEX runs_in_quota ON runs (quota_scope, id)
    WHERE state <> 'settled' AND quota_scope IS NOT NULL;

-- Sums are set aside in every unit, and are read by scope from some moment on.
ALTER TABLE reservations ADD COLUMN turns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE reservations ADD COLUMN ms INTEGER NOT NULL DEFAULT 0;
CREATE INDEX reservations_by_end ON reservations (scope, settled_at);
