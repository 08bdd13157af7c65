-- +goose Up
PRAGMA user_version = 3;
-- JSON; null where the rig was not calibrated.
ALTER TABLE runs ADD COLUMN calibration TEXT NOT NULL DEFAULT 'null';

-- +goose Down
ALTER TABLE runs DROP COLUMN calibration;
PRAGMA user_version = 2;
