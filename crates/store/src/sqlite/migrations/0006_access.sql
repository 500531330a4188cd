-- Who may use the API besides the owner: a token is known by its hash alone. A browser that signed in
-- has one too.
CREATE TABLE tokens (
    id BLOB PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    hash BLOB NOT NULL UNIQUE,
    scope TEXT NOT NULL,
    browser INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER
) STRICT;

-- What was answered to requests that carry a key of their caller's, for a day. `chosen` is the id of
-- what is made: it is here before anything is, so that asking again after a crash makes the same.
CREATE TABLE answers (
    caller TEXT NOT NULL,
    key TEXT NOT NULL,
    request BLOB NOT NULL,
    chosen BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    status INTEGER,
    body BLOB,
    PRIMARY KEY (caller, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX answers_by_age ON answers (created_at);
