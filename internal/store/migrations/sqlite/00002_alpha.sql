-- +goose Up
PRAGMA user_version = 2;
ALTER TABLE runs ADD COLUMN alpha REAL NOT NULL DEFAULT 0.05;

-- +goose Down
ALTER TABLE runs DROP COLUMN alpha;
PRAGMA user_version = 1;
