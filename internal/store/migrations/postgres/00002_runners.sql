-- +goose Up

-- The processes that measure runs, and when each was last heard of: milliseconds of this server's clock, so that the
-- clocks of their hosts are not asked. SQLite has no such table: who shares a file sees whether a process lives.
CREATE TABLE runners (
    run    TEXT COLLATE "C" NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    runner TEXT COLLATE "C" NOT NULL,
    seen   BIGINT NOT NULL,
    PRIMARY KEY (run, runner)
);

-- +goose Down
DROP TABLE runners;
