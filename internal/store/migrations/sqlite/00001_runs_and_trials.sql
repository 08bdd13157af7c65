-- +goose Up

-- "iotx": tells a store from any other SQLite file. user_version repeats the number of the newest
-- migration, so that opening an up to date store reads two integers and no more.
PRAGMA application_id = 1768911992;
PRAGMA user_version = 1;

-- Instants are text in UTC with nine digits of the second, so that they sort and that SQLite's date
-- functions read them; lengths are nanoseconds; seeds are decimal text, because they use all 64 bits.
CREATE TABLE runs (
    id          TEXT PRIMARY KEY,
    name        TEXT NOT NULL,
    version     TEXT NOT NULL,
    plan        BLOB NOT NULL,
    seed        TEXT NOT NULL,
    started     TEXT,
    ended       TEXT,
    status      TEXT NOT NULL,
    baseline    TEXT NOT NULL,
    precision   REAL NOT NULL,
    margin      REAL NOT NULL,
    environment TEXT NOT NULL, -- JSON, as are the next three
    targets     TEXT NOT NULL,
    workloads   TEXT NOT NULL,
    findings    TEXT NOT NULL
);

CREATE TABLE trials (
    id        INTEGER PRIMARY KEY,
    run       TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    seq       INTEGER NOT NULL,
    block     INTEGER NOT NULL,
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

-- A name with its unit stands once, not once a value.
CREATE TABLE metrics (
    id     INTEGER PRIMARY KEY,
    name   TEXT NOT NULL,
    unit   TEXT NOT NULL,
    better TEXT NOT NULL,
    UNIQUE (name, unit, better)
);

-- value is NULL where the tool gave no number (NaN).
CREATE TABLE trial_values (
    trial  INTEGER NOT NULL REFERENCES trials (id) ON DELETE CASCADE,
    n      INTEGER NOT NULL,
    metric INTEGER NOT NULL REFERENCES metrics (id),
    value  REAL,
    PRIMARY KEY (trial, n)
) WITHOUT ROWID;

-- kind "raw" is the output of the tool, "detail" the JSON of series and histograms; both are zstd.
CREATE TABLE blobs (
    trial INTEGER NOT NULL REFERENCES trials (id) ON DELETE CASCADE,
    kind  TEXT NOT NULL,
    data  BLOB NOT NULL,
    PRIMARY KEY (trial, kind)
);

-- For people with a SQL prompt.
CREATE VIEW measurements AS
SELECT t.run, t.workload, t.target, t.block, t.seq, t.started, m.name AS metric, v.value, m.unit,
       m.better, t.err, t.discarded
FROM trials t JOIN trial_values v ON v.trial = t.id JOIN metrics m ON m.id = v.metric;

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

-- +goose Down
DROP VIEW facts;
DROP VIEW findings;
DROP VIEW measurements;
DROP TABLE blobs;
DROP TABLE trial_values;
DROP TABLE metrics;
DROP TABLE trials;
DROP TABLE runs;
