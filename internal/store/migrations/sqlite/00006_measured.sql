-- +goose Up
PRAGMA user_version = 6;

-- What a trial measured, apart from what it was: vals is JSON, a list of [metric, number], where a number that the
-- tool did not give is null, and the infinities are text. histograms is packed, see measured.go; NULL says that an
-- earlier version wrote the trial, whose histograms are in its blob "detail". New trials have their series in a blob
-- "series".
CREATE TABLE measured (
    trial      INTEGER PRIMARY KEY REFERENCES trials (id) ON DELETE CASCADE,
    vals       TEXT NOT NULL,
    histograms BLOB
);
INSERT INTO measured (trial, vals)
SELECT t.id, '[' || coalesce((SELECT group_concat('[' || v.metric || ',' || CASE
        WHEN v.value IS NULL THEN 'null'
        WHEN v.value = 9e999 THEN '"Infinity"'
        WHEN v.value = -9e999 THEN '"-Infinity"'
        ELSE printf('%!.17g', v.value) END || ']', ',' ORDER BY v.n)
    FROM trial_values v WHERE v.trial = t.id), '') || ']'
FROM trials t;

DROP VIEW measurements;
DROP TABLE trial_values;
CREATE VIEW measurements AS
SELECT t.run, t.workload, t.target, t.block, t.seq, t.started, m.name AS metric,
       CASE v.value ->> 1 WHEN 'Infinity' THEN 9e999 WHEN '-Infinity' THEN -9e999 ELSE v.value ->> 1 END AS value,
       m.unit, m.better, t.err, t.discarded
FROM trials t JOIN measured d ON d.trial = t.id, json_each(d.vals) v JOIN metrics m ON m.id = v.value ->> 0;

-- A list counts the trials of its runs without reading them.
CREATE INDEX trials_tally ON trials (run, err <> '', discarded <> '');

-- A run that several processes measure together: what each of them says of it, as JSON. runs has what that comes to.
CREATE TABLE shards (
    run   TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    shard INTEGER NOT NULL, -- from 0
    count INTEGER NOT NULL, -- of the run's
    ended BOOLEAN NOT NULL,
    data  TEXT NOT NULL,
    PRIMARY KEY (run, shard)
);

-- +goose Down
DROP TABLE shards;
DROP INDEX trials_tally;
CREATE TABLE trial_values (
    trial  INTEGER NOT NULL REFERENCES trials (id) ON DELETE CASCADE,
    n      INTEGER NOT NULL,
    metric INTEGER NOT NULL REFERENCES metrics (id),
    value  REAL,
    PRIMARY KEY (trial, n)
) WITHOUT ROWID;
INSERT INTO trial_values (trial, n, metric, value)
SELECT d.trial, v.key, v.value ->> 0, CASE v.value ->> 1 WHEN 'Infinity' THEN 9e999 WHEN '-Infinity' THEN -9e999 ELSE v.value ->> 1 END
FROM measured d, json_each(d.vals) v;
DROP VIEW measurements;
DROP TABLE measured;
CREATE VIEW measurements AS
SELECT t.run, t.workload, t.target, t.block, t.seq, t.started, m.name AS metric, v.value, m.unit,
       m.better, t.err, t.discarded
FROM trials t JOIN trial_values v ON v.trial = t.id JOIN metrics m ON m.id = v.metric;
PRAGMA user_version = 5;
