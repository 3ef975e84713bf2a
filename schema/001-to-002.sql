-- From version 1 to version 2.  Table run is made anew, since a CHECK cannot be changed in place.
CREATE TABLE run_2 (
    id                   INTEGER PRIMARY KEY,
    uuid                 TEXT NOT NULL,
    kind                 TEXT NOT NULL CHECK (kind IN ('live', 'sim', 'import')),
    program              TEXT,
    trace                TEXT,
    trace_hash           INTEGER,
    heuristic            TEXT,
    search               TEXT,
    seed                 INTEGER,
    deallocation         TEXT NOT NULL,
    no_release           INTEGER NOT NULL,
    budget_bytes         INTEGER,
    budget_share         REAL,
    remat_limit_ns       INTEGER,
    started_at_unix_ns   INTEGER NOT NULL,
    base_ts_ns           INTEGER NOT NULL,
    clock                TEXT NOT NULL CHECK (clock IN ('monotonic', 'logical')),
    result               TEXT NOT NULL,
    why                  TEXT,
    clock_ns             INTEGER,
    model_compute_ns     INTEGER,
    remat_compute_ns     INTEGER,
    peak_bytes           INTEGER,
    unlimited_peak_bytes INTEGER,
    constant_bytes       INTEGER,
    evictions            INTEGER,
    eager_evictions      INTEGER,
    rematerializations   INTEGER,
    score_evaluations    INTEGER,
    operator_runs        INTEGER,
    overshoots           INTEGER,
    slowdown             REAL,
    wall_ns              INTEGER,
    search_ns            INTEGER,
    record_ns            INTEGER,
    allocator_peak_bytes INTEGER,
    exit_code            INTEGER,
    has_events           INTEGER NOT NULL,
    host                 TEXT,
    pid                  INTEGER,
    rank                 INTEGER,
    unix_offset_ns       INTEGER,
    unix_uncertainty_ns  INTEGER,
    source               TEXT
);
INSERT INTO run_2 SELECT *, NULL, NULL, NULL, NULL, NULL, NULL FROM run;
DROP TABLE run;
ALTER TABLE run_2 RENAME TO run;
CREATE INDEX run_combination ON run (trace_hash, heuristic, budget_bytes);

CREATE TABLE loss_2 (
    run    INTEGER NOT NULL REFERENCES run (id),
    reason TEXT NOT NULL,
    count  INTEGER,
    PRIMARY KEY (run, reason)
) WITHOUT ROWID;
INSERT INTO loss_2 SELECT * FROM loss;
DROP TABLE loss;
ALTER TABLE loss_2 RENAME TO loss;

ALTER TABLE clock_sample ADD COLUMN uncertainty_ns INTEGER;

DROP INDEX event_chunk_of;
CREATE INDEX event_chunk_of ON event_chunk (run, kind, ts_min, ts_max);

CREATE TABLE recording_window (
    run          INTEGER NOT NULL REFERENCES run (id),
    id           INTEGER NOT NULL,
    begin_ts_ns  INTEGER NOT NULL,
    end_ts_ns    INTEGER,
    opened_by    TEXT NOT NULL,
    closed_by    TEXT,
    skipped      INTEGER NOT NULL,
    PRIMARY KEY (run, id)
) WITHOUT ROWID;

CREATE TABLE track (
    id      INTEGER PRIMARY KEY,
    name    TEXT NOT NULL,
    unit    TEXT,
    meaning TEXT NOT NULL
);

CREATE TABLE tile (
    run    INTEGER NOT NULL REFERENCES run (id),
    track  INTEGER NOT NULL REFERENCES track (id),
    level  INTEGER NOT NULL,
    page   INTEGER NOT NULL,
    n      INTEGER NOT NULL,
    format INTEGER NOT NULL,
    data   BLOB NOT NULL,
    PRIMARY KEY (run, track, level, page)
) WITHOUT ROWID;

PRAGMA user_version = 2;
