-- The agent's own name for its conversation, kept once a turn of it went well, and the one that
-- this run was to take up.
ALTER TABLE runs ADD COLUMN native_session TEXT;
ALTER TABLE runs ADD COLUMN resumes TEXT;

CREATE INDEX runs_by_conversation ON runs (agent, cwd, id) WHERE native_session IS NOT NULL;
CREATE INDEX runs_by_resumed ON runs (resumes, id) WHERE resumes IS NOT NULL;
