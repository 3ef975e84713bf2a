-- Which storages came back within 1 ms of their eviction, and how often?
WITH r (run) AS (SELECT coalesce(:run, (SELECT min(id) FROM run WHERE has_events = 1))),
changes AS MATERIALIZED (
    SELECT e.storage, e.ts_ns, e.seq, 1 AS evicted FROM r JOIN eviction AS e ON e.run = r.run
    WHERE e.reason = 0
    UNION ALL
    SELECT a.storage, a.ts_ns, a.seq, 0 FROM r JOIN allocation AS a ON a.run = r.run),
next AS (
    SELECT storage, ts_ns, evicted, lead(ts_ns) OVER w AS back_ns, lead(evicted) OVER w AS then_evicted
    FROM changes WINDOW w AS (PARTITION BY storage ORDER BY seq))
SELECT storage, count(*) AS times, min(back_ns - ts_ns) AS least_ns, sum(back_ns - ts_ns) AS away_ns
FROM next WHERE evicted = 1 AND then_evicted = 0 AND back_ns - ts_ns <= 1000000
GROUP BY storage ORDER BY times DESC, storage LIMIT 20;
