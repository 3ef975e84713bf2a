-- dtrscope database, schema version 2.
--
-- Facts go in as they happen.  Low-rate facts are rows of the tables below; the event stream is in
-- event_chunk, packed by column, and shows as one view per event kind (eviction, operator_run, ...)
-- where the dtr_event module is loaded: in dtrscope itself, and in plain sqlite3 after
-- `.load dtrscope_sqlite`.  Everything else (statistics, tiles, intervals) is computed.
--
-- Times are nanoseconds, sizes bytes.  NULL means "not known" or "does not apply", never 0.

PRAGMA application_id = 0x44545253; -- "DTRS"
PRAGMA user_version = 2;

-- What made the file: key, value.
CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- One row a run: recorded from a program, simulated, or imported from another tool's file.  A sweep
-- is many simulated runs without events.
CREATE TABLE run (
    id                   INTEGER PRIMARY KEY,
    uuid                 TEXT NOT NULL,    -- 32 hex digits, differs between all runs anywhere
    kind                 TEXT NOT NULL CHECK (kind IN ('live', 'sim', 'import')),
    program              TEXT,             -- of a live run
    trace                TEXT,             -- of a simulated run: where the trace came from
    trace_hash           INTEGER,          -- of its content; equal traces have equal hashes
    heuristic            TEXT,             -- NULL without a budget
    search               TEXT,             -- scan, index, sample
    seed                 INTEGER,
    deallocation         TEXT NOT NULL,    -- eager, ignore, banish
    no_release           INTEGER NOT NULL, -- 1: the trace's releases were left out
    budget_bytes         INTEGER,          -- NULL: no limit
    budget_share         REAL,             -- of unlimited_peak_bytes, where it was given so
    remat_limit_ns       INTEGER,          -- NULL: none
    started_at_unix_ns   INTEGER NOT NULL, -- wall clock
    base_ts_ns           INTEGER NOT NULL, -- event times count from here
    clock                TEXT NOT NULL CHECK (clock IN ('monotonic', 'logical')),
    result               TEXT NOT NULL,    -- running, ok, out_of_memory, thrashed, failed, killed
    why                  TEXT,             -- one sentence, unless ok
    clock_ns             INTEGER,          -- logical clock at the end
    model_compute_ns     INTEGER,          -- cost of first runs
    remat_compute_ns     INTEGER,          -- cost of replays
    peak_bytes           INTEGER,          -- as the runtime counts
    unlimited_peak_bytes INTEGER,          -- of the same trace without a budget; NULL for live runs
    constant_bytes       INTEGER,
    evictions            INTEGER,          -- for the budget
    eager_evictions      INTEGER,
    rematerializations   INTEGER,
    score_evaluations    INTEGER,
    operator_runs        INTEGER,
    overshoots           INTEGER,
    slowdown             REAL,             -- (first runs + replays) / first runs
    wall_ns              INTEGER,          -- live: from opening to closing the session
    search_ns            INTEGER,          -- live: choosing victims
    record_ns            INTEGER,          -- live: recording, on the program's thread (estimated)
    allocator_peak_bytes INTEGER,          -- live: as the backend's allocator counts
    exit_code            INTEGER,          -- of the program, where `dtrscope record` started it
    has_events           INTEGER NOT NULL, -- 1: the event stream of this run is in event_chunk
    host                 TEXT,             -- live: name of the machine
    pid                  INTEGER,          -- live: of the process
    rank                 INTEGER,          -- among the processes of a job; NULL: no launcher said
    unix_offset_ns       INTEGER,          -- ts_ns + this is Unix time; NULL: unaligned, not known
    unix_uncertainty_ns  INTEGER,          -- that offset may be off by this much either way
    source               TEXT              -- the file that the run was merged or imported from
);

-- To find what a sweep has done already.
CREATE INDEX run_combination ON run (trace_hash, heuristic, budget_bytes);

-- The settings in force, and where each came from.
CREATE TABLE setting (
    run    INTEGER NOT NULL REFERENCES run (id),
    name   TEXT NOT NULL,
    value  TEXT,                           -- NULL: not set
    origin TEXT NOT NULL CHECK (origin IN ('default', 'program', 'environment', 'command line')),
    PRIMARY KEY (run, name)
) WITHOUT ROWID;

-- Texts of NAME ids: operators, phases, ranges.
CREATE TABLE name (
    run  INTEGER NOT NULL REFERENCES run (id),
    id   INTEGER NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (run, id)
) WITHOUT ROWID;

-- What is missing from the event stream, and why.  No row: nothing is.
CREATE TABLE loss (
    run    INTEGER NOT NULL REFERENCES run (id),
    reason TEXT NOT NULL,                  -- ring full, disk full, overwritten, ...
    count  INTEGER,                        -- events; NULL: some, not known how many
    PRIMARY KEY (run, reason)
) WITHOUT ROWID;

-- Pairs of the clocks, taken together, to line runs up.
CREATE TABLE clock_sample (
    run          INTEGER NOT NULL REFERENCES run (id),
    monotonic_ns INTEGER NOT NULL,
    unix_ns      INTEGER NOT NULL,
    uncertainty_ns INTEGER                 -- half the time that taking the pair took; NULL: not measured
);

-- The parts of the run that were recorded.  No row: all of it.
CREATE TABLE recording_window (
    run          INTEGER NOT NULL REFERENCES run (id),
    id           INTEGER NOT NULL,         -- 0, 1, ... in order of time
    begin_ts_ns  INTEGER NOT NULL,
    end_ts_ns    INTEGER,                  -- NULL: open until the last event
    opened_by    TEXT NOT NULL,            -- start, program, signal, delay, step, dump
    closed_by    TEXT,                     -- end, program, signal, duration, step, dump
    skipped      INTEGER NOT NULL,         -- events left out on purpose between the last window and this
    PRIMARY KEY (run, id)
) WITHOUT ROWID;

-- The event stream: up to 4096 events of one kind and run a row, packed by column (format 1, or 2:
-- the same in a zstd frame; see README.md).  The ranges are inclusive.
CREATE TABLE event_chunk (
    id      INTEGER PRIMARY KEY,
    run     INTEGER NOT NULL REFERENCES run (id),
    kind    INTEGER NOT NULL,              -- number of the event kind
    ts_min  INTEGER NOT NULL,
    ts_max  INTEGER NOT NULL,
    seq_min INTEGER NOT NULL,
    seq_max INTEGER NOT NULL,
    n       INTEGER NOT NULL,
    format  INTEGER NOT NULL,
    data    BLOB NOT NULL
);
CREATE INDEX event_chunk_of ON event_chunk (run, kind, ts_min, ts_max);

-- What the tiles count: one row a track.
CREATE TABLE track (
    id      INTEGER PRIMARY KEY,
    name    TEXT NOT NULL,
    unit    TEXT,                          -- of total, least and most; NULL: the track only counts
    meaning TEXT NOT NULL
);

-- The time pyramid: buckets of 2^18 ns * 4^level (level may be below 0), 256 a page, each with the count of the events that
-- begin in it and the sum, least and most of their value.  Packed as event_chunk is (README.md).
CREATE TABLE tile (
    run    INTEGER NOT NULL REFERENCES run (id),
    track  INTEGER NOT NULL REFERENCES track (id),
    level  INTEGER NOT NULL,
    page   INTEGER NOT NULL,               -- first bucket / 256
    n      INTEGER NOT NULL,               -- buckets that are not empty
    format INTEGER NOT NULL,
    data   BLOB NOT NULL,
    PRIMARY KEY (run, track, level, page)
) WITHOUT ROWID;
