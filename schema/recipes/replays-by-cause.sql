-- Which operators' requests made others run again, and what did that cost?
WITH r (run) AS (SELECT coalesce(:run, (SELECT min(id) FROM run WHERE has_events = 1))),
names AS MATERIALIZED (SELECT o.op, o.name FROM r JOIN operator AS o ON o.run = r.run),
causes AS MATERIALIZED (
    SELECT c.cause, count(*) AS chains, sum(c.runs) AS replays, sum(c.cost_ns) AS cost_ns
    FROM r JOIN chain AS c ON c.run = r.run GROUP BY c.cause)
SELECT coalesce(n.name, 'the program') AS cause, sum(c.chains) AS chains, sum(c.replays) AS replays,
    sum(c.cost_ns) AS cost_ns
FROM causes AS c LEFT JOIN names AS n ON n.op = c.cause GROUP BY 1 ORDER BY cost_ns DESC, cause LIMIT 20;
