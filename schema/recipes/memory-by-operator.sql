-- Which operators' outputs held most memory, in bytes times time?
WITH r (run) AS (SELECT coalesce(:run, (SELECT min(id) FROM run WHERE has_events = 1))),
changes AS MATERIALIZED (
    SELECT a.storage, a.ts_ns, a.seq, a.bytes, 1 AS resident FROM r JOIN allocation AS a ON a.run = r.run
    UNION ALL SELECT e.storage, e.ts_ns, e.seq, 0, 0 FROM r JOIN eviction AS e ON e.run = r.run
    UNION ALL SELECT f.storage, f.ts_ns, f.seq, 0, 0 FROM r JOIN freeing AS f ON f.run = r.run),
ends AS (SELECT max(ts_ns) AS ts_ns FROM changes),
stays AS MATERIALIZED (
    SELECT storage, bytes, resident,
        coalesce(lead(ts_ns) OVER (PARTITION BY storage ORDER BY seq), (SELECT ts_ns FROM ends)) - ts_ns
            AS stayed_ns
    FROM changes),
makers AS MATERIALIZED (
    SELECT t.storage, min(t.op) AS op FROM r JOIN tensor AS t ON t.run = r.run
    WHERE t.view_of IS NULL GROUP BY t.storage),
names AS MATERIALIZED (SELECT o.op, o.name FROM r JOIN operator AS o ON o.run = r.run)
SELECT coalesce(n.name, 'constants') AS operator, count(*) AS stays,
    sum(s.bytes * 1.0 * s.stayed_ns) / 1e9 AS byte_seconds
FROM stays AS s LEFT JOIN makers AS m ON m.storage = s.storage LEFT JOIN names AS n ON n.op = m.op
WHERE s.resident = 1 GROUP BY 1 ORDER BY byte_seconds DESC, operator LIMIT 20;
