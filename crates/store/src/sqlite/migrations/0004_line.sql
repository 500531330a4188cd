-- What waits for a slot: in which line (that of an adapter), under which id its run was asked for,
-- and how urgent it is. Within a priority whoever came first is first: `num` is the order of arrival.
ALTER TABLE tasks ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN pool TEXT;
ALTER TABLE tasks ADD COLUMN run BLOB;

CREATE UNIQUE INDEX tasks_by_run ON tasks (run) WHERE run IS NOT NULL;
CREATE INDEX tasks_in_line ON tasks (pool, priority DESC, num)
    WHERE state = 'waiting' AND waiting_for = 'pool';
CREATE INDEX runs_in_pool ON runs (adapter) WHERE state <> 'settled';
