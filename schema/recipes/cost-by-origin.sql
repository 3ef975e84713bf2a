-- Which places in the program (with --stacks) had most replayed?
WITH r (run) AS (SELECT coalesce(:run, (SELECT min(id) FROM run WHERE has_events = 1))),
costs AS MATERIALIZED (
    SELECT o.op, count(*) AS replays, sum(o.cost_ns) AS cost_ns
    FROM r JOIN operator_run AS o ON o.run = r.run WHERE o.replay = 1 GROUP BY o.op),
origins AS MATERIALIZED (SELECT g.op, g.frame FROM r JOIN origin AS g ON g.run = r.run),
frames AS MATERIALIZED (SELECT f.frame, f.name FROM r JOIN frame AS f ON f.run = r.run)
SELECT coalesce(f.name, 'unknown') AS place, count(*) AS operators, sum(c.replays) AS replays,
    sum(c.cost_ns) AS cost_ns
FROM costs AS c LEFT JOIN origins AS g ON g.op = c.op LEFT JOIN frames AS f ON f.frame = g.frame
GROUP BY 1 ORDER BY cost_ns DESC, place LIMIT 20;
