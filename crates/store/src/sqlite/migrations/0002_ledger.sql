-- What each run spent on each day (in UTC, counted from 1970) with each model: increments, added up
-- as they are booked. Money and what has none of it are told apart: unpriced is not zero.
CREATE TABLE ledger (
    run INTEGER NOT NULL REFERENCES runs (num),
    day INTEGER NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    input_uncached INTEGER NOT NULL,
    cache_read INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    output INTEGER NOT NULL,
    reasoning INTEGER NOT NULL,
    nanousd INTEGER NOT NULL,
    priced INTEGER NOT NULL,
    unpriced INTEGER NOT NULL,
    PRIMARY KEY (run, day, provider, model)
) STRICT, WITHOUT ROWID;

CREATE INDEX ledger_by_day ON ledger (day);

-- Runs from before there were books: their totals, on the day they began.
INSERT INTO ledger
SELECT num, started_at / 86400000, '', coalesce(model, ''),
    coalesce(totals ->> '$.tokens.input_uncached', 0), coalesce(totals ->> '$.tokens.cache_read', 0),
    coalesce(totals ->> '$.tokens.cache_write', 0), coalesce(totals ->> '$.tokens.output', 0),
    coalesce(totals ->> '$.tokens.reasoning', 0), coalesce(totals ->> '$.effective_nanousd', 0),
    totals ->> '$.effective_nanousd' IS NOT NULL, totals ->> '$.effective_nanousd' IS NULL
FROM runs
WHERE totals IS NOT NULL AND (
    totals ->> '$.effective_nanousd' IS NOT NULL
    OR totals ->> '$.tokens.input_uncached' + totals ->> '$.tokens.cache_read'
        + totals ->> '$.tokens.cache_write' + totals ->> '$.tokens.output' > 0);
