-- What did each kind of operator cost at each combination of element types and shapes?
WITH r (run) AS (SELECT coalesce(:run, (SELECT min(id) FROM run WHERE has_events = 1))),
cost AS MATERIALIZED (
    SELECT o.op, o.name, sum(o.replay = 0) AS first_runs, sum(o.replay = 1) AS replays,
        sum(o.cost_ns) AS cost_ns
    FROM r JOIN operator_run AS o ON o.run = r.run GROUP BY o.op, o.name)
SELECT c.name, coalesce(s.name, '') AS signature, sum(c.first_runs) AS first_runs,
    sum(c.replays) AS replays, sum(c.cost_ns) AS cost_ns
FROM cost AS c CROSS JOIN r LEFT JOIN signature AS s ON s.run = r.run AND s.op = c.op
GROUP BY c.name, s.name ORDER BY sum(c.cost_ns) DESC, c.name, signature LIMIT 50;
