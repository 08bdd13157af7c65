-- +goose Up
PRAGMA user_version = 5;
-- JSON; null where the plan asks nothing of the report.
ALTER TABLE runs ADD COLUMN presentation TEXT NOT NULL DEFAULT 'null';

-- +goose Down
ALTER TABLE runs DROP COLUMN presentation;
PRAGMA user_version = 4;
