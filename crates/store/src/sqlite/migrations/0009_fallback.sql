-- Who does a run in place of the one it was given to, and why.
ALTER TABLE runs ADD COLUMN fallback TEXT;
