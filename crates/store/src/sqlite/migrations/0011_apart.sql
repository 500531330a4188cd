-- What is the matter of one task (its own budget) holds that task and those below it, and not the
-- others of the same agent in the same directory: crowds are told apart by whose matter it is too.
DROP INDEX tasks_held;
CREATE INDEX tasks_held
    ON tasks (waiting_for, agent, ifnull(cwd, ''), ifnull(pool, ''), priority DESC, num)
    WHERE state = 'waiting' AND run IS NULL AND until IS NULL;
