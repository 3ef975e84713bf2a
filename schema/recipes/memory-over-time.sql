-- How many bytes were in use over time, in at most 1000 buckets?
WITH r (run) AS (SELECT coalesce(:run, (SELECT min(id) FROM run WHERE has_events = 1))),
samples AS MATERIALIZED (
    SELECT ts_ns, in_use FROM r JOIN allocation AS a ON a.run = r.run
    UNION ALL SELECT ts_ns, in_use FROM r JOIN freeing AS f ON f.run = r.run
    UNION ALL SELECT ts_ns, in_use FROM r JOIN eviction AS e ON e.run = r.run),
span AS (SELECT min(ts_ns) AS t0, max(1, (max(ts_ns) - min(ts_ns)) / 999) AS width FROM samples)
SELECT (s.ts_ns - p.t0) / p.width AS bucket, min(s.ts_ns) - p.t0 AS from_start_ns,
    min(s.in_use) AS least_bytes, max(s.in_use) AS most_bytes, count(*) AS changes
FROM samples AS s, span AS p GROUP BY bucket ORDER BY bucket;
