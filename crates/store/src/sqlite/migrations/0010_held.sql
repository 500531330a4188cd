-- Those that wait for something without a time, by who would do them and where: of each such crowd
-- the first one says whether the others can go on, so the others need not be looked at.
DROP INDEX tasks_held;
CREATE INDEX tasks_held ON tasks (waiting_for, agent, ifnull(cwd, ''), priority DESC, num)
    WHERE state = 'waiting' AND run IS NULL AND until IS NULL;
