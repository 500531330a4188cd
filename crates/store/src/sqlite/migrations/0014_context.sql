-- What a client hands to the runs of a task, as a JSON object.
ALTER TABLE tasks ADD COLUMN context TEXT;
-- The agent said that it does not know the conversation of this run any more.
ALTER TABLE runs ADD COLUMN session_stale INTEGER NOT NULL DEFAULT 0;

-- The runs of one conversation, wherever they worked.
CREATE INDEX runs_by_session ON runs (native_session) WHERE native_session IS NOT NULL;
