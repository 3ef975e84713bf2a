-- Which storages were still in memory at the end, and how long had nobody read them?
WITH r (run) AS (SELECT coalesce(:run, (SELECT min(id) FROM run WHERE has_events = 1))),
changes AS MATERIALIZED (
    SELECT a.storage, a.seq, a.ts_ns, a.bytes, 1 AS resident FROM r JOIN allocation AS a ON a.run = r.run
    UNION ALL SELECT e.storage, e.seq, e.ts_ns, 0, 0 FROM r JOIN eviction AS e ON e.run = r.run
    UNION ALL SELECT f.storage, f.seq, f.ts_ns, 0, 0 FROM r JOIN freeing AS f ON f.run = r.run),
last AS (SELECT storage, bytes, resident, max(seq) AS seq FROM changes GROUP BY storage),
kept AS MATERIALIZED (SELECT storage, bytes FROM last WHERE resident = 1),
tensors AS MATERIALIZED (SELECT t.tensor, t.storage FROM r JOIN tensor AS t ON t.run = r.run),
reads AS MATERIALIZED (
    SELECT t.storage, max(p.ts_ns) AS ts_ns FROM r JOIN operand AS p ON p.run = r.run
    JOIN tensors AS t ON t.tensor = p.tensor GROUP BY t.storage)
SELECT k.storage, k.bytes, (SELECT max(ts_ns) FROM changes) - d.ts_ns AS unread_ns
FROM kept AS k LEFT JOIN reads AS d ON d.storage = k.storage
ORDER BY k.bytes DESC, k.storage LIMIT 20;
