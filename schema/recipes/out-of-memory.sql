-- Which operators did not fit, and why?
WITH r (run) AS (SELECT coalesce(:run, (SELECT min(id) FROM run WHERE has_events = 1))),
names AS MATERIALIZED (SELECT o.op, o.name FROM r JOIN operator AS o ON o.run = r.run)
SELECT x.ts_ns, x.op, n.name, x.needed, x.in_use, x.budget, x.operator_bytes,
    CASE WHEN x.overshoot = 1 THEN 'ran above the budget' ELSE 'failed' END AS outcome
FROM r JOIN out_of_memory AS x ON x.run = r.run LEFT JOIN names AS n ON n.op = x.op
ORDER BY x.seq LIMIT 20;
