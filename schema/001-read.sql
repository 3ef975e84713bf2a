-- What a reader of version 2 puts over a file of version 1, on its own connection: the file is not
-- touched.  A temporary view hides the table of the same name.
CREATE TEMP VIEW run AS SELECT *, NULL AS host, NULL AS pid, NULL AS rank, NULL AS unix_offset_ns,
    NULL AS unix_uncertainty_ns, NULL AS source FROM main.run;
CREATE TEMP VIEW clock_sample AS SELECT *, NULL AS uncertainty_ns FROM main.clock_sample;
CREATE TEMP TABLE recording_window (
    run INTEGER, id INTEGER, begin_ts_ns INTEGER, end_ts_ns INTEGER, opened_by TEXT, closed_by TEXT,
    skipped INTEGER);
CREATE TEMP TABLE track (id INTEGER PRIMARY KEY, name TEXT, unit TEXT, meaning TEXT);
CREATE TEMP TABLE tile (
    run INTEGER, track INTEGER, level INTEGER, page INTEGER, n INTEGER, format INTEGER, data BLOB);
