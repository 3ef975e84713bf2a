-- Which evictions could as well have hit another storage: whose score was closest to the victim's?
WITH r (run) AS (SELECT coalesce(:run, (SELECT min(id) FROM run WHERE has_events = 1))),
ranked AS MATERIALIZED (
    SELECT c.decision, c.rank, c.storage, c.score FROM r JOIN candidate AS c ON c.run = r.run
    WHERE c.rank <= 1)
SELECT v.decision, v.storage AS victim, v.score, o.storage AS next_best, o.score AS next_score
FROM ranked AS v JOIN ranked AS o ON o.decision = v.decision AND o.rank = 1
WHERE v.rank = 0 ORDER BY o.score / v.score, v.decision LIMIT 20;
