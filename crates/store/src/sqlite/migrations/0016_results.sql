-- The tokens, the model, the provider and the billing of a run, as the result event has them (JSON).
-- Runs from before have none: their tokens are those of `totals`, when they counted some.
ALTER TABLE runs ADD COLUMN report TEXT;
-- How the run's account is paid for, beside the ledger: costs tell billed from included.
ALTER TABLE runs ADD COLUMN billing TEXT;
