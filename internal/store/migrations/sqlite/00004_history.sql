-- +goose Up
PRAGMA user_version = 4;

-- What a search looks in, in lower case, one item a line: id, name, baseline, host, and the
-- names, machines and places of targets and the names of workloads.
ALTER TABLE runs ADD COLUMN words TEXT NOT NULL DEFAULT '';
UPDATE runs SET words = lower(id || char(10) || name || char(10) || baseline
    || coalesce(char(10) || (environment ->> 'hostname'), '')
    || coalesce((SELECT group_concat(char(10) || coalesce(t.value ->> 'name', '') || char(10) || coalesce(t.value ->> 'machine', '')
        || char(10) || coalesce(t.value ->> 'place', ''), '') FROM json_each(targets) t), '')
    || coalesce((SELECT group_concat(char(10) || coalesce(w.value ->> 'name', ''), '') FROM json_each(workloads) w), ''));

-- A page of the history is found in the index alone; rows of runs are long.
CREATE INDEX runs_history ON runs (started, id, status, name, words);
-- The runs that have a cell, and the cells there are.
CREATE INDEX trials_cell ON trials (workload, target, run);

-- +goose Down
DROP INDEX trials_cell;
DROP INDEX runs_history;
ALTER TABLE runs DROP COLUMN words;
PRAGMA user_version = 3;
