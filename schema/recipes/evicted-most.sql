-- Which storages were evicted for the budget most often, and what made them?
WITH r (run) AS (SELECT coalesce(:run, (SELECT min(id) FROM run WHERE has_events = 1))),
counts AS MATERIALIZED (
    SELECT e.storage, max(e.bytes) AS bytes, count(*) AS evictions
    FROM r JOIN eviction AS e ON e.run = r.run WHERE e.reason = 0 GROUP BY e.storage),
makers AS MATERIALIZED (
    SELECT t.storage, min(t.op) AS op FROM r JOIN tensor AS t ON t.run = r.run
    WHERE t.view_of IS NULL GROUP BY t.storage),
names AS MATERIALIZED (SELECT o.op, o.name FROM r JOIN operator AS o ON o.run = r.run)
SELECT c.storage, c.bytes, c.evictions, m.op, n.name
FROM counts AS c LEFT JOIN makers AS m ON m.storage = c.storage LEFT JOIN names AS n ON n.op = m.op
ORDER BY c.evictions DESC, c.storage LIMIT 20;
