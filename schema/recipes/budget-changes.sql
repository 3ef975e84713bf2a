-- When did the budget change, and how much was in use then?
WITH r (run) AS (SELECT coalesce(:run, (SELECT min(id) FROM run WHERE has_events = 1))),
facts AS MATERIALIZED (
    SELECT b.seq, b.ts_ns, b.budget, NULL AS in_use, 1 AS is_budget FROM r JOIN budget AS b ON b.run = r.run
    UNION ALL SELECT a.seq, a.ts_ns, NULL, a.in_use, 0 FROM r JOIN allocation AS a ON a.run = r.run
    UNION ALL SELECT f.seq, f.ts_ns, NULL, f.in_use, 0 FROM r JOIN freeing AS f ON f.run = r.run
    UNION ALL SELECT e.seq, e.ts_ns, NULL, e.in_use, 0 FROM r JOIN eviction AS e ON e.run = r.run)
SELECT ts_ns, budget, before AS in_use_before
FROM (SELECT *, lag(in_use) OVER (ORDER BY seq) AS before FROM facts) WHERE is_budget = 1 ORDER BY seq;
