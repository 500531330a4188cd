-- Approximate figures have rows of their own, so that the runtime's own total can replace them.
CREATE TABLE ledger_apart (
    run INTEGER NOT NULL REFERENCES runs (num),
    day INTEGER NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    approximate INTEGER NOT NULL,
    input_uncached INTEGER NOT NULL,
    cache_read INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    output INTEGER NOT NULL,
    reasoning INTEGER NOT NULL,
    nanousd INTEGER NOT NULL,
    priced INTEGER NOT NULL,
    unpriced INTEGER NOT NULL,
    PRIMARY KEY (run, day, provider, model, approximate)
) STRICT, WITHOUT ROWID;

INSERT INTO ledger_apart
SELECT run, day, provider, model, 0, input_uncached, cache_read, cache_write, output, reasoning,
    nanousd, priced, unpriced
FROM ledger;

DROP TABLE ledger;
ALTER TABLE ledger_apart RENAME TO ledger;
CREATE INDEX ledger_by_day ON ledger (day);
