-- When was the storage that was evicted most often in memory?
WITH r (run) AS (SELECT coalesce(:run, (SELECT min(id) FROM run WHERE has_events = 1))),
one AS MATERIALIZED (
    SELECT e.storage FROM r JOIN eviction AS e ON e.run = r.run WHERE e.reason = 0
    GROUP BY e.storage ORDER BY count(*) DESC, e.storage LIMIT 1),
changes AS MATERIALIZED (
    SELECT a.storage, a.ts_ns, a.seq, 1 AS resident FROM r JOIN allocation AS a ON a.run = r.run
    WHERE a.storage = (SELECT storage FROM one)
    UNION ALL
    SELECT e.storage, e.ts_ns, e.seq, 0 FROM r JOIN eviction AS e ON e.run = r.run
    WHERE e.storage = (SELECT storage FROM one)
    UNION ALL
    SELECT f.storage, f.ts_ns, f.seq, 0 FROM r JOIN freeing AS f ON f.run = r.run
    WHERE f.storage = (SELECT storage FROM one))
SELECT storage, ts_ns AS from_ns, to_ns, to_ns - ts_ns AS stayed_ns
FROM (SELECT *, lead(ts_ns) OVER (ORDER BY seq) AS to_ns FROM changes) WHERE resident = 1
ORDER BY ts_ns;
