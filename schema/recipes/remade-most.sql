-- Which operators ran again most, and what did that cost?
WITH r (run) AS (SELECT coalesce(:run, (SELECT min(id) FROM run WHERE has_events = 1)))
SELECT o.op, o.name, count(*) AS replays, sum(o.cost_ns) AS cost_ns, sum(o.dur_ns) AS dur_ns
FROM r JOIN operator_run AS o ON o.run = r.run WHERE o.replay = 1
GROUP BY o.op ORDER BY cost_ns DESC, o.op LIMIT 20;
