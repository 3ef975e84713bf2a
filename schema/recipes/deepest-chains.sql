-- Which rematerializations pulled in the longest chains?
WITH r (run) AS (SELECT coalesce(:run, (SELECT min(id) FROM run WHERE has_events = 1)))
SELECT c.chain, c.tensor, c.runs, c.max_depth, c.cost_ns, c.dur_ns, c.ts_ns
FROM r JOIN chain AS c ON c.run = r.run ORDER BY c.max_depth DESC, c.chain LIMIT 20;
