-- +goose Up

-- application_id is "iotx" and marks the file as a store. user_version repeats the number of the newest
-- migration, so that opening an up-to-date store reads only two integers.
PRAGMA application_id = 1768911992;
PRAGMA user_version = 1;

-- Times are text in UTC with nine decimal places of the second, so that they sort and SQLite's date functions
-- can read them. Durations are in nanoseconds. Seeds are decimal text, because they use all 64 bits.
CREATE TABLE runs (
    id           TEXT PRIMARY KEY,
    name         TEXT NOT NULL,
    version      TEXT NOT NULL,
    plan         BLOB NOT NULL,
    seed         TEXT NOT NULL,
    started      TEXT,
    ended        TEXT,
    status       TEXT NOT NULL,
    baseline     TEXT NOT NULL,
    precision    REAL NOT NULL,
    margin       REAL NOT NULL,
    alpha        REAL NOT NULL,
    environment  TEXT NOT NULL, -- JSON, as are the next five
    targets      TEXT NOT NULL,
    workloads    TEXT NOT NULL,
    findings     TEXT NOT NULL,
    calibration  TEXT NOT NULL, -- null if the run was not calibrated
    presentation TEXT NOT NULL, -- null if the plan does not set it
    words        TEXT NOT NULL  -- for searches: lower case, one item per line; see searched in history.go
);
-- The history reads only this index. Rows of runs are long.
CREATE INDEX runs_history ON runs (started, id, status, name, words);

CREATE TABLE trials (
    id        INTEGER PRIMARY KEY,
    run       TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    seq       INTEGER NOT NULL,
    round     INTEGER NOT NULL,
    start_index INTEGER NOT NULL, -- from 1; 0 is unknown
    target    TEXT NOT NULL,
    workload  TEXT NOT NULL,
    seed      TEXT NOT NULL,
    ramp_ns   INTEGER NOT NULL,
    length_ns INTEGER NOT NULL,
    cold      BOOLEAN NOT NULL,
    started   TEXT,
    took_ns   INTEGER NOT NULL,
    labels    TEXT NOT NULL, -- JSON, as are the next two
    facts     TEXT NOT NULL,
    findings  TEXT NOT NULL,
    err       TEXT NOT NULL,
    discarded TEXT NOT NULL,
    UNIQUE (run, seq)
);
-- For searches for the runs that have a cell, and for the list of all cells.
CREATE INDEX trials_cell ON trials (workload, target, run);
-- A list of runs counts their trials in this index, without reading the trials.
CREATE INDEX trials_tally ON trials (run, err <> '', discarded <> '');

-- metrics and vals are JSON lists of equal length: [name, unit, better], and numbers. A number that is not finite is null.
-- histograms is packed, see measured.go.
CREATE TABLE measured (
    trial      INTEGER PRIMARY KEY REFERENCES trials (id) ON DELETE CASCADE,
    metrics    TEXT NOT NULL,
    vals       TEXT NOT NULL,
    histograms BLOB NOT NULL
);

-- kind is "raw" (the output of the tool), "series", "intervals" or "profile". data is compressed with zstd.
CREATE TABLE blobs (
    trial INTEGER NOT NULL REFERENCES trials (id) ON DELETE CASCADE,
    kind  TEXT NOT NULL,
    data  BLOB NOT NULL,
    PRIMARY KEY (trial, kind)
);

-- For a run that several processes measure together: the run as each process last saved it, as JSON. The table runs
-- contains the merged run.
CREATE TABLE shards (
    run   TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    shard INTEGER NOT NULL, -- from 0
    count INTEGER NOT NULL, -- number of shards of the run
    ended BOOLEAN NOT NULL,
    data  TEXT NOT NULL,
    PRIMARY KEY (run, shard)
);

-- The views are for users who query the store with SQL.
CREATE VIEW measurements AS
SELECT t.run, t.workload, t.target, t.round, t.seq, t.start_index, t.started, m.value ->> 0 AS metric, v.value,
       m.value ->> 1 AS unit, m.value ->> 2 AS better, t.err, t.discarded
FROM trials t JOIN measured d ON d.trial = t.id, json_each(d.metrics) m JOIN json_each(d.vals) v ON v.key = m.key;

CREATE VIEW findings AS
SELECT t.run, t.seq, t.target, t.workload, f.value ->> 'rule' AS rule,
       f.value ->> 'severity' AS severity, f.value ->> 'evidence' AS evidence, f.value ->> 'hint' AS hint
FROM trials t, json_each(t.findings) f
UNION ALL
SELECT r.id, NULL, NULL, NULL, f.value ->> 'rule', f.value ->> 'severity', f.value ->> 'evidence',
       f.value ->> 'hint'
FROM runs r, json_each(r.findings) f;

CREATE VIEW facts AS
SELECT t.run, t.seq, t.target, t.workload, f.key AS name, f.value
FROM trials t, json_each(t.facts) f
UNION ALL
SELECT r.id, NULL, NULL, NULL, f.key, f.value FROM runs r, json_each(r.environment) f;
